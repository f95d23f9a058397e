import { COUNTERS } from './counters.js';

/** The ledger's statements on PostgreSQL, one for each method. The clock is always the server's. */

const NAMES = COUNTERS.join(', ');
/** The counters' parameters, from a number on: `$5::bigint, $6::bigint`. */
const parameters = (from: number, type: string): string =>
  COUNTERS.map((_, i) => `$${from + i}::${type}`).join(', ');

/** $1 run, $2 execution, $3 committed, $4 lease in ms, $5… counters */
export const OPEN = `
WITH head AS (
  INSERT INTO promptmill.run AS r (run, execution, committed, alive_until)
  VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 millisecond')
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
  SELECT run, '', ${parameters(5, 'bigint')} FROM head
  ON CONFLICT (run, writer) DO UPDATE SET seen_at = now()
)
DELETE FROM promptmill.outcome AS o USING head WHERE o.run = head.run AND o.row <= head.committed
`;

/** $1 run, $2 first row, $3 execution */
export const STANDING = `
SELECT
  EXISTS (
    SELECT FROM promptmill.run
    WHERE run = $1 AND execution = $3 AND committed < $2 AND alive_until > clock_timestamp()
  ) AS wanted,
  (SELECT coalesce(json_agg(row), '[]') FROM promptmill.outcome WHERE run = $1 AND first = $2) AS known
`;

/** Those of the worker, and the outcomes that were given and not kept. */
const REPEATED = `n.repeated + (SELECT count(*) FROM given AS g WHERE g.run = n.run)
             - (SELECT count(*) FROM kept AS k WHERE k.run = n.run)`;

/**
 * $1 writer, $2 number of the write, $3 runs, $4 firsts, $5 rows, $6 outcomes, then by run: $7 runs, $8… counters.
 *
 * The share lock makes a commit that moves the mark wait for this, or this for it: otherwise an outcome could
 * slip in behind the mark, and a second payment for a row that is on disk would go uncounted. A write whose
 * number is among the writer's last 64 was done already: the outcomes are there, and the counters stay.
 */
export const RECORD = `
WITH head AS MATERIALIZED (
  SELECT run, committed FROM promptmill.run WHERE run = ANY($3::text[]) ORDER BY run FOR SHARE
), given AS MATERIALIZED (
  SELECT * FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::text[]) AS g (run, first, row, outcome)
), kept AS (
  INSERT INTO promptmill.outcome (run, first, row, outcome)
  SELECT g.run, g.first, g.row, g.outcome FROM given AS g LEFT JOIN head USING (run)
  WHERE g.row > coalesce(head.committed, 0)
  ON CONFLICT DO NOTHING
  RETURNING run
)
INSERT INTO promptmill.calls AS c (run, writer, ${NAMES}, written)
SELECT n.run, $1, ${COUNTERS.map((name) => (name === 'repeated' ? REPEATED : `n.${name}`)).join(', ')},
  ARRAY[$2::bigint]
FROM unnest($7::text[], ${parameters(8, 'bigint[]')}) AS n (run, ${NAMES})
ON CONFLICT (run, writer) DO UPDATE SET
  ${COUNTERS.map((name) => `${name} = c.${name} + excluded.${name}`).join(', ')},
  written = (c.written || excluded.written)[greatest(1, cardinality(c.written) - 62):],
  seen_at = now()
WHERE NOT c.written @> excluded.written
`;

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
  counters AS (DELETE FROM promptmill.calls WHERE run = $1)
DELETE FROM promptmill.run WHERE run = $1
`;
