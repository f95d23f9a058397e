import { EventEmitter } from 'node:events';
import type { PGlite } from '@electric-sql/pglite';
import { createPgConfig } from '@electric-sql/pglite/node-postgres';
import type { PgPool, PgPoolClient, PgQueryResult } from 'bullmq';
import pg from 'pg';

/** SQLSTATE `disk_full`. */
const DISK_FULL = '53100';

/** Statements between two rounds of maintenance. */
const MAINTAIN_EVERY = 1_000;

interface PglitePoolOptions {
  /** Statements that keep the files small; run one by one, outside of transactions. */
  readonly maintenance: readonly string[];
  /** @default 1000 statements */
  readonly maintainEvery?: number;
  /** Told what the database refuses. @default nobody */
  readonly onError?: (error: unknown) => void;
  /** Why this process may not use the database any more; null while it may. Asked before each statement. @default null */
  readonly loss?: () => Error | null;
}

/**
 * The one connection of PGlite in the shape of a `pg.Pool`. A real `pg` client speaks to it, so that values,
 * results, errors and notifications are those of `pg`, and not only alike.
 *
 * Sessions share that connection, so they take turns: a statement is a turn, and so is a transaction, from its
 * BEGIN to its COMMIT or ROLLBACK.
 */
export class PglitePool implements PgPool {
  readonly #client: pg.Client;
  readonly #sessions = new Set<Session>();
  readonly #options: PglitePoolOptions;
  #turn: Promise<void> = Promise.resolve();
  #statements = 0;
  #refusal: string | null = null;
  #dead: Error | null = null;

  private constructor(client: pg.Client, options: PglitePoolOptions) {
    this.#client = client;
    this.#options = options;
    client.on('error', () => {});
    client.on('notification', (notification) => {
      for (const session of this.#sessions) session.emit('notification', notification);
    });
  }

  static async open(database: PGlite, options: PglitePoolOptions): Promise<PglitePool> {
    // The bridge has the shape that `pg` asks of a connection, but not of its declared type.
    const client = new pg.Client(createPgConfig(database) as pg.ClientConfig);
    await client.connect();
    return new PglitePool(client, options);
  }

  async query<Row>(text: string, values?: readonly unknown[]): Promise<PgQueryResult<Row>> {
    const endTurn = await this.#takeTurn();
    try {
      return await this.#run(text, values);
    } finally {
      await this.#maintain();
      endTurn();
    }
  }

  async connect(): Promise<PgPoolClient> {
    let endTurn: (() => void) | null = null;
    const leaveTurn = async (): Promise<void> => {
      await this.#maintain();
      endTurn?.();
      endTurn = null;
    };
    const run: Run = async (text, values) => {
      endTurn ??= await this.#takeTurn();
      try {
        return await this.#run(text, values);
      } finally {
        if (!this.#inTransaction()) await leaveTurn();
      }
    };
    const session = new Session(run, () => {
      this.#sessions.delete(session);
      // Whoever leaves in the middle of a transaction has not committed it.
      if (endTurn !== null) void session.query('ROLLBACK');
    });
    this.#sessions.add(session);
    return session;
  }

  /** What the database said when its disk was full; null while there was room. */
  get refusal(): string | null {
    return this.#refusal;
  }

  /** True when the database gave itself up, as it does when there is no room for its log, or is another process's. */
  get dead(): boolean {
    return this.#death() !== null;
  }

  /** Nothing is ever idle here that could fail, and nobody connects. */
  on(): this {
    return this;
  }

  removeAllListeners(): this {
    return this;
  }

  /** Resolves when the statements under way have ended. The database stays open. */
  async end(): Promise<void> {
    const endTurn = await this.#takeTurn();
    if (!this.dead) await this.#client.end();
    endTurn();
  }

  /** Resolves when all earlier turns are over, with what ends this one. */
  async #takeTurn(): Promise<() => void> {
    const before = this.#turn;
    let end = (): void => {};
    this.#turn = new Promise((resolve) => {
      end = resolve;
    });
    await before;
    return end;
  }

  async #run<Row>(text: string, values?: readonly unknown[]): Promise<PgQueryResult<Row>> {
    const death = this.#death();
    if (death !== null) throw death;
    this.#statements++;
    try {
      const result: PgQueryResult = await this.#client.query(text, values ? [...values] : undefined);
      return result;
    } catch (error) {
      this.#options.onError?.(error);
      if (error instanceof Error && 'code' in error && error.code === DISK_FULL) {
        this.#refusal = error.message;
        if ('severity' in error && error.severity === 'PANIC') this.#dead = error;
      }
      throw error;
    }
  }

  /** Why no statement may be run: one that gave itself up would go round in circles for ever, and the whole process with it. */
  #death(): Error | null {
    return this.#dead ?? this.#options.loss?.() ?? null;
  }

  #inTransaction(): boolean {
    return this.#client.getTransactionStatus() !== 'I';
  }

  /** Runs at the end of a turn, so that it never falls into a transaction. */
  async #maintain(): Promise<void> {
    if (this.#statements < (this.#options.maintainEvery ?? MAINTAIN_EVERY)) return;
    if (this.dead || this.#inTransaction()) return;
    this.#statements = 0;
    for (const statement of this.#options.maintenance) {
      // When it fails, on a full disk for instance, so does the next statement of somebody who can tell the user.
      await this.#run(statement).catch(() => {});
    }
  }
}

type Run = (text: string, values?: readonly unknown[]) => Promise<PgQueryResult>;

/** What `connect()` gives: a place for listeners, and a turn that lasts as long as a transaction. */
class Session extends EventEmitter implements PgPoolClient {
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly run: Run,
    readonly release: () => void,
  ) {
    super();
  }

  /** One after the other in the order asked, as `pg` does, whether the caller waits in between or not. */
  query<Row>(text: string, values?: readonly unknown[]): Promise<PgQueryResult<Row>> {
    const result = this.#last.then(() => this.run(text, values));
    this.#last = result.catch(() => {});
    return result;
  }
}
