import { SchemaVersionMismatchError, UnsupportedPostgresVersionError } from 'bullmq';
import pg from 'pg';
import { UsageError } from '../errors.js';
import { PostgresLedger } from '../ledger/postgres.js';
import { PostgresBoard } from '../ledger/postgres-board.js';
import { PostgresRegister } from '../ledger/postgres-register.js';
import { backendOn, prepareTables, QUEUE_SCHEMA } from './postgres-backend.js';
import { LastingPool } from './postgres-pool.js';
import type { Store, StoreOptions } from './store.js';
import { withoutPassword } from './store-address.js';
import { within } from './store-deadline.js';

/** The longest wait for a connection at the start, and for statements under way at the end, in milliseconds. */
const START_MS = 5_000;
const CLOSE_MS = 2_000;
/** Connections of one process for statements; each worker has one more, to be woken on. */
const CONNECTIONS = 8;

/** What BullMQ says to a server that is too old, or whose tables are of a later version. */
const UNFIT = [UnsupportedPostgresVersionError, SchemaVersionMismatchError];

/** @throws UsageError when the server does not answer, refuses, or cannot hold the queue */
export async function openPostgresStore(url: URL, options: StoreOptions): Promise<Store> {
  const shown = withoutPassword(url.href);
  const config: pg.PoolConfig = {
    connectionString: withSearchPath(url),
    max: CONNECTIONS,
    connectionTimeoutMillis: START_MS,
    keepAlive: true,
    application_name: 'promptmill',
  };
  await lookAtServer(config, shown);

  const pool = new LastingPool(config);
  try {
    await prepareTables(pool, options.ledgerTimes);
  } catch (error) {
    await pool.end();
    throw refusal(error, shown);
  }
  return {
    kind: 'postgres',
    name: null,
    ledger: new PostgresLedger(pool, options.ledgerTimes),
    register: new PostgresRegister(pool),
    board: new PostgresBoard(pool),
    backendFactory: backendOn(pool),
    connectionFor: () => ({}),
    describe: () => shown,
    close: () => within(CLOSE_MS, pool.end()).catch(() => {}),
  };
}

/** The address decides over the configuration, so the search path has to be in it, beside what is there. */
function withSearchPath(url: URL): string {
  const copy = new URL(url);
  const options = [url.searchParams.get('options'), `-c search_path=${QUEUE_SCHEMA}`];
  copy.searchParams.set('options', options.filter(Boolean).join(' '));
  return copy.href;
}

/** One connection without second attempts, so that a wrong address or password is told and not retried for ever. */
async function lookAtServer(config: pg.PoolConfig, shown: string): Promise<void> {
  const probe = new pg.Client(config);
  probe.on('error', () => {});
  try {
    await within(START_MS, probe.connect());
    const { rows } = await within(START_MS, probe.query('SHOW server_encoding'));
    const encoding: unknown = rows[0]?.server_encoding;
    if (encoding !== 'UTF8') {
      throw new UsageError(
        'queue_unusable',
        `the database of ${shown} has the encoding ${encoding}, which cannot hold every text`,
        'Use a database with the encoding UTF8.',
      );
    }
  } catch (error) {
    throw refusal(error, shown);
  } finally {
    probe.end().catch(() => {});
  }
}

function refusal(error: unknown, shown: string): UsageError {
  if (error instanceof UsageError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  // Refused on IPv4 and on IPv6 is one error without a message.
  const reason = (error instanceof Error && error.message) || code || String(error);
  // Class 28 is a wrong user or password, 3D a missing database, 42501 a missing privilege.
  if (/^(28|3D|42501)/.test(code)) {
    return new UsageError(
      'queue_refused',
      `${shown} refuses: ${reason}`,
      'Give a user, password and database in the address whose user may create tables, as postgres://USER:PASSWORD@HOST/DATABASE.',
    );
  }
  if (error instanceof pg.DatabaseError || UNFIT.some((unfit) => error instanceof unfit)) {
    return new UsageError('queue_unusable', `${shown} cannot hold the queue: ${reason}`);
  }
  return new UsageError(
    'queue_unreachable',
    `cannot reach ${shown}: ${reason}`,
    'Start the server, correct the address, or use --queue embedded.',
  );
}
