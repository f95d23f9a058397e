import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { boundsOf, budgetFault, NO_TOKENS, plus } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import type { CalledOutcome, Fault } from '../model.js';
import type { Pacer } from '../pace/pacer.js';
import type { Outage, QuotaWait } from '../pace/pauses.js';
import type { Reserved, TokenEstimate } from '../pace/usage.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import {
  type InFlight,
  OWN,
  type Reservation,
  type RowMost,
  type RowState,
  type Settlement,
} from '../store/ledger.js';
import { type Batcher, sumOf } from './batcher.js';
import { billedFor, type MostBilled, type ReservedRow } from './billing.js';
import type { BudgetWait } from './budget-wait.js';
import type { Caller } from './caller.js';
import type { FairLimit } from './fair-limit.js';
import type { Feedback } from './feedback.js';
import { packs } from './packs.js';
import { cutOffRow, failedRow, lostRow, type RowResult, type RowRetry } from './row-result.js';

/** Pause before rows go back to the queue because the store refused, in milliseconds. */
const STORE_PAUSE_MS = 1_000;
/** Pause between two looks at rows that are in flight elsewhere, in milliseconds. */
const LOOK_MS = 500;
/** A call that has not ended so long after its deadline is one of a process that is gone, in milliseconds. */
const GONE_MS = 10_000;
/**
 * A grant is good for this time, in milliseconds. A process that was frozen for longer than its lock may find its rows
 * answered by another (faults 31 and 43), so it asks again.
 */
const GRANT_MS = 15_000;

/** How a chunk ends: every row recorded, rows to be tried again, a pause, or rows not called. */
export type ChunkEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** What all chunks of a process share. */
export interface ChunkRunParts {
  readonly caller: Caller;
  readonly batcher: Batcher;
  /** One limit over all chunks of the process, in which its runs take turns. */
  readonly limit: FairLimit;
  /** Takes a slot of the limit over all queues of the process. */
  readonly inSlot: <T>(job: () => Promise<T>) => Promise<T>;
  readonly pacer: Pacer;
  readonly quota: QuotaWait;
  readonly outage: Outage;
  readonly estimate: TokenEstimate;
  readonly feedback: Feedback;
  readonly budgets: BudgetWait;
  readonly mostBilled: MostBilled;
  readonly log: Logger;
  /** True when rows that are not called yet go back to the queue. */
  readonly releasing: () => boolean;
  /** True when the run of the chunk was stopped: its rows come again with its next execution. */
  readonly isStopped: (chunk: Chunk) => boolean;
  /** Told before each request. */
  readonly onRequest: () => void;
  /** Nothing can pass until somebody mends something. */
  readonly stop: (chunk: Chunk, fault: Fault) => Promise<void>;
}

/** One entry of the queue. */
interface Lease {
  readonly chunk: Chunk;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Attempts that the rows have in all. */
  readonly attempts: number;
  /** Whether this process works on the run. */
  readonly isOwn: boolean;
}

/** How a row left its request. */
interface RowEnd {
  readonly row: ChunkRow;
  readonly result: RowResult;
  /** True for one row of each request that failed. */
  readonly leads: boolean;
  /** The call failed in an outage: that is no attempt. */
  readonly down: boolean;
}

type EndInRetry = RowEnd & { readonly result: RowRetry };

/**
 * The calls for one chunk, from the lease of its entry to its end: looks at what the ledger knows of its rows, reserves
 * those of each request when it may be made, calls, and settles them.
 */
export class ChunkRun {
  /** Name of its calls: who makes them, the execution, and what tells it from other leases. */
  readonly #call: string;
  /** False once nobody collects the rows any more. */
  #wanted = true;
  /** Resolve when what was settled is in the ledger. */
  readonly #settled: Promise<void>[] = [];

  constructor(
    private readonly parts: ChunkRunParts,
    private readonly lease: Lease,
  ) {
    const { isOwn, chunk } = lease;
    this.#call = `${isOwn ? OWN : 'any:'}${chunk.execution}:${randomBytes(6).toString('base64url')}`;
  }

  async run(): Promise<ChunkEnd> {
    const { chunk, attempt } = this.lease;
    const states = await this.#look(chunk.rows);
    const held = new Map(chunk.rows.flatMap((row, i) => holderOf(row, states[i])));
    const open = chunk.rows.filter((_, i) => states[i] === 'granted');
    const awaited = this.#awaitHeld(held);
    const most = this.parts.feedback.packSize(chunk.promptsPerRequest, attempt);
    const first = await this.#callAll(packs(open, most));
    // At once and not with the next attempt: nothing is wrong with the rows, nor with the service.
    const alone = first.filter(isRetry).filter(({ result }) => result.alone);
    const rest = new Set<RowEnd>(first);
    for (const end of alone) rest.delete(end);
    this.#countRetries(alone, alone.length);
    const again = await this.#callAll(alone.map(({ row }) => [row]));
    const end = this.#end([...rest, ...again, ...(await awaited)]);
    await Promise.all(this.#settled);
    return end;
  }

  #end(ends: readonly RowEnd[]): ChunkEnd {
    const { attempt, attempts } = this.lease;
    const retries = ends.filter(isRetry);
    const waits = ends.some(({ result: { kind }, down }) => kind === 'wait' || kind === 'paused' || down);
    const isLast = this.#wanted && !waits && attempt >= attempts;
    if (!isLast) this.#countRetries(retries, retries.filter(({ leads }) => leads).length);
    if (!this.#wanted) return { kind: 'done' };
    // Before the rows that failed: a wait uses up no attempt, and theirs are tried again with it.
    if (waits) return { kind: 'wait' };
    if (isLast) {
      for (const { row, result } of retries) this.#record(row, failedRow(result, attempt));
    } else if (retries.length > 0) {
      const codes = [...new Set(retries.map(({ result }) => result.fault.code))];
      return { kind: 'retry', rows: retries.length, codes };
    }
    return { kind: ends.some(({ result }) => result.kind === 'left') ? 'left' : 'done' };
  }

  /**
   * The requests that follow may be the second that is paid for (fault 21).
   * @param requests how many follow
   */
  #countRetries(retries: readonly EndInRetry[], requests: number): void {
    const { batcher } = this.parts;
    const billed = retries.filter(({ result }) => result.possiblyBilled).length;
    if (requests > 0) batcher.count(this.lease.chunk.run, 'retried', requests);
    if (billed > 0) batcher.count(this.lease.chunk.run, 'repeated', billed);
  }

  async #callAll(inOrder: readonly (readonly ChunkRow[])[]): Promise<readonly RowEnd[]> {
    const { outage, limit } = this.parts;
    // In an outage the first of them probes; it must not be the same row again and again.
    const requests = outage.view === null ? inOrder : shuffled(inOrder, Math.random);
    const ends = await Promise.all(
      requests.map((rows) => limit.run(this.lease.chunk.run, () => this.#requestOrLeave(rows))),
    );
    return ends.flat();
  }

  /** Rows whose fate the store did not let us learn go back to the queue; the others of their chunk go on. */
  async #requestOrLeave(rows: readonly ChunkRow[]): Promise<readonly RowEnd[]> {
    const { outage, log } = this.parts;
    try {
      return (await outage.through(steadyNow, () => this.#request(rows))) ?? notCalled(rows, 'paused');
    } catch (error) {
      log.warn({ err: error, row: rows[0]?.row }, 'the store refused; rows go back to the queue');
      await sleep(STORE_PAUSE_MS);
      return notCalled(rows, 'left');
    }
  }

  /**
   * Makes a request when it may be made. The slot comes last, so that a queue that waits for its permit takes none from
   * the others.
   */
  async #request(rows: readonly ChunkRow[]): Promise<readonly RowEnd[]> {
    const { estimate, pacer, inSlot } = this.parts;
    const hindrance = this.#hindrance();
    if (hindrance !== null) return notCalled(rows, hindrance);
    const prompts = rows.map(({ prompt }) => prompt);
    const reserved = estimate.reserve(prompts, { ...this.lease.chunk.parameters, ...rows[0]?.parameters });
    const admission = await pacer.admit(reserved.tokens);
    if (typeof admission === 'string') return notCalled(rows, admission === 'pause' ? 'paused' : 'left');
    return inSlot(async () => {
      const { granted, others } = await this.#reserve(rows, admission.permit);
      if (granted.length > 0) return [...(await this.#callFor(granted, reserved)), ...others];
      pacer.withdrawn(reserved.tokens);
      return others;
    });
  }

  /** What keeps a request from being made now. */
  #hindrance(): 'left' | 'paused' | null {
    const { releasing, isStopped, quota, outage } = this.parts;
    if (isStopped(this.lease.chunk)) this.#wanted = false;
    if (!this.#wanted || releasing()) return 'left';
    const now = steadyNow();
    return quota.remaining(now) > 0 || outage.remaining(now) > 0 ? 'paused' : null;
  }

  /**
   * Has the ledger decide which rows may be called, which may take as long as the store is away, or until the budget has
   * room.
   * @returns the rows to call, and what becomes of the others; those that are known or not wanted need nothing more
   */
  async #reserve(
    asked: readonly ChunkRow[],
    permit: number,
  ): Promise<{ readonly granted: readonly ReservedRow[]; readonly others: readonly RowEnd[] }> {
    const { batcher, pacer, budgets, mostBilled, stop } = this.parts;
    const { chunk } = this.lease;
    const rows = await mostBilled.of(chunk, asked);
    const reservation = this.#reservation(rows, false);
    for (let refusals = 0; ; ) {
      const before = this.#hindrance();
      if (before !== null) return { granted: [], others: notCalled(asked, before) };
      const reply = await batcher.reserve(reservation);
      const inState = (is: (state: RowState | undefined) => boolean) =>
        rows.filter((_, i) => is(reply.rows[i]));
      if (reply.rows.includes('unwanted')) this.#wanted = false;
      const granted = inState((state) => state === 'granted');
      const full = inState((state) => state === 'no_room');
      const held = inState((state) => typeof state === 'object');
      const others = notCalled(
        [...full, ...held].map(({ row }) => row),
        'left',
      );
      if (granted.length > 0) {
        // The store may have taken its time, for several calls at once.
        await pacer.space(permit);
        const isGood = steadyNow() - reply.askedAt < GRANT_MS;
        if (isGood && this.#hindrance() === null) return { granted, others };
        batcher.giveBack(reservation, granted.map(numbered));
      } else if (chunk.budget !== null && full.length > 0) {
        if (await budgets.room(chunk, chunk.budget, reply, refusals++ === 0)) continue;
        await stop(chunk, budgetFault(chunk.budget, reply.spent, sumOf(full)));
      } else return { granted, others };
    }
  }

  /**
   * Calls for rows that were granted. The slot is free again before the ledger has the outcomes: the next call needs a
   * grant of a later batch. So the calls whose end a crash makes unknown are never more than the limit, and a store that
   * is away stops the calls.
   */
  async #callFor(granted: readonly ReservedRow[], reserved: Reserved): Promise<readonly RowEnd[]> {
    const { caller, batcher, feedback, budgets, log, onRequest } = this.parts;
    const { chunk, attempt } = this.lease;
    const rows = granted.map(({ row }) => row);
    onRequest();
    const startedAt = steadyNow();
    const results = await caller.call(chunk, rows, attempt, (what, by) => batcher.count(chunk.run, what, by));
    const name = rows.map((row) => this.#nameOf(row))[0] ?? '';
    const { down, tell } = feedback.learn({ name, results, reserved, startedAt });
    const failure = results.find((result) => result.kind === 'retry');
    if (failure?.kind === 'retry') log.info({ run: chunk.run, attempt, ...failure.fault }, 'a call failed');
    const ends = rows.map((row, i): RowEnd => {
      const result = this.#fateOf(results[i] ?? { kind: 'left' });
      const isRetried = result.kind === 'retry';
      return { row, result, leads: isRetried && results[i] === failure, down: isRetried && down };
    });
    const settled = ends.map(({ row, result }) => this.#settlement(row, this.#call, result));
    const billed = granted.reduce((sum, { most }, i) => plus(sum, billedFor(results[i], most)), NO_TOKENS);
    this.#settled.push(batcher.settle(chunk.run, settled, sumOf(granted), billed));
    budgets.wake(chunk);

    const halt = results.find((result) => result.kind === 'stop');
    if (halt?.kind === 'stop') await this.#stop(halt.fault);
    const fault = await tell();
    if (fault !== null) await this.#stop(fault);
    return ends;
  }

  /** What a result means for its row, where the job, or the end of this process, has a say. */
  #fateOf(result: RowResult): RowResult {
    const { chunk, attempt } = this.lease;
    if (result.kind !== 'retry' && result.kind !== 'stop') return result;
    if (result.kind === 'retry' && result.possiblyBilled && chunk.hold)
      return { kind: 'settled', outcome: lostRow(result, attempt) };
    if (result.kind === 'retry' && result.fault.code !== 'aborted') return result;
    // Given up because this process or the run ends: no attempt, but perhaps paid for, and called again.
    if (result.kind === 'retry' || result.possiblyBilled) this.parts.batcher.count(chunk.run, 'repeated');
    return { kind: 'left' };
  }

  /** The rows come again with the next execution of the run. */
  async #stop(fault: Fault): Promise<void> {
    await this.parts.stop(this.lease.chunk, fault);
    this.#wanted = false;
  }

  /** What the ledger knows of rows; nothing is reserved. */
  async #look(rows: readonly ChunkRow[]): Promise<readonly RowState[]> {
    const asked = rows.map((row) => ({ row, most: NO_TOKENS }));
    const { rows: states } = await this.parts.batcher.reserve(this.#reservation(asked, true));
    if (states.includes('unwanted')) this.#wanted = false;
    return states;
  }

  #reservation(rows: readonly ReservedRow[], looks: boolean): Reservation {
    const { run, execution, first, hold, budget } = this.lease.chunk;
    const bounds = budget === null || looks ? null : boundsOf(budget);
    return { run, execution, first, hold, call: this.#call, rows: rows.map(numbered), bounds, looks };
  }

  /**
   * Rows that are in flight elsewhere end by what comes of that call; when it will not be heard of any more, they end
   * without an outcome. A call that was not made, or not answered for certain, leaves them to be called.
   */
  async #awaitHeld(held: Map<ChunkRow, InFlight>): Promise<readonly RowEnd[]> {
    const free: ChunkRow[] = [];
    for (;;) {
      for (const [row, other] of held) {
        if (!this.#isLost(other)) continue;
        held.delete(row);
        this.#record(row, cutOffRow());
      }
      if (held.size === 0) return notCalled(free, 'left');
      if (this.parts.releasing()) return notCalled([...free, ...held.keys()], 'left');
      await sleep(LOOK_MS);
      const rows = [...held.keys()];
      const states = await this.#look(rows);
      held = new Map(rows.flatMap((row, i) => holderOf(row, states[i])));
      free.push(...rows.filter((_, i) => states[i] === 'granted'));
    }
  }

  /** Whether a call will not be heard of any more: its process is gone, or sleeps. */
  #isLost({ call, ageMs }: InFlight): boolean {
    const { execution, endpoint } = this.lease.chunk;
    // A run has one process, and this execution means that the one before has ended.
    if (call.startsWith(OWN) && Number(call.split(':')[1]) < execution) return true;
    return ageMs > endpoint.timeoutMs + GONE_MS;
  }

  /** Records the outcome of a row that has no call in flight. */
  #record(row: ChunkRow, outcome: CalledOutcome): void {
    const settlement = this.#settlement(row, null, { kind: 'settled', outcome });
    this.#settled.push(this.parts.batcher.settle(this.lease.chunk.run, [settlement]));
  }

  #settlement(row: ChunkRow, call: string | null, result: RowResult): Settlement {
    const { run, first } = this.lease.chunk;
    const outcome = result.kind === 'settled' ? result.outcome : null;
    if (outcome !== null) this.parts.outage.settled(this.#nameOf(row));
    return { run, first, row: row.row, call, outcome };
  }

  #nameOf({ row }: ChunkRow): string {
    return `${this.lease.chunk.run}:${row}`;
  }
}

const isRetry = (end: RowEnd): end is EndInRetry => end.result.kind === 'retry';

const notCalled = (rows: readonly ChunkRow[], kind: 'left' | 'paused'): readonly RowEnd[] =>
  rows.map((row) => ({ row, result: { kind }, leads: false, down: false }));

const numbered = ({ row, most }: ReservedRow): RowMost => ({ row: row.row, most });

const holderOf = (row: ChunkRow, state: RowState | undefined): [ChunkRow, InFlight][] =>
  typeof state === 'object' ? [[row, state]] : [];

function shuffled<T>(all: readonly T[], random: () => number): readonly T[] {
  return all
    .map((each) => ({ each, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
}
