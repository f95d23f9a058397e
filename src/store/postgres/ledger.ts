import { randomBytes } from 'node:crypto';
import { COUNTERS, type Counts, inOrder, isOfEndpoint, NO_COUNTS } from '../../core/counters.js';
import type { CalledOutcome } from '../../core/model.js';
import {
  type Answer,
  answerOf,
  type Batch,
  byRun,
  type ChunkKey,
  LEDGER_TIMES,
  type Ledger,
  type LedgerTimes,
  NO_DEATHS,
  type Progress,
  type RowReply,
  SettledRows,
} from '../ledger.js';
import { OutcomeCache } from '../outcome-cache.js';
import * as statements from './statements.js';

export interface Sql {
  query<Row>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>;
}

interface Answers {
  /** In the order of the rows of all reservations. */
  readonly rows: readonly RowReply[];
  /** By run: prompt tokens, completion tokens, rows in flight. */
  readonly spent: { readonly [run: string]: readonly number[] };
  /** The ledger holds every outcome as given. */
  readonly kept: boolean;
}

interface Kept {
  readonly row: string;
  readonly outcome: string;
}

/** Every step is one statement that can be resent when its reply was lost. */
export class PostgresLedger implements Ledger {
  readonly isShared = true;
  readonly settled = new SettledRows();
  /** Identifies this process among the writers of a run. */
  readonly #writer = randomBytes(9).toString('base64');
  #writes = 0;
  readonly #cache = new OutcomeCache();

  constructor(
    private readonly sql: Sql,
    private readonly times: LedgerTimes = LEDGER_TIMES,
  ) {}

  async open(
    run: string,
    execution: number,
    committed: number,
    calls: Counts | null,
    isLostRepeated = true,
  ): Promise<boolean> {
    const head = [run, execution, committed, this.times.leaseMs, calls !== null, isLostRepeated];
    this.#cache.begin(run);
    const { rows } = await this.sql.query<{ open: boolean }>(statements.OPEN, [
      ...head,
      ...inOrder(calls ?? NO_COUNTS),
      ofEndpoints(calls ?? NO_COUNTS),
    ]);
    return rows[0]?.open ?? false;
  }

  async write(batch: Batch): Promise<readonly Answer[]> {
    const parts = byRun(batch);
    const written = parts.filter(({ changes }) => changes);
    const settled = written.flatMap((part) => part.settled);
    const outcomes = settled.map(({ outcome }) => (outcome === null ? '' : JSON.stringify(outcome)));
    const { reservations } = batch;
    const rows = reservations.flatMap((each, i) =>
      each.rows.map(({ row, most }) => ({ asked: each, row, most, request: i + 1 })),
    );
    const { rows: replies } = await this.sql.query<{ answers: Answers }>(statements.WRITE, [
      this.#writer,
      ++this.#writes,
      written.map(({ run }) => run),
      written.map((part) => part.reservations.some(({ hold, bounds }) => hold || bounds !== null)),
      written.map(({ atLeast }) => atLeast.prompt_tokens),
      written.map(({ atLeast }) => atLeast.completion_tokens),
      ...COUNTERS.map((name) => written.map(({ counts }) => counts[name])),
      written.map(({ counts }) => ofEndpoints(counts)),
      settled.map(({ run }) => run),
      settled.map(({ first }) => first),
      settled.map(({ row }) => row),
      settled.map(({ call }) => call ?? ''),
      // JSON has no line breaks, and pg takes longer to write an array of texts than PostgreSQL to split one.
      outcomes.join('\n'),
      settled.map(({ interim = 0 }) => interim),
      rows.map(({ request }) => request),
      rows.map(({ asked }) => asked.run),
      rows.map(({ asked }) => asked.first),
      rows.map(({ row }) => row),
      rows.map(({ asked }) => asked.execution),
      rows.map(({ asked }) => asked.call),
      rows.map(({ asked }) => asked.hold),
      rows.map(({ asked }) => asked.looks),
      rows.map(({ most }) => most.prompt_tokens),
      rows.map(({ most }) => most.completion_tokens),
      reservations.map(({ bounds }) => bounds?.tokens ?? null),
      reservations.map(({ bounds }) => bounds?.cost ?? null),
      reservations.map(({ bounds }) => bounds?.promptPrice ?? null),
      reservations.map(({ bounds }) => bounds?.completionPrice ?? null),
    ]);
    const { answers } = replies[0] ?? {};
    settled.forEach((each, i) => {
      this.#cache.settled(each, answers?.kept === true, outcomes[i]?.length ?? 0);
    });
    const states = [...(answers?.rows ?? [])];
    return reservations.map((each) => {
      const [prompt_tokens = 0, completion_tokens = 0, inFlight = 0] = answers?.spent[each.run] ?? [];
      const replies = states.splice(0, each.rows.length);
      return answerOf(each, replies, { prompt_tokens, completion_tokens }, inFlight);
    });
  }

  async stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void> {
    await this.sql.query(statements.STOP, [run, JSON.stringify(reason), execution]);
  }

  progress(run: string, firsts: readonly number[]): Promise<Progress> {
    return this.#cache.whileLooking(run, firsts, () => this.#progress(run, firsts));
  }

  async #progress(run: string, firsts: readonly number[]): Promise<Progress> {
    const { rows } = await this.sql.query<{
      counts: Record<string, number>;
      calls: Counts;
      of_endpoints: Partial<Counts>;
      in_flight: number;
      opened: boolean;
      stop: string | null;
    }>(statements.PROGRESS, [run, firsts]);
    const [found] = rows;
    if (found === undefined) throw new Error('a SELECT without FROM has one row');
    return {
      counts: firsts.map((first) => found.counts[first] ?? 0),
      calls: { ...found.calls, ...found.of_endpoints, in_flight: found.in_flight },
      opened: found.opened,
      stop: found.stop === null ? null : JSON.parse(found.stop),
    };
  }

  async deaths(): Promise<ReadonlyMap<number, number>> {
    return NO_DEATHS;
  }

  async waiting(run: string): Promise<number> {
    const { rows } = await this.sql.query<{ waiting: number }>(statements.WAITING, [run]);
    return rows[0]?.waiting ?? 0;
  }

  async outcomes(chunk: ChunkKey, count?: number): Promise<ReadonlyMap<number, CalledOutcome>> {
    const own = this.#cache.of(chunk);
    if (own !== undefined && own.size === count) return own;
    const { rows } = await this.sql.query<Kept>(statements.OUTCOMES, [chunk.run, chunk.first]);
    return byRow(rows);
  }

  async interim(run: string, rows: readonly number[]): Promise<ReadonlyMap<number, CalledOutcome>> {
    const found = await this.sql.query<Kept>(statements.INTERIM, [run, rows]);
    return byRow(found.rows);
  }

  async forget(run: string, committed: number, firsts: readonly number[]): Promise<void> {
    await this.sql.query(statements.FORGET, [run, committed, this.times.leaseMs, firsts]);
    this.#cache.forget(run, firsts);
  }

  async close(run: string): Promise<void> {
    await this.sql.query(statements.CLOSE, [run]);
    this.#cache.end(run);
  }
}

/** As JSON. */
const ofEndpoints = (counts: Counts): string =>
  JSON.stringify(Object.fromEntries(Object.entries(counts).filter(([name]) => isOfEndpoint(name))));

const byRow = (kept: readonly Kept[]): Map<number, CalledOutcome> =>
  new Map(kept.map(({ row, outcome }) => [Number(row), JSON.parse(outcome)]));
