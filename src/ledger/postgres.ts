import { randomBytes } from 'node:crypto';
import type { CalledOutcome, Counters } from '../model.js';
import { byRun } from './batch.js';
import { COUNTERS, inOrder } from './counters.js';
import type { ChunkKey, Entry, Ledger, Progress, Standing } from './ledger.js';
import * as statements from './postgres-statements.js';
import { LEDGER_TIMES, type LedgerTimes } from './times.js';

/** What the ledger needs of a driver: `pg` has it, and so has the embedded store. */
export interface Sql {
  query<Row>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>;
}

/**
 * The ledger on PostgreSQL, a server's or the embedded one. Every method is one statement, and every statement
 * can be sent again when its reply was lost.
 */
export class PostgresLedger implements Ledger {
  /** This process among the writers of a run. */
  readonly #writer = randomBytes(9).toString('base64');
  #writes = 0;

  constructor(
    private readonly sql: Sql,
    private readonly times: LedgerTimes = LEDGER_TIMES,
  ) {}

  async open(run: string, execution: number, committed: number, calls: Counters): Promise<void> {
    const head = [run, execution, committed, this.times.leaseMs];
    await this.sql.query(statements.OPEN, [...head, ...inOrder(calls)]);
  }

  async standing(chunk: ChunkKey, execution: number): Promise<Standing> {
    const { rows } = await this.sql.query<{ wanted: boolean; known: number[] }>(statements.STANDING, [
      chunk.run,
      chunk.first,
      execution,
    ]);
    return { wanted: rows[0]?.wanted ?? false, known: new Set(rows[0]?.known) };
  }

  async record(entries: readonly Entry[], calls: ReadonlyMap<string, Partial<Counters>>): Promise<void> {
    const batches = byRun(entries, calls);
    const outcomes = batches.flatMap((batch) => batch.entries);
    await this.sql.query(statements.RECORD, [
      this.#writer,
      ++this.#writes,
      outcomes.map((entry) => entry.run),
      outcomes.map((entry) => entry.first),
      outcomes.map((entry) => entry.row),
      outcomes.map((entry) => JSON.stringify(entry.outcome)),
      batches.map((batch) => batch.run),
      ...COUNTERS.map((name) => batches.map((batch) => batch.calls[name])),
    ]);
  }

  async stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void> {
    await this.sql.query(statements.STOP, [run, JSON.stringify(reason), execution]);
  }

  async progress(run: string, firsts: readonly number[]): Promise<Progress> {
    const { rows } = await this.sql.query<{
      counts: Record<string, number>;
      calls: Counters;
      opened: boolean;
      stop: string | null;
    }>(statements.PROGRESS, [run, firsts]);
    const [found] = rows;
    if (found === undefined) throw new Error('a SELECT without FROM has one row');
    return {
      counts: firsts.map((first) => found.counts[first] ?? 0),
      calls: found.calls,
      opened: found.opened,
      stop: found.stop === null ? null : JSON.parse(found.stop),
    };
  }

  async outcomes(chunk: ChunkKey): Promise<ReadonlyMap<number, CalledOutcome>> {
    const { rows } = await this.sql.query<{ row: string; outcome: string }>(statements.OUTCOMES, [
      chunk.run,
      chunk.first,
    ]);
    return new Map(rows.map(({ row, outcome }) => [Number(row), JSON.parse(outcome)]));
  }

  async forget(run: string, committed: number, firsts: readonly number[]): Promise<void> {
    await this.sql.query(statements.FORGET, [run, committed, this.times.leaseMs, firsts]);
  }

  async close(run: string): Promise<void> {
    await this.sql.query(statements.CLOSE, [run]);
  }
}
