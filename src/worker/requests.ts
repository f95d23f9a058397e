import type { LimitFunction } from 'p-limit';
import { NO_TOKENS, plus, type Tokens } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import type { CalledOutcome, Failed, Fault } from '../model.js';
import type { Reserved } from '../pace/token-estimate.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';
import type { BudgetGate } from './budget-gate.js';
import type { ChunkVisit } from './chunk-visit.js';
import { type LessonParts, Lessons } from './lessons.js';
import type { Recorder } from './recorder.js';
import { billedFor, type Reservations, type ReservedRow, sumOf } from './reservation.js';
import type { RowResult } from './row-result.js';

/** How a row left its request: recorded, to be tried again, refused for lack of quota, or not called at all. */
export type RowEnd = { readonly kind: 'done' | 'wait' | 'left' } | RowRetry;

export interface RowRetry {
  readonly kind: 'retry';
  readonly row: ChunkRow;
  readonly result: RowResult & { readonly kind: 'retry' };
  /** True for one row of each request. */
  readonly leads: boolean;
  /** The call failed in an outage: that is no attempt. */
  readonly down: boolean;
}

const DONE: RowEnd = { kind: 'done' };
export const WAIT: RowEnd = { kind: 'wait' };
export const LEFT: RowEnd = { kind: 'left' };

/** What requests take from their worker. */
export interface RequestParts extends LessonParts {
  /** The limit over all queues of the process; null where there is one queue. */
  readonly slots: LimitFunction | null;
  /** Keeps the budgets of the runs that have one. */
  readonly gate: BudgetGate;
  readonly reservations: Reservations;
  readonly recorder: Recorder;
  /** True when rows that are not called yet go back to the queue. */
  readonly releasing: () => boolean;
  /** Told before each request. */
  readonly onRequest: () => void;
  /** Nothing can pass until somebody mends something. */
  readonly stop: (chunk: Chunk, fault: Fault) => Promise<void>;
}

/** Makes requests for rows: waits until one may be made, announces it, calls, and records what the service says. */
export class Requests {
  /** Requests that may be made and for which the process has no slot free. */
  waitingForSlot = 0;
  readonly #lessons: Lessons;

  constructor(private readonly parts: RequestParts) {
    this.#lessons = new Lessons(parts);
  }

  /**
   * Waits until the request may be made. The slot comes last, so that a queue that waits for its turn takes none from
   * the others.
   */
  async make(visit: ChunkVisit, asked: readonly ChunkRow[], attempt: number): Promise<RowEnd[]> {
    const early = this.#held();
    if (early !== null) return [early];
    const reserved = this.parts.estimate.reserve(
      asked.map((row) => row.prompt),
      { ...visit.chunk.parameters, ...asked[0]?.parameters },
    );
    const admission = await this.parts.pacer.admit(reserved.tokens);
    if (typeof admission === 'string') return [admission === 'pause' ? WAIT : LEFT];
    const { turn } = admission;
    const { slots } = this.parts;
    if (slots === null) return this.#call(visit, asked, attempt, reserved, turn);
    this.waitingForSlot++;
    return slots(() => {
      this.waitingForSlot--;
      return this.#call(visit, asked, attempt, reserved, turn);
    });
  }

  /**
   * Returns when what came of the request is in the ledger. So the calls whose end a crash makes unknown are never
   * more than the limit (I2), and a store that is away stops the calls.
   */
  async #call(
    visit: ChunkVisit,
    asked: readonly ChunkRow[],
    attempt: number,
    reserved: Reserved,
    turn: number,
  ): Promise<RowEnd[]> {
    const { caller, quota, pacer, recorder, log } = this.parts;
    const lessons = this.#lessons;
    const { run } = visit.chunk;
    const announced = await this.#announce(visit, asked, turn);
    const [first] = announced;
    if (first === undefined) {
      pacer.withdrawn(reserved.tokens);
      return [this.#held() ?? (asked.some((row) => visit.isOpen(row)) ? LEFT : DONE)];
    }
    const rows = announced.map(({ row }) => row);

    this.parts.onRequest();
    const startedAt = steadyNow();
    const results = await caller.call(visit.chunk, rows, attempt, (what, by) =>
      recorder.count(run, what, by),
    );
    const down = lessons.ofOutage(nameOf(visit, first.row), results, startedAt);
    const paced = lessons.ofPace(results, reserved);
    const wait = results.find((result) => result.kind === 'wait');
    // At once: later it would undo what calls that were made after this one have learned.
    if (!wait && results.some((result) => result.kind !== 'retry' || result.connected)) quota.admitted();
    // In one go, so that they share a write: the ledger hears of an outcome and of the end of its call together.
    recorder.settle(visit.request(rows), sumOf(announced), billedBy(announced, results));
    this.parts.gate.settled(visit.chunk);
    const recordings: Promise<void>[] = [];
    const failure = results.find((result) => result.kind === 'retry');
    if (failure?.kind === 'retry') log.info({ run, attempt, ...failure.fault }, 'a call failed');
    const ends = rows.map((row, i): RowEnd => {
      const result = results[i];
      switch (result?.kind) {
        case 'settled':
          recordings.push(this.record(visit, row, result.outcome, true));
          return DONE;
        case 'retry':
          if (result.possiblyBilled && visit.chunk.hold) {
            recordings.push(this.record(visit, row, lostAnswer(result, attempt), true));
            return DONE;
          }
          // Given up because this process ends: no attempt, but perhaps paid for.
          if (result.fault.code === 'aborted') {
            recorder.count(run, 'repeated');
            return LEFT;
          }
          return { kind: 'retry', row, result, leads: result === failure, down: down !== null };
        case 'wait':
          return WAIT;
        case 'stop':
          // The next execution calls it again.
          if (result.possiblyBilled) recorder.count(run, 'repeated');
          return LEFT;
        default:
          return LEFT;
      }
    });
    await Promise.all(recordings);
    if (asked.some((row) => !rows.includes(row) && visit.isOpen(row))) ends.push(LEFT);

    if (down !== null) await lessons.pause(down);
    const stop = results.find((result) => result.kind === 'stop');
    if (stop?.kind === 'stop') await this.#stop(visit, stop.fault);
    await paced;
    if (wait?.kind === 'wait') {
      const fault = await lessons.ofRefusal(wait, startedAt, reserved.tokens);
      if (fault !== null) await this.#stop(visit, fault);
    }
    return ends;
  }

  /** The rows come again with the next execution of the run. */
  async #stop(visit: ChunkVisit, fault: Fault): Promise<void> {
    await this.parts.stop(visit.chunk, fault);
    visit.drop();
  }

  /** What keeps a request from being made now: its rows go back, or wait. */
  #held(): RowEnd | null {
    if (this.parts.releasing()) return LEFT;
    const now = steadyNow();
    return this.parts.quota.remaining(now) > 0 || this.parts.outage.remaining(now) > 0 ? WAIT : null;
  }

  /**
   * Tells the ledger which rows are about to be called. Looks again afterwards, because that may have taken as long as
   * the store was away, or until the budget had room: others may have answered the rows, or been told to wait.
   * @returns the rows to call
   */
  async #announce(
    visit: ChunkVisit,
    asked: readonly ChunkRow[],
    turn: number,
  ): Promise<readonly ReservedRow[]> {
    const wants = (row: ChunkRow): boolean => this.#held() === null && visit.wants(row);
    await visit.refresh();
    if (!asked.some(wants)) return [];
    const announced = await this.parts.reservations.of(visit.chunk, asked);
    const granted = await this.#pass(visit, announced);
    if (granted === null) return [];
    let rows: readonly ReservedRow[] = [];
    try {
      // What the ledger refuses it knows more of than this visit.
      await visit.refresh(granted.size < announced.length ? 0 : undefined);
      // The store may have taken its time, for several calls at once.
      await this.parts.pacer.space(turn);
      rows = announced.filter(({ row }) => granted.has(row.row) && wants(row));
    } finally {
      const left = announced.filter((row) => !rows.includes(row));
      if (left.length > 0)
        this.parts.recorder.retract(
          visit.request(left.map(({ row }) => row)),
          sumOf(left),
          rows.length === 0,
        );
    }
    return rows;
  }

  /** @returns the rows that may be called; null when none is announced, because the budget has no room for them */
  async #pass(visit: ChunkVisit, rows: readonly ReservedRow[]): Promise<ReadonlySet<number> | null> {
    const { recorder, gate } = this.parts;
    const { budget } = visit.chunk;
    const request = visit.request(rows.map(({ row }) => row));
    if (budget === null) return await recorder.announce(request, NO_TOKENS);
    let granted: ReadonlySet<number> = new Set();
    const passage = await gate.pass(visit.chunk, budget, {
      request,
      reserve: sumOf(rows),
      isHeld: () => this.#held() !== null,
      onAnnounced: (rows) => {
        granted = rows;
      },
    });
    if (passage === 'stopped') visit.drop();
    return passage === 'reserved' ? granted : null;
  }

  /** @param ends whether the row's call is settled with it, in the same write */
  record(visit: ChunkVisit, row: ChunkRow, outcome: CalledOutcome, ends = false): Promise<void> {
    this.parts.outage.settled(nameOf(visit, row));
    return this.parts.recorder.add(visit.entry(row, outcome, ends));
  }
}

/** A row that may have been billed and is not called again. @param why what came between */
export const unknownRow = (why: string, attempts: number, latency_ms: number | null): Failed => ({
  status: 'failed',
  error: {
    code: OUTCOME_UNKNOWN,
    message: `${why}; it may have been answered and billed, so it was not called again (limits.unknown_outcome: hold)`,
  },
  attempts,
  latency_ms,
});

const lostAnswer = ({ fault, latency_ms }: RowRetry['result'], attempt: number): Failed =>
  unknownRow(`${fault.code}: ${fault.message}`, attempt, latency_ms);

const billedBy = (rows: readonly ReservedRow[], results: readonly RowResult[]): Tokens =>
  rows.reduce((sum, { most }, i) => plus(sum, billedFor(results[i], most)), NO_TOKENS);

const nameOf = ({ chunk }: ChunkVisit, { row }: ChunkRow): string => `${chunk.run}:${row}`;
