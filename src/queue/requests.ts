import type { LimitFunction } from 'p-limit';
import type { CalledOutcome, Fault } from '../model.js';
import { NO_TOKENS, plus, type Tokens } from '../pace/budget.js';
import type { Reserved } from '../pace/token-estimate.js';
import type { BudgetGate } from './budget-gate.js';
import type { Chunk, ChunkRow } from './chunk.js';
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
    if (admission !== 'go') return [admission === 'pause' ? WAIT : LEFT];
    const { slots } = this.parts;
    if (slots === null) return this.#call(visit, asked, attempt, reserved);
    this.waitingForSlot++;
    return slots(() => {
      this.waitingForSlot--;
      return this.#call(visit, asked, attempt, reserved);
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
  ): Promise<RowEnd[]> {
    const { caller, quota, pacer, recorder, log } = this.parts;
    const lessons = this.#lessons;
    const { run } = visit.chunk;
    const announced = await this.#announce(visit, asked);
    const [first] = announced;
    if (first === undefined) {
      pacer.withdrawn(reserved.tokens);
      return [this.#held() ?? (asked.some((row) => visit.wants(row)) ? LEFT : DONE)];
    }
    const rows = announced.map(({ row }) => row);

    this.parts.onRequest();
    const startedAt = Date.now();
    const results = await caller.call(visit.chunk, rows, attempt, (what, by) =>
      recorder.count(run, what, by),
    );
    const down = lessons.ofOutage(nameOf(visit, first.row), results, startedAt);
    const paced = lessons.ofPace(results, reserved);
    const wait = results.find((result) => result.kind === 'wait');
    // At once: later it would undo what calls that were made after this one have learned.
    if (!wait && results.some((result) => result.kind !== 'retry' || result.connected)) quota.admitted();
    // In one go, so that they share a write: the ledger hears of an outcome and of the end of its call together.
    recorder.settle(run, rows.length, sumOf(announced), billedBy(announced, results));
    this.parts.gate.settled(visit.chunk);
    const recordings: Promise<void>[] = [];
    const failure = results.find((result) => result.kind === 'retry');
    if (failure?.kind === 'retry') log.info({ run, attempt, ...failure.fault }, 'a call failed');
    const ends = rows.map((row, i): RowEnd => {
      const result = results[i];
      switch (result?.kind) {
        case 'settled':
          recordings.push(this.record(visit, row, result.outcome));
          return DONE;
        case 'retry':
          // Given up because this process ends: no attempt, but perhaps paid for.
          if (result.fault.code === 'aborted') {
            recorder.count(run, 'repeated');
            return LEFT;
          }
          return { kind: 'retry', row, result, leads: result === failure, down: down !== null };
        case 'wait':
          return WAIT;
        default:
          return LEFT;
      }
    });
    await Promise.all(recordings);

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
    const now = Date.now();
    return this.parts.quota.remaining(now) > 0 || this.parts.outage.remaining(now) > 0 ? WAIT : null;
  }

  /**
   * Tells the ledger which rows are about to be called. Looks again afterwards, because that may have taken as long as
   * the store was away, or until the budget had room: others may have answered the rows, or been told to wait.
   * @returns the rows to call
   */
  async #announce(visit: ChunkVisit, asked: readonly ChunkRow[]): Promise<readonly ReservedRow[]> {
    const wants = (row: ChunkRow): boolean => this.#held() === null && visit.wants(row);
    await visit.refresh();
    if (!asked.some(wants)) return [];
    const announced = await this.parts.reservations.of(visit.chunk, asked);
    if (!(await this.#pass(visit, announced))) return [];
    let rows: readonly ReservedRow[] = [];
    try {
      await visit.refresh();
      rows = announced.filter(({ row }) => wants(row));
    } finally {
      const left = announced.filter((row) => !rows.includes(row));
      if (left.length > 0)
        this.parts.recorder.retract(visit.chunk.run, left.length, sumOf(left), rows.length === 0);
    }
    return rows;
  }

  /** @returns whether the rows are announced; under a budget only when it has room for them */
  async #pass(visit: ChunkVisit, rows: readonly ReservedRow[]): Promise<boolean> {
    const { recorder, gate } = this.parts;
    const { run, budget } = visit.chunk;
    if (budget === null) {
      await recorder.announce(run, rows.length, NO_TOKENS);
      return true;
    }
    const request = { rows: rows.length, reserve: sumOf(rows), isHeld: () => this.#held() !== null };
    const passage = await gate.pass(visit.chunk, budget, request);
    if (passage === 'stopped') visit.drop();
    return passage === 'reserved';
  }

  record(visit: ChunkVisit, row: ChunkRow, outcome: CalledOutcome): Promise<void> {
    this.parts.outage.settled(nameOf(visit, row));
    return this.parts.recorder.add(visit.entry(row, outcome));
  }
}

const billedBy = (rows: readonly ReservedRow[], results: readonly RowResult[]): Tokens =>
  rows.reduce((sum, { most }, i) => plus(sum, billedFor(results[i], most)), NO_TOKENS);

const nameOf = ({ chunk }: ChunkVisit, { row }: ChunkRow): string => `${chunk.run}:${row}`;
