import { type PgPool, runMigrations } from 'bullmq';
import { COUNTERS } from '../../core/counters.js';
import { UsageError } from '../../core/errors.js';
import { LEDGER_TIMES, type LedgerTimes } from '../ledger.js';
import type { Sql } from './ledger.js';
import { LAYOUT, MAKE_WRITE, WRITE_SIGNATURE } from './statements.js';

/** BullMQ's schema. Its statements name no schema, so every connection has it as its search path. */
export const QUEUE_SCHEMA = 'bullmq';

/** Any number, the same for all: processes that start together make the tables one after the other. */
const SETUP_LOCK = 5_741_310_226;

const NAMES = ['run', 'calls', 'outcome', 'flight', 'board'];

/**
 * The ledger's tables. `calls` has one row per writer, so that the workers of a fleet wait for each other's
 * commits only where a budget or `hold` decides; the collector seeds the counters in row `''`. `written`
 * holds the numbers of that writer's last writes, `of_endpoints` the counters of several endpoints by name. `flight` has rows with open calls and the names of these,
 * in the order reserved. An `outcome` with `asks` above 0 is interim: its row was asked that often.
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
  of_endpoints jsonb NOT NULL DEFAULT '{}',
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

const CREATE = `${TABLES}${MAKE_WRITE}COMMENT ON SCHEMA promptmill IS '${LAYOUT}';`;

/**
 * Makes missing tables and drops what has expired. Takes its own lock, because that of BullMQ's migrations is
 * inside their transaction, which is too late: by then the connection, whose search path names the schema,
 * has noted that there is none, and makes it a second time.
 * @throws UsageError when Promptmill's tables are of another version
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
    // Checked first, so that a user who may use the tables but not create any can work.
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

async function dropExpired(sql: Sql, { outcomeTtlMs }: LedgerTimes = LEDGER_TIMES): Promise<void> {
  for (const table of ['outcome', 'calls', 'run', 'flight']) {
    await sql.query(
      `DELETE FROM promptmill.${table} WHERE seen_at < clock_timestamp() - $1 * interval '1 millisecond'`,
      [outcomeTtlMs],
    );
  }
  await sql.query('DELETE FROM promptmill.board WHERE until <= clock_timestamp()');
}
