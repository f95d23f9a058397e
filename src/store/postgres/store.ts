import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BackendFactory,
  createPostgresBackend,
  type PgPool,
  type PgPoolClient,
  type PgQueryResult,
  type RedisQueueBackend,
  SchemaVersionMismatchError,
  UnsupportedPostgresVersionError,
} from 'bullmq';
import pg from 'pg';
import { reconnectMs } from '../../core/backoff.js';
import { within } from '../../core/clock.js';
import { UsageError } from '../../core/errors.js';
import { withoutPassword } from '../address.js';
import { openingErrorOf } from '../error.js';
import { StoreHealth } from '../health.js';
import type { Store, StoreOptions } from '../store.js';
import { PostgresKeyValue } from './key-value.js';
import { PostgresLedger } from './ledger.js';
import { prepareTables, QUEUE_SCHEMA } from './schema.js';

const START_MS = 5_000;
const CLOSE_MS = 1_000;
/** Connections of a process for statements; each worker has one more, to be woken on. */
const CONNECTIONS = 8;

/** BullMQ's errors for a server that is too old, or whose tables are of a later version. */
const UNFIT = [UnsupportedPostgresVersionError, SchemaVersionMismatchError];

/** @throws UsageError when the server does not answer, refuses, or cannot hold the queue */
export async function openPostgresStore(url: URL, options: StoreOptions): Promise<Store> {
  const shown = withoutPassword(url.href);
  const config: pg.PoolConfig = {
    connectionString: withSettings(url),
    max: CONNECTIONS,
    connectionTimeoutMillis: START_MS,
    keepAlive: true,
    application_name: 'promptmill',
  };
  await probeServer(config, shown);

  const health = new StoreHealth(shown);
  const pool = new LastingPool(config, health);
  try {
    await prepareTables(pool, shown, options.ledgerTimes);
    health.opened();
  } catch (error) {
    await pool.end();
    throw refusal(error, shown);
  }
  return {
    name: null,
    ledger: new PostgresLedger(pool, options.ledgerTimes),
    keyValue: new PostgresKeyValue(pool),
    backendFactory: backendOn(pool),
    health,
    ping: async () => void (await pool.query('SELECT')),
    connectionFor: () => ({}),
    describe: () => shown,
    close: () => within(CLOSE_MS, pool.end()).catch(() => {}),
  };
}

/** The address overrides the configuration, so required settings are added to it, beside its own. */
function withSettings(url: URL): string {
  const copy = new URL(url);
  // The ledger's writes wait for each other by locks, and must then see what the other has written.
  const isolation = String.raw`-c default_transaction_isolation=read\ committed`;
  const options = [url.searchParams.get('options'), `-c search_path=${QUEUE_SCHEMA}`, isolation];
  copy.searchParams.set('options', options.filter(Boolean).join(' '));
  return copy.href;
}

const LOOK = `SELECT current_setting('server_encoding') AS encoding, current_setting('transaction_read_only') AS read_only`;

/** Connects once, so that a wrong address or password is reported and not retried for ever. */
async function probeServer(config: pg.PoolConfig, shown: string): Promise<void> {
  let probe: pg.Client | null = null;
  try {
    // This already reads the certificates that the address names.
    probe = new pg.Client(config);
    probe.on('error', () => {});
    await within(START_MS, probe.connect());
    const { rows } = await within(START_MS, probe.query(LOOK));
    const { encoding, read_only }: { encoding?: unknown; read_only?: unknown } = rows[0] ?? {};
    if (read_only === 'on') {
      throw new UsageError(
        'queue_read_only',
        `${shown} is read-only: it is a standby, or the user or the database has default_transaction_read_only`,
        'Give the address of the primary, or make this server one.',
      );
    }
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
    probe?.end().catch(() => {});
  }
}

const refusal = (error: unknown, shown: string): UsageError =>
  openingErrorOf(
    error,
    shown,
    error instanceof pg.DatabaseError || UNFIT.some((unfit) => error instanceof unfit),
  );

/**
 * Does for PostgreSQL what ioredis does for Redis: reconnects for ever, and resends a statement whose
 * connection was lost. BullMQ's operations are made for that; the ledger's statements know what they have
 * done.
 */
export class LastingPool implements PgPool {
  /** Read by BullMQ: a worker may wait long for a notice only on connections that notice their own end. */
  readonly options = { keepAlive: true };
  readonly #pool: pg.Pool;
  readonly #sessions = new Set<pg.Client>();
  readonly #closing = new AbortController();

  constructor(
    private readonly config: pg.PoolConfig,
    private readonly health: StoreHealth,
  ) {
    this.#pool = new pg.Pool(config);
    // Without a listener an idle connection that ends would end the process (fault 38).
    this.#pool.on('error', () => {});
  }

  async query<Row>(text: string, values?: readonly unknown[]): Promise<PgQueryResult<Row>> {
    const result: PgQueryResult = await this.#lasting(() =>
      this.#pool.query(text, values ? [...values] : undefined),
    );
    return result;
  }

  /** Outside the pool: BullMQ keeps one per worker to wake it, which could use up the pool's connections. */
  async connect(): Promise<PgPoolClient> {
    return this.#lasting(async () => {
      const session = new pg.Client(this.config);
      session.on('error', () => {});
      await session.connect();
      this.#sessions.add(session);
      // BullMQ's types ask for such a client; only `payload?: string` against `string | undefined` differs.
      return Object.assign(session, { release: () => this.#end(session) }) as PgPoolClient;
    });
  }

  /** Ignores listeners: an idle connection that ends is replaced when it is needed. */
  on(): this {
    return this;
  }

  removeAllListeners(): this {
    return this;
  }

  /** Stops retrying, and resolves when running statements have ended. */
  async end(): Promise<void> {
    this.#closing.abort();
    for (const session of this.#sessions) this.#end(session);
    if (!this.#pool.ending) await this.#pool.end();
  }

  #end(session: pg.Client): void {
    this.#sessions.delete(session);
    // Its owner has removed all listeners; later errors concern nobody.
    session.on('error', () => {});
    session.end().catch(() => {});
  }

  async #lasting<T>(attempt: () => Promise<T>): Promise<T> {
    for (let times = 0; ; times++) {
      try {
        return await attempt();
      } catch (error) {
        this.health.met(error);
        if (!this.health.mayPass(error) || this.#closing.signal.aborted) throw error;
        await sleep(reconnectMs(times), undefined, { signal: this.#closing.signal });
      }
    }
  }
}

/** BullMQ's backend on a pool, whatever `connection` its queues and workers get. */
export function backendOn(pool: PgPool): BackendFactory<RedisQueueBackend> {
  const factory: BackendFactory = (name, options, use) =>
    createPostgresBackend(name, { ...options, connection: pool }, use);
  // BullMQ's classes default to the Redis backend; only getBackend() can tell the difference.
  return factory as BackendFactory<RedisQueueBackend>;
}
