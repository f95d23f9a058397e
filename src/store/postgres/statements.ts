import { COUNTERS } from '../../core/counters.js';
import { OWN_CALL, UNKNOWN_TEXT } from '../ledger.js';

/** The ledger's statements on PostgreSQL, one per method. The clock is always the server's. */

const NAMES = COUNTERS.join(', ');
/** Numbered from `from`: `$5::bigint, $6::bigint`. */
const parameters = (from: number, type: string): string =>
  COUNTERS.map((_, i) => `$${from + i}::${type}`).join(', ');

const isUnknown = (outcome: string): string => `strpos(${outcome}, '${UNKNOWN_TEXT}') > 0`;

/** Name by name. Most writes count nothing of endpoints. */
const sumOf = (a: string, b: string): string => `CASE WHEN ${b} = '{}' THEN ${a} ELSE (
  SELECT jsonb_object_agg(name, n) FROM (
    SELECT name, sum(n::bigint) AS n
    FROM (SELECT * FROM jsonb_each_text(${a}) UNION ALL SELECT * FROM jsonb_each_text(${b})) AS each (name, n)
    GROUP BY name
  ) AS sums
) END`;

/** $1 run, $2 execution, $3 committed, $4 lease in ms, $5 may seed, $6 count lost calls, $7… counters, those of endpoints */
export const OPEN = `
WITH before AS MATERIALIZED (
  SELECT execution < $2::integer AND $6::boolean AS lost FROM promptmill.run WHERE run = $1
), head AS (
  INSERT INTO promptmill.run AS r (run, execution, committed, alive_until)
  SELECT $1::text, $2::integer, $3::bigint, clock_timestamp() + $4::bigint * interval '1 millisecond'
  WHERE $5::boolean OR EXISTS (SELECT FROM promptmill.calls WHERE run = $1 AND writer = '')
  ON CONFLICT (run) DO UPDATE SET
    execution = excluded.execution,
    committed = greatest(r.committed, excluded.committed),
    alive_until = excluded.alive_until,
    seen_at = now(),
    stop = CASE WHEN r.execution BETWEEN 1 AND excluded.execution - 1 THEN NULL ELSE r.stop END
  WHERE r.execution <= excluded.execution
  RETURNING r.run, r.committed
), seed AS (
  INSERT INTO promptmill.calls (run, writer, ${NAMES}, of_endpoints)
  SELECT run, '', ${parameters(7, 'bigint')}, $${7 + COUNTERS.length}::jsonb FROM head
  ON CONFLICT (run, writer) DO UPDATE SET seen_at = now()
), lost AS (
  DELETE FROM promptmill.flight AS f USING head, before
  WHERE before.lost AND f.run = head.run AND f.calls[1] LIKE '${OWN_CALL}%' AND cardinality(f.calls) = 1
  RETURNING f.row
), counted AS (
  INSERT INTO promptmill.calls AS c (run, writer, ${NAMES})
  SELECT head.run, 'lost', ${COUNTERS.map((name) => (name === 'repeated' ? '(SELECT count(*) FROM lost)' : '0')).join(', ')}
  FROM head, before WHERE before.lost
  ON CONFLICT (run, writer) DO UPDATE SET repeated = c.repeated + excluded.repeated
), written AS (
  DELETE FROM promptmill.outcome AS o USING head WHERE o.run = head.run AND o.row <= head.committed
)
SELECT EXISTS (SELECT FROM head) AS open
`;

/** The worker's own, plus outcomes given that count and were not kept, plus other calls of rows that end. */
const REPEATED = `n.repeated
    + (SELECT count(*) FROM given AS g WHERE g.run = n.run AND g.counts)
    - (SELECT count(*) FROM taken AS t WHERE t.run = n.run AND t.counts)
    + (SELECT coalesce(sum(t.others), 0) FROM taken AS t WHERE t.run = n.run)`;

/** Raise it with every change of the tables or the function; tables of another layout are refused. */
export const LAYOUT = '1';

const FUNCTION = 'promptmill.write';

/** Parameters of WRITE, name and type, in the order of the arguments of every call. */
const PARAMETERS = [
  ['by_writer', 'text'],
  ['write_number', 'bigint'],
  // Runs to write to, in order; whether nobody else may write to them meanwhile; tokens known to be spent.
  ['runs', 'text[]'],
  ['alone', 'boolean[]'],
  ['prompt_at_least', 'bigint[]'],
  ['completion_at_least', 'bigint[]'],
  ...COUNTERS.map((name) => [`add_${name}`, 'bigint[]']),
  ['add_of_endpoints', 'jsonb[]'],
  // What is settled, one per row.
  ['s_runs', 'text[]'],
  ['s_firsts', 'bigint[]'],
  ['s_rows', 'bigint[]'],
  ['s_calls', 'text[]'],
  ['s_outcomes', 'text[]'],
  // How often the row was asked, for an interim outcome; else 0.
  ['s_asks', 'integer[]'],
  // What to reserve, one per row; `requests` are the numbers of their reservations.
  ['requests', 'integer[]'],
  ['r_runs', 'text[]'],
  ['r_firsts', 'bigint[]'],
  ['r_rows', 'bigint[]'],
  ['r_executions', 'integer[]'],
  ['r_calls', 'text[]'],
  ['r_holds', 'boolean[]'],
  ['r_looks', 'boolean[]'],
  ['r_prompts', 'bigint[]'],
  ['r_completions', 'bigint[]'],
  // Budgets, one per reservation; null where there is none.
  ['b_tokens', 'float8[]'],
  ['b_costs', 'float8[]'],
  ['b_prompt_prices', 'float8[]'],
  ['b_completion_prices', 'float8[]'],
] as const;

/**
 * A function takes its locks first and then sees what others wrote until it got them, and is planned once per
 * connection: without `force_generic_plan` PostgreSQL plans parts of it in each call, a tenth of its time.
 *
 * The share lock on the run orders this and a commit that moves the mark: otherwise an outcome could slip in
 * behind the mark, and a second payment for a row on disk would go uncounted. Where a budget or `hold`
 * decides, the lock is exclusive: of two workers that ask at once, the second sees what the first was
 * granted. The lock on the rows in flight does the same for two calls of one row that end at once. A write
 * whose number is among the writer's last 64 was done already: outcomes and counters stay, and nothing more
 * is reserved. `kept` in the answer: every outcome is there as given, and none is unknown, which a real one
 * could replace.
 */
export const MAKE_WRITE = `
CREATE OR REPLACE FUNCTION ${FUNCTION}(${PARAMETERS.map((parameter) => parameter.join(' ')).join(', ')})
RETURNS json LANGUAGE plpgsql SET enable_seqscan TO off SET plan_cache_mode TO force_generic_plan AS $write$
DECLARE
  is_new boolean;
  is_kept boolean := false;
  states text[];
  details text[];
  ages bigint[];
  full_requests integer[] := '{}';
  asked record;
  spent_run text;
  spent_prompt float8;
  spent_completion float8;
BEGIN
  FOR i IN 1 .. cardinality(runs) LOOP
    IF alone[i] THEN
      PERFORM FROM promptmill.run AS h WHERE h.run = runs[i] FOR UPDATE;
    ELSE
      PERFORM FROM promptmill.run AS h WHERE h.run = runs[i] FOR SHARE;
    END IF;
  END LOOP;
  SELECT NOT coalesce(bool_or(done.written @> ARRAY[write_number]), false) INTO is_new FROM (
    SELECT c.written FROM promptmill.calls AS c
    WHERE c.run = ANY(runs) AND c.writer = by_writer ORDER BY c.run FOR UPDATE
  ) AS done;

  IF cardinality(s_runs) + cardinality(r_runs) > 0 THEN
    PERFORM FROM promptmill.flight AS f
    WHERE (f.run, f.row) IN (
      SELECT * FROM unnest(s_runs, s_rows)
      UNION SELECT r.run, r.row FROM unnest(r_runs, r_rows, r_looks) AS r (run, row, looks) WHERE NOT r.looks
    )
    ORDER BY f.run, f.row FOR UPDATE;
  END IF;

  IF is_new AND cardinality(runs) > 0 THEN
    WITH given_all AS MATERIALIZED (
      SELECT * FROM unnest(s_runs, s_firsts, s_rows, s_calls, s_outcomes, s_asks)
        WITH ORDINALITY AS s (run, first, row, call, outcome, asks, nth)
    ), flown AS MATERIALIZED (
      SELECT f.run, f.row, f.calls, ARRAY(
        SELECT u.call FROM unnest(f.calls) WITH ORDINALITY AS u (call, nth)
        WHERE NOT EXISTS (SELECT FROM given_all AS s WHERE s.run = f.run AND s.row = f.row AND s.call = u.call)
        ORDER BY u.nth
      ) AS others
      FROM promptmill.flight AS f WHERE (f.run, f.row) IN (SELECT s.run, s.row FROM given_all AS s)
    ), given AS MATERIALIZED (
      SELECT g.*, g.call = '' OR coalesce(f.calls @> ARRAY[g.call], false) AS counts,
        coalesce(cardinality(f.others), 0) AS others
      FROM given_all AS g LEFT JOIN flown AS f USING (run, row)
      WHERE g.outcome IS NOT NULL AND NOT (g.asks > 0 AND EXISTS (
        SELECT FROM given_all AS l WHERE l.run = g.run AND l.row = g.row AND l.nth > g.nth
          AND l.outcome IS NOT NULL AND l.asks NOT BETWEEN 1 AND g.asks
      ))
    ), kept AS (
      INSERT INTO promptmill.outcome AS o (run, first, row, outcome, asks)
      SELECT DISTINCT ON (g.run, g.first, g.row) g.run, g.first, g.row, g.outcome, g.asks
      FROM given AS g LEFT JOIN promptmill.run AS h ON h.run = g.run
      WHERE g.row > coalesce(h.committed, 0)
      ORDER BY g.run, g.first, g.row, g.nth
      ON CONFLICT (run, first, row) DO UPDATE SET
        outcome = excluded.outcome, seen_at = now(), asks = CASE WHEN o.asks > 0 THEN excluded.asks ELSE 0 END
      WHERE CASE WHEN o.asks > 0 THEN excluded.asks NOT BETWEEN 1 AND o.asks
        ELSE ${isUnknown('o.outcome')} AND NOT ${isUnknown('excluded.outcome')} END
      RETURNING o.run, o.row, o.asks
    ), taken AS (
      SELECT DISTINCT ON (g.run, g.row) g.run, g.row, g.counts, g.asks,
        CASE WHEN k.asks > 0 OR ${isUnknown('g.outcome')} THEN 0 ELSE g.others END AS others
      FROM given AS g JOIN kept AS k USING (run, row)
      ORDER BY g.run, g.row, g.nth
    ), landed AS (
      DELETE FROM promptmill.flight AS f USING flown AS w
      WHERE f.run = w.run AND f.row = w.row AND (
        w.others = '{}' OR EXISTS (SELECT FROM kept AS k WHERE k.run = w.run AND k.row = w.row AND k.asks = 0)
      )
    ), thinned AS (
      UPDATE promptmill.flight AS f SET calls = w.others
      FROM flown AS w
      WHERE f.run = w.run AND f.row = w.row AND w.others NOT IN ('{}', w.calls)
        AND NOT EXISTS (SELECT FROM kept AS k WHERE k.run = w.run AND k.row = w.row AND k.asks = 0)
    ), counted AS (
      INSERT INTO promptmill.calls AS c (run, writer, ${NAMES}, of_endpoints, written)
      SELECT n.run, by_writer, ${COUNTERS.map((name) => (name === 'repeated' ? REPEATED : `n.${name}`)).join(', ')},
        n.of_endpoints, ARRAY[write_number]
      FROM unnest(runs, ${COUNTERS.map((name) => `add_${name}`).join(', ')}, add_of_endpoints)
        AS n (run, ${NAMES}, of_endpoints)
      ON CONFLICT (run, writer) DO UPDATE SET
        ${COUNTERS.map((name) => `${name} = c.${name} + excluded.${name}`).join(', ')},
        of_endpoints = ${sumOf('c.of_endpoints', 'excluded.of_endpoints')},
        written = (c.written || excluded.written)[greatest(1, cardinality(c.written) - 62):],
        seen_at = now()
      WHERE NOT c.written @> excluded.written
    )
    SELECT (SELECT count(*) FROM given AS g WHERE g.asks = 0) = (SELECT count(*) FROM taken AS t WHERE t.asks = 0)
      AND NOT EXISTS (SELECT FROM given AS g WHERE ${isUnknown('g.outcome')})
    INTO is_kept;
  END IF;
  IF cardinality(r_runs) = 0 THEN
    RETURN json_build_object('rows', '[]'::json, 'spent', '{}'::json, 'kept', is_kept);
  END IF;

  SELECT
    array_agg(CASE WHEN d.state = 'free' AND d.turn > 1 THEN 'no_room' ELSE d.state END ORDER BY d.nth),
    array_agg(CASE d.state WHEN 'held' THEN d.holder WHEN 'granted' THEN d.interim END ORDER BY d.nth),
    array_agg(d.age ORDER BY d.nth)
  INTO states, details, ages
  FROM (
    SELECT r.*, row_number() OVER (PARTITION BY r.run, r.row, r.state ORDER BY r.nth) AS turn FROM (
      SELECT r.nth, r.run, r.row,
        CASE
          WHEN h.run IS NULL THEN 'unwanted'
          WHEN o.asks = 0 THEN 'known'
          WHEN f.calls @> ARRAY[r.call] THEN 'granted'
          WHEN r.hold AND f.row IS NOT NULL THEN 'held'
          WHEN r.looks THEN 'granted'
          WHEN is_new THEN 'free'
          ELSE 'no_room'
        END AS state,
        CASE WHEN r.looks THEN o.outcome END AS interim,
        f.calls[1] AS holder, floor(1000 * extract(epoch FROM clock_timestamp() - f.seen_at))::bigint AS age
      FROM unnest(r_runs, r_firsts, r_rows, r_executions, r_calls, r_holds, r_looks)
        WITH ORDINALITY AS r (run, first, row, execution, call, hold, looks, nth)
      LEFT JOIN promptmill.run AS h ON h.run = r.run AND h.execution = r.execution
        AND h.committed < r.row AND h.alive_until > clock_timestamp()
      LEFT JOIN promptmill.outcome AS o ON o.run = r.run AND o.first = r.first AND o.row = r.row
      LEFT JOIN promptmill.flight AS f ON f.run = r.run AND f.row = r.row
    ) AS r
  ) AS d;

  FOR asked IN
    SELECT r.run, r.request, sum(r.prompt)::float8 AS prompt, sum(r.completion)::float8 AS completion
    FROM unnest(requests, r_runs, r_prompts, r_completions, states) AS r (request, run, prompt, completion, state)
    WHERE r.state = 'free' AND b_tokens[r.request] IS NOT NULL
    GROUP BY r.run, r.request ORDER BY r.run, r.request
  LOOP
    IF asked.run IS DISTINCT FROM spent_run THEN
      spent_run := asked.run;
      SELECT greatest(coalesce(sum(c.prompt_tokens), 0), prompt_at_least[array_position(runs, spent_run)]),
        greatest(coalesce(sum(c.completion_tokens), 0), completion_at_least[array_position(runs, spent_run)])
      INTO spent_prompt, spent_completion FROM promptmill.calls AS c WHERE c.run = spent_run;
    END IF;
    IF spent_prompt + asked.prompt + spent_completion + asked.completion <= b_tokens[asked.request]
      AND (spent_prompt + asked.prompt) * b_prompt_prices[asked.request]
        + (spent_completion + asked.completion) * b_completion_prices[asked.request] <= b_costs[asked.request]
    THEN
      spent_prompt := spent_prompt + asked.prompt;
      spent_completion := spent_completion + asked.completion;
    ELSE
      full_requests := full_requests || asked.request;
    END IF;
  END LOOP;

  IF 'free' = ANY(states) THEN
    WITH granted AS MATERIALIZED (
      SELECT r.* FROM unnest(requests, r_runs, r_rows, r_calls, r_holds, r_prompts, r_completions, states)
        AS r (request, run, row, call, hold, prompt, completion, state)
      WHERE r.state = 'free' AND r.request <> ALL(full_requests)
    ), flying AS (
      INSERT INTO promptmill.flight AS f (run, row, calls, hold)
      SELECT g.run, g.row, ARRAY[g.call], g.hold FROM granted AS g ORDER BY g.run, g.row
      ON CONFLICT (run, row) DO UPDATE SET calls = f.calls || excluded.calls, seen_at = clock_timestamp()
    )
    UPDATE promptmill.calls AS c SET
      sent = c.sent + g.sent,
      prompt_tokens = c.prompt_tokens + g.prompt,
      completion_tokens = c.completion_tokens + g.completion
    FROM (
      SELECT run, count(DISTINCT request) AS sent, sum(prompt) AS prompt, sum(completion) AS completion
      FROM granted GROUP BY run
    ) AS g
    WHERE c.run = g.run AND c.writer = by_writer;
  END IF;

  RETURN json_build_object(
    'rows', (
      SELECT json_agg(CASE
          WHEN r.detail IS NOT NULL THEN json_build_array(r.state, r.detail, r.age)
          WHEN r.state <> 'free' THEN json_build_array(r.state)
          WHEN r.request = ANY(full_requests) THEN json_build_array('no_room')
          ELSE json_build_array('granted')
        END ORDER BY r.nth)
      FROM unnest(requests, states, details, ages) WITH ORDINALITY AS r (request, state, detail, age, nth)
    ),
    'spent', (
      SELECT coalesce(json_object_agg(n.run, json_build_array(
          greatest(s.prompt, n.prompt), greatest(s.completion, n.completion),
          (SELECT count(*) FROM promptmill.flight AS f WHERE f.run = n.run)
        )), '{}')
      FROM unnest(runs, prompt_at_least, completion_at_least) AS n (run, prompt, completion), LATERAL (
        SELECT coalesce(sum(c.prompt_tokens), 0) AS prompt, coalesce(sum(c.completion_tokens), 0) AS completion
        FROM promptmill.calls AS c WHERE c.run = n.run
      ) AS s
      WHERE full_requests <> '{}' OR 'no_room' = ANY(states)
    ),
    'kept', is_kept
  );
END
$write$;
`;

export const WRITE_SIGNATURE = `${FUNCTION}(${PARAMETERS.map(([, type]) => type).join(', ')})`;

/** The outcomes are one text, a line for each, empty where there is none. */
const argument = (name: string, i: number): string =>
  name === 's_outcomes' ? `string_to_array($${i + 1}, E'\\n', '')` : `$${i + 1}`;

export const WRITE = `SELECT ${FUNCTION}(${PARAMETERS.map(([name], i) => argument(name, i)).join(', ')}) AS answers`;

export const WAITING =
  'SELECT count(*)::integer AS waiting FROM promptmill.outcome WHERE run = $1 AND asks = 0';

/** $1 run, $2 reason, $3 execution. An emptied store may get the reason before the run. */
export const STOP = `
INSERT INTO promptmill.run AS r (run, execution, committed, alive_until, stop)
VALUES ($1, 0, 0, '-infinity', $2)
ON CONFLICT (run) DO UPDATE SET stop = coalesce(r.stop, excluded.stop)
WHERE r.execution <= $3
`;

/** $1 run, $2 first rows */
export const PROGRESS = `
SELECT
  (SELECT coalesce(json_object_agg(first, n), '{}') FROM (
    SELECT first, count(*) AS n FROM promptmill.outcome
    WHERE run = $1 AND first = ANY($2::bigint[]) AND asks = 0 GROUP BY first
  ) AS chunk) AS counts,
  (SELECT json_build_object(
    ${COUNTERS.map((name) => `'${name}', coalesce(sum(${name}), 0)`).join(', ')}
  ) FROM promptmill.calls WHERE run = $1) AS calls,
  (SELECT coalesce(json_object_agg(name, n), '{}') FROM (
    SELECT name, sum(n::bigint) AS n
    FROM promptmill.calls, jsonb_each_text(of_endpoints) AS each (name, n) WHERE run = $1 GROUP BY name
  ) AS sums) AS of_endpoints,
  (SELECT count(*)::integer FROM promptmill.flight WHERE run = $1) AS in_flight,
  EXISTS (SELECT FROM promptmill.calls WHERE run = $1 AND writer = '') AS opened,
  (SELECT stop FROM promptmill.run WHERE run = $1) AS stop
`;

/** $1 run, $2 first row */
export const OUTCOMES =
  'SELECT row, outcome FROM promptmill.outcome WHERE run = $1 AND first = $2 AND asks = 0';

/** $1 run, $2 rows */
export const INTERIM =
  'SELECT row, outcome FROM promptmill.outcome WHERE run = $1 AND row = ANY($2::bigint[]) AND asks > 0';

/** $1 run, $2 committed, $3 lease in ms, $4 first rows */
export const FORGET = `
WITH head AS (
  UPDATE promptmill.run SET
    committed = greatest(committed, $2),
    alive_until = clock_timestamp() + $3 * interval '1 millisecond',
    seen_at = now()
  WHERE run = $1 AND execution > 0
)
DELETE FROM promptmill.outcome WHERE run = $1 AND first = ANY($4::bigint[])
`;

export const CLOSE = `
WITH outcomes AS (DELETE FROM promptmill.outcome WHERE run = $1),
  flight AS (DELETE FROM promptmill.flight WHERE run = $1),
  counters AS (DELETE FROM promptmill.calls WHERE run = $1)
DELETE FROM promptmill.run WHERE run = $1
`;
