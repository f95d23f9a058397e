import { COUNTERS } from '../counters.js';
import { OWN, UNKNOWN_TEXT } from '../ledger.js';

/** The ledger's statements on PostgreSQL, one for each method. The clock is always the server's. */

const NAMES = COUNTERS.join(', ');
/** The counters' parameters, from a number on: `$5::bigint, $6::bigint`. */
const parameters = (from: number, type: string): string =>
  COUNTERS.map((_, i) => `$${from + i}::${type}`).join(', ');

/** What opening adds to the counters, by the calls that were lost. */
const LOST: Partial<Record<(typeof COUNTERS)[number], string>> = {
  repeated: 'earlier.nameless + (SELECT count(*) FROM lost)',
  in_flight: '-earlier.nameless',
};

/** Whether the JSON of an outcome says that there is none. */
const isUnknown = (outcome: string): string => `strpos(${outcome}, '${UNKNOWN_TEXT}') > 0`;

/**
 * $1 run, $2 execution, $3 committed, $4 lease in ms, $5 whether the counters may be seeded, $6 whether calls that were
 * lost with an earlier execution count as repeated, $7… counters. An earlier version counted rows in flight without names.
 */
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
  INSERT INTO promptmill.calls (run, writer, ${NAMES})
  SELECT run, '', ${parameters(7, 'bigint')} FROM head
  ON CONFLICT (run, writer) DO UPDATE SET seen_at = now()
), lost AS (
  DELETE FROM promptmill.flight AS f USING head, before
  WHERE before.lost AND f.run = head.run AND f.calls[1] LIKE '${OWN}%' AND cardinality(f.calls) = 1
  RETURNING f.row
), counted AS (
  INSERT INTO promptmill.calls AS c (run, writer, ${NAMES})
  SELECT head.run, 'lost', ${COUNTERS.map((name) => LOST[name] ?? '0').join(', ')}
  FROM head, before, (
    SELECT coalesce(sum(in_flight), 0)::bigint AS nameless FROM promptmill.calls WHERE run = $1
  ) AS earlier
  WHERE before.lost
  ON CONFLICT (run, writer) DO UPDATE SET
    repeated = c.repeated + excluded.repeated, in_flight = c.in_flight + excluded.in_flight
), written AS (
  DELETE FROM promptmill.outcome AS o USING head WHERE o.run = head.run AND o.row <= head.committed
)
SELECT EXISTS (SELECT FROM head) AS open
`;

/** $1 run, $2 first row, $3 execution, $4 rows */
export const STANDING = `
SELECT
  EXISTS (
    SELECT FROM promptmill.run
    WHERE run = $1 AND execution = $3 AND committed < $2 AND alive_until > clock_timestamp()
  ) AS wanted,
  (SELECT coalesce(json_agg(row), '[]') FROM promptmill.outcome WHERE run = $1 AND first = $2) AS known,
  (SELECT coalesce(json_agg(json_build_array(
      row, calls[1], floor(1000 * extract(epoch FROM clock_timestamp() - seen_at))
    )), '[]')
    FROM promptmill.flight WHERE run = $1 AND row = ANY($4::bigint[])
  ) AS in_flight
`;

/** Those of the worker; the outcomes that were given, count, and were not kept; the other calls of rows that end. */
const REPEATED = `n.repeated
  + (SELECT count(*) FROM given AS g WHERE g.run = n.run AND g.counts)
  - (SELECT count(*) FROM ended AS e WHERE e.run = n.run AND e.counts)
  + (SELECT coalesce(sum(e.others), 0) FROM ended AS e WHERE e.run = n.run)`;

/**
 * $1 writer, $2 number of the write, $3 runs, $4 firsts, $5 rows, $6 outcomes, $7 calls, then of calls that ended
 * $8 runs, $9 rows, $10 calls, then by run: $11 runs, $12… counters.
 *
 * The share lock makes a commit that moves the mark wait for this, or this for it: otherwise an outcome could
 * slip in behind the mark, and a second payment for a row that is on disk would go uncounted. The lock on the rows in
 * flight does the same for two calls of one row that end at the same time. A write whose number is among the writer's
 * last 64 was done already: the outcomes are there, and the counters stay.
 */
export const RECORD = `
WITH head AS MATERIALIZED (
  SELECT run, committed FROM promptmill.run WHERE run = ANY($3::text[]) ORDER BY run FOR SHARE
), settled AS MATERIALIZED (
  SELECT * FROM unnest($8::text[], $9::bigint[], $10::text[]) AS s (run, row, call)
), flown AS MATERIALIZED (
  SELECT run, row, calls FROM promptmill.flight
  WHERE (run, row) IN (
    SELECT * FROM unnest($3::text[], $5::bigint[]) UNION SELECT run, row FROM settled
  )
  ORDER BY run, row FOR UPDATE
), given AS MATERIALIZED (
  SELECT g.*, g.call = '' OR coalesce(f.calls @> ARRAY[g.call], false) AS counts,
    (SELECT count(*) FROM unnest(f.calls) AS c WHERE NOT EXISTS (
      SELECT FROM settled AS s WHERE s.run = g.run AND s.row = g.row AND s.call = c
    )) AS others
  FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
    WITH ORDINALITY AS g (run, first, row, outcome, call, nth)
  LEFT JOIN flown AS f USING (run, row)
), kept AS (
  INSERT INTO promptmill.outcome AS o (run, first, row, outcome)
  SELECT DISTINCT ON (g.run, g.first, g.row) g.run, g.first, g.row, g.outcome
  FROM given AS g LEFT JOIN head USING (run)
  WHERE g.row > coalesce(head.committed, 0)
  ORDER BY g.run, g.first, g.row, g.nth
  ON CONFLICT (run, first, row) DO UPDATE SET outcome = excluded.outcome, seen_at = now()
  WHERE ${isUnknown('o.outcome')} AND NOT ${isUnknown('excluded.outcome')}
  RETURNING run, row, outcome
), ended AS (
  SELECT DISTINCT ON (g.run, g.row) g.run, g.row, g.counts,
    CASE WHEN ${isUnknown('g.outcome')} THEN 0 ELSE g.others END AS others
  FROM given AS g JOIN kept USING (run, row)
  ORDER BY g.run, g.row, g.nth
), landed AS (
  DELETE FROM promptmill.flight AS f USING flown AS w
  WHERE f.run = w.run AND f.row = w.row AND (
    EXISTS (SELECT FROM kept AS k WHERE k.run = w.run AND k.row = w.row)
    OR EXISTS (SELECT FROM settled AS s WHERE s.run = w.run AND s.row = w.row AND w.calls <@ ARRAY[s.call])
  )
), thinned AS (
  UPDATE promptmill.flight AS f SET calls = array_remove(f.calls, s.call)
  FROM flown AS w JOIN settled AS s ON s.run = w.run AND s.row = w.row AND w.calls @> ARRAY[s.call]
  WHERE f.run = w.run AND f.row = w.row AND cardinality(w.calls) > 1
    AND NOT EXISTS (SELECT FROM kept AS k WHERE k.run = w.run AND k.row = w.row)
)
INSERT INTO promptmill.calls AS c (run, writer, ${NAMES}, written)
SELECT n.run, $1, ${COUNTERS.map((name) => (name === 'repeated' ? REPEATED : `n.${name}`)).join(', ')},
  ARRAY[$2::bigint]
FROM unnest($11::text[], ${parameters(12, 'bigint[]')}) AS n (run, ${NAMES})
ON CONFLICT (run, writer) DO UPDATE SET
  ${COUNTERS.map((name) => `${name} = c.${name} + excluded.${name}`).join(', ')},
  written = (c.written || excluded.written)[greatest(1, cardinality(c.written) - 62):],
  seen_at = now()
WHERE NOT c.written @> excluded.written
`;

/**
 * $1 runs, $2 firsts, $3 rows, $4 executions, $5 calls, $6 whether other calls in flight forbid it. Answers with the rows
 * that may be called.
 */
export const ANNOUNCE = `
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::integer[], $5::text[], $6::boolean[])
    AS a (run, first, row, execution, call, hold)
), flying AS (
  INSERT INTO promptmill.flight AS f (run, row, calls, hold)
  SELECT DISTINCT ON (a.run, a.row) a.run, a.row, ARRAY[a.call], a.hold
  FROM asked AS a JOIN promptmill.run AS h ON h.run = a.run AND h.execution = a.execution
    AND h.committed < a.row AND h.alive_until > clock_timestamp()
  WHERE NOT EXISTS (
    SELECT FROM promptmill.outcome AS o WHERE o.run = a.run AND o.first = a.first AND o.row = a.row
  )
  ORDER BY a.run, a.row
  ON CONFLICT (run, row) DO UPDATE SET
    calls = CASE WHEN excluded.hold OR f.calls @> excluded.calls THEN f.calls ELSE f.calls || excluded.calls END,
    seen_at = CASE WHEN excluded.hold THEN f.seen_at ELSE clock_timestamp() END
  RETURNING f.run, f.row, f.calls
)
SELECT a.run, a.row, a.call FROM asked AS a JOIN flying AS f ON f.run = a.run AND f.row = a.row AND f.calls @> ARRAY[a.call]
`;

/** $1 run */
export const WAITING = 'SELECT count(*)::integer AS waiting FROM promptmill.outcome WHERE run = $1';

/** $1 run, $2 reason, $3 execution. A store that came back empty may hear of the reason before it hears of the run. */
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
    WHERE run = $1 AND first = ANY($2::bigint[]) GROUP BY first
  ) AS chunk) AS counts,
  (SELECT json_build_object(
    ${COUNTERS.map((name) => `'${name}', coalesce(sum(${name}), 0)`).join(', ')}
  ) FROM promptmill.calls WHERE run = $1) AS calls,
  (SELECT count(*)::integer FROM promptmill.flight WHERE run = $1) AS in_flight,
  EXISTS (SELECT FROM promptmill.calls WHERE run = $1 AND writer = '') AS opened,
  (SELECT stop FROM promptmill.run WHERE run = $1) AS stop
`;

/** $1 run, $2 first row */
export const OUTCOMES = 'SELECT row, outcome FROM promptmill.outcome WHERE run = $1 AND first = $2';

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

/** $1 run */
export const CLOSE = `
WITH outcomes AS (DELETE FROM promptmill.outcome WHERE run = $1),
  flight AS (DELETE FROM promptmill.flight WHERE run = $1),
  counters AS (DELETE FROM promptmill.calls WHERE run = $1)
DELETE FROM promptmill.run WHERE run = $1
`;
