import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BackendFactory,
  createPostgresBackend,
  type PgPool,
  type PgPoolClient,
  type PgQueryResult,
  type RedisQueueBackend,
} from 'bullmq';
import pg from 'pg';
import { reconnectMs } from '../../backoff.js';
import type { StoreHealth } from '../health.js';

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
