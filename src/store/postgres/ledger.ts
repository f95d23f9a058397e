import { randomBytes } from 'node:crypto';
import type { CalledOutcome, Counters } from '../../model.js';
import { byRun } from '../batch.js';
import { COUNTERS, inOrder, NO_CALLS } from '../counters.js';
import {
  type Announced,
  type ChunkKey,
  type Entry,
  type Flights,
  type Ledger,
  NO_FLIGHTS,
  type Progress,
  type Standing,
} from '../ledger.js';
import { LEDGER_TIMES, type LedgerTimes } from '../times.js';
import * as statements from './statements.js';

/** What the ledger needs of a driver: `pg` has it, and so has the embedded store. */
export interface Sql {
  query<Row>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>;
}

/**
 * The ledger on PostgreSQL, a server's or the embedded one. Every step is one statement, and every statement
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

  async open(
    run: string,
    execution: number,
    committed: number,
    calls: Counters | null,
    isLostRepeated = true,
  ): Promise<boolean> {
    const head = [run, execution, committed, this.times.leaseMs, calls !== null, isLostRepeated];
    const { rows } = await this.sql.query<{ open: boolean }>(statements.OPEN, [
      ...head,
      ...inOrder(calls ?? NO_CALLS),
    ]);
    return rows[0]?.open ?? false;
  }

  async standing(chunk: ChunkKey, execution: number, asked: readonly number[] = []): Promise<Standing> {
    const { rows } = await this.sql.query<{
      wanted: boolean;
      known: number[];
      in_flight: [row: number, call: string, ageMs: number][];
    }>(statements.STANDING, [chunk.run, chunk.first, execution, asked]);
    const { wanted = false, known = [], in_flight = [] } = rows[0] ?? {};
    const inFlight = new Map(in_flight.map(([row, call, ageMs]) => [row, { call, ageMs }]));
    return { wanted, known: new Set(known), inFlight };
  }

  /** Calls that ended first: a row may go again in the same batch. */
  async record(
    entries: readonly Entry[],
    calls: ReadonlyMap<string, Partial<Counters>>,
    flights: Flights = NO_FLIGHTS,
  ): Promise<readonly boolean[]> {
    if (entries.length + calls.size + flights.settled.length > 0) await this.#settle(entries, calls, flights);
    return flights.announced.length > 0 ? await this.#announce(flights.announced) : [];
  }

  async #announce(announced: readonly Announced[]): Promise<readonly boolean[]> {
    const { rows } = await this.sql.query<{ run: string; row: number | string; call: string }>(
      statements.ANNOUNCE,
      [
        announced.map(({ run }) => run),
        announced.map(({ first }) => first),
        announced.map(({ row }) => row),
        announced.map(({ execution }) => execution),
        announced.map(({ call }) => call),
        announced.map(({ hold }) => hold),
      ],
    );
    const granted = new Set(rows.map(({ run, row, call }) => `${row} ${call} ${run}`));
    return announced.map(({ run, row, call }) => granted.has(`${row} ${call} ${run}`));
  }

  async #settle(
    entries: readonly Entry[],
    calls: ReadonlyMap<string, Partial<Counters>>,
    { settled }: Flights,
  ): Promise<void> {
    const batches = byRun(entries, calls, { announced: [], settled });
    const ended = batches.flatMap((batch) => batch.settled);
    const outcomes = batches.flatMap((batch) => batch.entries);
    await this.sql.query(statements.RECORD, [
      this.#writer,
      ++this.#writes,
      outcomes.map((entry) => entry.run),
      outcomes.map((entry) => entry.first),
      outcomes.map((entry) => entry.row),
      outcomes.map((entry) => JSON.stringify(entry.outcome)),
      outcomes.map((entry) => entry.call ?? ''),
      ended.map(({ run }) => run),
      ended.map(({ row }) => row),
      ended.map(({ call }) => call),
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
      in_flight: number;
      opened: boolean;
      stop: string | null;
    }>(statements.PROGRESS, [run, firsts]);
    const [found] = rows;
    if (found === undefined) throw new Error('a SELECT without FROM has one row');
    return {
      counts: firsts.map((first) => found.counts[first] ?? 0),
      calls: { ...found.calls, in_flight: found.in_flight + found.calls.in_flight },
      opened: found.opened,
      stop: found.stop === null ? null : JSON.parse(found.stop),
    };
  }

  async waiting(run: string): Promise<number> {
    const { rows } = await this.sql.query<{ waiting: number }>(statements.WAITING, [run]);
    return rows[0]?.waiting ?? 0;
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
