import {
  type BackendFactory,
  createPostgresBackend,
  type PgPool,
  type RedisQueueBackend,
  runMigrations,
} from 'bullmq';
import { LEDGER_TIMES, type LedgerTimes } from '../times.js';
import { createLedgerTables, dropExpired } from './schema.js';

/** BullMQ's schema. Its statements name no schema, so every connection has it as its search path. */
export const QUEUE_SCHEMA = 'bullmq';

/** BullMQ's backend on a pool, whatever `connection` its queues and workers were given. */
export function backendOn(pool: PgPool): BackendFactory<RedisQueueBackend> {
  const factory: BackendFactory = (name, options, use) =>
    createPostgresBackend(name, { ...options, connection: pool }, use);
  // BullMQ's classes name the Redis backend where nothing else is said; only getBackend() can tell the difference.
  return factory as BackendFactory<RedisQueueBackend>;
}

/** Any number, the same for all: processes that start together make the tables one after the other. */
const SETUP_LOCK = 5_741_310_226;

/**
 * Makes the tables of the queue and of the ledger where they are missing, and drops what has expired.
 *
 * BullMQ's migrations have a lock of their own, but inside their transaction, where it comes too late: by then
 * the connection, whose search path names the schema, has noted that there is none, and makes it a second time.
 */
export async function prepareTables(pool: PgPool, times: LedgerTimes = LEDGER_TIMES): Promise<void> {
  const session = await pool.connect();
  try {
    await session.query('SELECT pg_advisory_lock($1)', [SETUP_LOCK]);
    await runMigrations(session, QUEUE_SCHEMA);
    await createLedgerTables(session);
    await dropExpired(session, times.outcomeTtlMs);
  } finally {
    // PGlite has one session for all, so it does not end with this.
    await session.query('SELECT pg_advisory_unlock_all()').catch(() => {});
    session.release();
  }
}
