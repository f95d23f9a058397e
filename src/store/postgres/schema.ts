import { type PgPool, runMigrations } from 'bullmq';
import { UsageError } from '../../errors.js';
import { COUNTERS } from '../counters.js';
import { LEDGER_TIMES, type LedgerTimes } from '../times.js';
import type { Sql } from './ledger.js';
import { LAYOUT, MAKE_WRITE, WRITE_SIGNATURE } from './statements.js';

/** BullMQ's schema. Its statements name no schema, so every connection has it as its search path. */
export const QUEUE_SCHEMA = 'bullmq';

/** Any number, the same for all: processes that start together make the tables one after the other. */
const SETUP_LOCK = 5_741_310_226;

const NAMES = ['run', 'calls', 'outcome', 'flight', 'board'];

/**
 * The ledger's tables. A call's counters have one row for each writer, so that the
 * workers of a fleet wait for each other's commits only where a budget or `hold` decides; `''` is the row with which the
 * collector seeds them. `written` holds the numbers of that writer's last writes. `flight` has the rows whose calls nobody
 * has told the end of, with the names of these calls, the first reserved first. An `outcome` with `asks` is an interim one, of
 * a row that was asked so often.
 */
const TABLES = `
CREATE SCHEMA IF NOT EXISTS promptmill;
CREATE TABLE IF NOT EXISTS promptmill.run (
  run text PRIMARY KEY,
  execution integer NOT NULL,
  committed bigint NOT NULL,
  alive_until timestamptz NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now(),
  stop text
);
CREATE TABLE IF NOT EXISTS promptmill.calls (
  run text NOT NULL,
  writer text NOT NULL,
  ${COUNTERS.map((name) => `${name} bigint NOT NULL`).join(', ')},
  written bigint[] NOT NULL DEFAULT '{}',
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (run, writer)
);
CREATE TABLE IF NOT EXISTS promptmill.outcome (
  run text NOT NULL,
  first bigint NOT NULL,
  row bigint NOT NULL,
  outcome text NOT NULL,
  asks integer NOT NULL DEFAULT 0,
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (run, first, row)
);
CREATE INDEX IF NOT EXISTS interim ON promptmill.outcome (run, row) WHERE asks > 0;
CREATE TABLE IF NOT EXISTS promptmill.flight (
  run text NOT NULL,
  row bigint NOT NULL,
  calls text[] NOT NULL,
  hold boolean NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (run, row)
);
CREATE TABLE IF NOT EXISTS promptmill.board (
  kind text NOT NULL,
  id text NOT NULL,
  text text NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now(),
  until timestamptz NOT NULL,
  PRIMARY KEY (kind, id)
);
`;

/** Makes the tables and the function, and notes their layout, in one transaction. */
const CREATE = `${TABLES}${MAKE_WRITE}COMMENT ON SCHEMA promptmill IS '${LAYOUT}';`;

/**
 * Makes the tables of the queue, of the ledger and of texts by name where they are missing, and drops what has expired.
 *
 * @param shown the address of the server, for messages
 * @throws UsageError when Promptmill's tables are of another version
 *
 * BullMQ's migrations have a lock of their own, but inside their transaction, where it comes too late: by then
 * the connection, whose search path names the schema, has noted that there is none, and makes it a second time.
 */
export async function prepareTables(
  pool: PgPool,
  shown: string,
  times: LedgerTimes = LEDGER_TIMES,
): Promise<void> {
  const session = await pool.connect();
  try {
    await session.query('SELECT pg_advisory_lock($1)', [SETUP_LOCK]);
    const isThere = await areTablesThere(session, shown);
    await runMigrations(session, QUEUE_SCHEMA);
    // Asked first, so that a user who may use the tables and not make any can work.
    if (!isThere) await session.query(CREATE);
    await dropExpired(session, times);
  } finally {
    // The lock ends with the session.
    session.release();
  }
}

/** @throws UsageError before anything is changed, when they are of another version */
async function areTablesThere(session: Sql, shown: string): Promise<boolean> {
  const { rows } = await session.query<{ layout: string | null; complete: boolean }>(
    `SELECT obj_description(to_regnamespace('promptmill'), 'pg_namespace') AS layout,
       ${NAMES.map((name) => `to_regclass('promptmill.${name}') IS NOT NULL`).join(' AND ')}
       AND to_regprocedure('${WRITE_SIGNATURE}') IS NOT NULL AS complete`,
  );
  const { layout = null, complete = false } = rows[0] ?? {};
  if (layout !== null && layout !== LAYOUT) {
    throw new UsageError(
      'queue_version',
      `the tables in the schema promptmill of ${shown} are of another version of Promptmill`,
      'Finish their runs with that version, then DROP SCHEMA promptmill CASCADE; or name another database with PROMPTMILL_QUEUE.',
    );
  }
  return complete && layout !== null;
}

/** Drops what runs that nobody continues have left. */
async function dropExpired(sql: Sql, { outcomeTtlMs }: LedgerTimes = LEDGER_TIMES): Promise<void> {
  for (const table of ['outcome', 'calls', 'run', 'flight']) {
    await sql.query(
      `DELETE FROM promptmill.${table} WHERE seen_at < clock_timestamp() - $1 * interval '1 millisecond'`,
      [outcomeTtlMs],
    );
  }
  await sql.query('DELETE FROM promptmill.board WHERE until <= clock_timestamp()');
}
