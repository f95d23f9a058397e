import { existsSync } from 'node:fs';
import type { PgPool } from 'bullmq';
import { COUNTERS } from '../counters.js';
import { prepareTables } from '../postgres/schema.js';
import { LedgerFile } from './ledger-file.js';
import { LedgerState, type RunFacts } from './ledger-state.js';

/** A run as the tables have it, with times in milliseconds since 1970. */
type Row = Omit<RunFacts, 'stop'> & { readonly run: string; readonly stop: string | null };

const ms = (time: string): string => `(1000 * extract(epoch FROM ${time}))::float8`;

const RUNS = `
SELECT run,
  (SELECT json_build_object('execution', execution, 'committed', committed, 'until', ${ms('alive_until')})
    FROM promptmill.run AS h WHERE h.run = known.run AND execution > 0) AS head,
  (SELECT stop FROM promptmill.run AS h WHERE h.run = known.run) AS stop,
  EXISTS (SELECT FROM promptmill.calls AS c WHERE c.run = known.run AND writer = '') AS opened,
  (SELECT json_build_object(${COUNTERS.map((name) => `'${name}', coalesce(sum(${name}), 0)`).join(', ')})
    FROM promptmill.calls AS c WHERE c.run = known.run) AS calls,
  (SELECT coalesce(json_agg(json_build_array(row, json_build_object('since', ${ms('seen_at')}, 'calls', calls))), '[]')
    FROM promptmill.flight AS f WHERE f.run = known.run) AS flight,
  max(${ms('seen_at')}) AS "seenAt"
FROM (
  SELECT run, seen_at FROM promptmill.run UNION ALL SELECT run, seen_at FROM promptmill.calls
  UNION ALL SELECT run, seen_at FROM promptmill.outcome UNION ALL SELECT run, seen_at FROM promptmill.flight
) AS known
GROUP BY run
`;
const CHUNKS = 'SELECT DISTINCT first FROM promptmill.outcome WHERE run = $1';
const OUTCOMES = 'SELECT row, outcome FROM promptmill.outcome WHERE run = $1 AND first = $2';

/**
 * An earlier version kept the ledger in tables beside the queue. What they have goes into the file, and then they go. There may be
 * a file already: this was cut short, or the earlier version was used once more after it. So a run is read that is not in the file,
 * or was seen later than there. What the file has of it stays as well: nobody else knows of those outcomes and calls.
 */
export async function takeOverTables(pool: PgPool, path: string): Promise<void> {
  const { rows } = await pool.query<{ found: boolean }>(
    `SELECT to_regnamespace('promptmill') IS NOT NULL AS found`,
  );
  if (!rows[0]?.found) return;
  await prepareTables(pool);
  if (!existsSync(path)) LedgerFile.begin(path);
  const state = new LedgerState();
  const file = LedgerFile.open(path, (change, places) => state.apply(change, places));
  try {
    const { rows: runs } = await pool.query<Row>(RUNS);
    for (const row of runs) {
      if (row.seenAt > state.factsOf(row.run).seenAt) await copyRun(pool, file, row);
    }
  } finally {
    file.close();
  }
  await pool.query('DROP SCHEMA promptmill CASCADE');
}

/** The facts come last, so that a copy that was cut short is seen to be older than the tables. */
async function copyRun(pool: PgPool, file: LedgerFile, { run, stop, ...facts }: Row): Promise<void> {
  const chunks = await pool.query<{ first: string }>(CHUNKS, [run]);
  for (const { first } of chunks.rows) {
    const { rows } = await pool.query<{ row: string; outcome: string }>(OUTCOMES, [run, first]);
    const kept = { run, first: Number(first), rows: rows.map(({ row }) => Number(row)) };
    file.append(
      { do: 'keep', ...kept },
      rows.map(({ outcome }) => outcome),
    );
  }
  file.append({ do: 'restore', run, facts: { ...facts, stop: stop === null ? null : JSON.parse(stop) } });
}
