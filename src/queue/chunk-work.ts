import { setTimeout as sleep } from 'node:timers/promises';
import type { LimitFunction } from 'p-limit';
import type { Logger } from 'pino';
import type { CalledOutcome, Fault } from '../model.js';
import { NO_TOKENS, plus, type Tokens } from '../pace/budget.js';
import type { Outage } from '../pace/outage.js';
import type { Pacer } from '../pace/pacer.js';
import type { QuotaWait } from '../pace/quota-wait.js';
import type { Reserved, TokenEstimate } from '../pace/token-estimate.js';
import type { BudgetGate } from './budget-gate.js';
import { type Caller, failedRow } from './caller.js';
import type { Chunk, ChunkRow } from './chunk.js';
import type { ChunkVisit } from './chunk-visit.js';
import { packs } from './packs.js';
import type { Recorder } from './recorder.js';
import { billedFor, type Reservations, type ReservedRow, sumOf } from './reservation.js';
import type { RowResult } from './row-result.js';

/** Pause before rows go back to the queue because the store refused, in milliseconds. */
export const STORE_PAUSE_MS = 1_000;

/** How a chunk's visit ends: every row recorded, rows to be tried again, a pause, or rows not called. */
export type VisitEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** How a row left its request: recorded, to be tried again, refused for lack of quota, or not called at all. */
type RowEnd = { readonly kind: 'done' | 'wait' | 'left' } | RowRetry;

interface RowRetry {
  readonly kind: 'retry';
  readonly row: ChunkRow;
  readonly result: RowResult & { readonly kind: 'retry' };
  /** True for one row of each request. */
  readonly leads: boolean;
  /** The call failed in an outage: that is no attempt. */
  readonly down: boolean;
}

const DONE: RowEnd = { kind: 'done' };
const WAIT: RowEnd = { kind: 'wait' };
const LEFT: RowEnd = { kind: 'left' };

/** What the work on chunks takes from its worker. */
export interface ChunkWorkParts {
  readonly caller: Caller;
  /** One limit over all chunks of the process. */
  readonly limit: LimitFunction;
  /** The limit over all queues of the process; null where there is one queue. */
  readonly slots: LimitFunction | null;
  readonly quota: QuotaWait;
  readonly outage: Outage;
  /** Null where the job says nothing of a quota. */
  readonly pacer: Pacer | null;
  readonly estimate: TokenEstimate;
  /** Keeps the budgets of the runs that have one. */
  readonly gate: BudgetGate;
  readonly reservations: Reservations;
  readonly recorder: Recorder;
  readonly log: Logger;
  /** True when rows that are not called yet go back to the queue. */
  readonly releasing: () => boolean;
  /** Told before each request. */
  readonly onRequest: () => void;
  /** Pauses all workers of the queue, for milliseconds. */
  readonly pauseAll: (ms: number) => Promise<void>;
  /** Resolves when the pause that other workers asked for is known. */
  readonly heedPause: () => Promise<void>;
  /** Nothing can pass until somebody mends something. */
  readonly stop: (chunk: Chunk, fault: Fault) => Promise<void>;
}

/** Calls the service for the rows of a chunk and records what it says. */
export class ChunkWork {
  /** Requests that may be made and for which the process has no slot free. */
  waitingForSlot = 0;

  constructor(private readonly parts: ChunkWorkParts) {}

  /** @param attempt number of this attempt for the chunk, from 1 */
  async visit(visit: ChunkVisit, attempt: number): Promise<VisitEnd> {
    // A row that the service cannot take would have its neighbours fail with it: at each attempt it has fewer.
    const most = Math.ceil(visit.chunk.promptsPerRequest / 4 ** (attempt - 1));
    const inOrder = packs(visit.unknownRows(), most);
    // In an outage the first of them probes; it must not be the same row again and again.
    const requests = this.parts.outage.view === null ? inOrder : shuffled(inOrder, Math.random);
    const ends = await Promise.all(
      requests.map((rows) => this.parts.limit(() => this.#requestOrLeft(visit, rows, attempt))),
    ).then((all) => all.flat());
    if (!visit.wanted) return { kind: 'done' };
    const retries = ends.filter((end) => end.kind === 'retry');
    // Before the rows that failed: a wait uses up no attempt, and theirs are tried again with it.
    const wait = ends.includes(WAIT) || retries.some((end) => end.down);
    if (wait || attempt < visit.attempts) {
      this.#countRetries(visit.chunk.run, retries);
      if (wait) return { kind: 'wait' };
      const codes = [...new Set(retries.map((end) => end.result.fault.code))];
      if (retries.length > 0) return { kind: 'retry', rows: retries.length, codes };
    } else {
      await Promise.all(
        retries.map(({ row, result: { fault, latency_ms } }) =>
          this.#record(visit, row, failedRow(fault, attempt, latency_ms)),
        ),
      );
    }
    return { kind: ends.includes(LEFT) ? 'left' : 'done' };
  }

  /** The requests that follow may be the second that is paid for (fault 21). */
  #countRetries(run: string, retries: readonly RowRetry[]): void {
    const requests = retries.filter((end) => end.leads).length;
    const billed = retries.filter((end) => end.result.possiblyBilled).length;
    if (requests > 0) this.parts.recorder.count(run, 'retried', requests);
    if (billed > 0) this.parts.recorder.count(run, 'repeated', billed);
  }

  /** Rows whose fate the store did not let us learn go back to the queue; the others of their chunk go on. */
  async #requestOrLeft(visit: ChunkVisit, rows: readonly ChunkRow[], attempt: number): Promise<RowEnd[]> {
    try {
      const ends = await this.parts.outage.through(Date.now, () => this.#request(visit, rows, attempt));
      return ends ?? [WAIT];
    } catch (error) {
      this.parts.log.warn({ err: error, row: rows[0]?.row }, 'the store refused; rows go back to the queue');
      await sleep(STORE_PAUSE_MS);
      return [LEFT];
    }
  }

  /**
   * Waits until the request may be made. The slot comes last, so that a queue that waits for its turn takes none from
   * the others.
   */
  async #request(visit: ChunkVisit, asked: readonly ChunkRow[], attempt: number): Promise<RowEnd[]> {
    await this.parts.heedPause();
    const early = this.#held();
    if (early !== null) return [early];
    const reserved = this.parts.estimate.reserve(
      asked.map((row) => row.prompt),
      { ...visit.chunk.parameters, ...asked[0]?.parameters },
    );
    if ((await this.parts.pacer?.admit(reserved.tokens)) === false) return [LEFT];
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
    const { caller, quota, recorder, log } = this.parts;
    const { run } = visit.chunk;
    const announced = await this.#announce(visit, asked);
    if (announced.length === 0)
      return [this.#held() ?? (asked.some((row) => visit.wants(row)) ? LEFT : DONE)];
    const rows = announced.map(({ row }) => row);

    this.parts.onRequest();
    const startedAt = Date.now();
    const results = await caller.call(visit.chunk, rows, attempt, (what, by) =>
      recorder.count(run, what, by),
    );
    const down = this.#judge(visit, rows, results, startedAt);
    const paced = this.#pace(results, reserved);
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
          recordings.push(this.#record(visit, row, result.outcome));
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

    if (down !== null) await this.#pause(down);
    const stop = results.find((result) => result.kind === 'stop');
    if (stop?.kind === 'stop') await this.parts.stop(visit.chunk, stop.fault);
    await paced;
    if (wait?.kind === 'wait') await this.#wait(visit.chunk, wait, startedAt, reserved.tokens);
    return ends;
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

  #record(visit: ChunkVisit, row: ChunkRow, outcome: CalledOutcome): Promise<void> {
    this.parts.outage.settled(nameOf(visit, row));
    return this.parts.recorder.add(visit.entry(row, outcome));
  }

  /** @returns what the outage asks for: a pause in milliseconds that is longer than the one that lasts, or 0; null without one */
  #judge(
    visit: ChunkVisit,
    rows: readonly ChunkRow[],
    results: readonly RowResult[],
    startedAt: number,
  ): number | null {
    const { outage } = this.parts;
    const first = results.find((result) => result.kind === 'retry');
    // Neither says that the service is there: a call that was given up, and a gateway that refuses for lack of quota.
    if (first?.kind === 'retry' ? first.fault.code === 'aborted' : results[0]?.kind === 'wait') return null;
    if (first?.kind !== 'retry' || results.some((result) => result.kind !== 'retry')) {
      outage.answered();
      return null;
    }
    const now = Date.now();
    const before = outage.remaining(now);
    const names = rows.slice(0, 1).map((row) => nameOf(visit, row));
    const { fault, connected } = first;
    const ms = outage.failed({ rows: names, fault, connected, startedAt }, now, Math.random());
    if (ms === null) return null;
    return ms > before ? ms : 0;
  }

  /** Tells the pacer what came of a request; a refusal it hears of with its pause. */
  async #pace(results: readonly RowResult[], reserved: Reserved): Promise<void> {
    const { caller, pacer, estimate } = this.parts;
    if (pacer === null || results.some((result) => result.kind === 'wait')) return;
    if (results.every((result) => result.kind === 'retry')) return pacer.failed();
    const usage = sumOfUsage(results);
    // Larger than the whole quota: it was not admitted, and the others need not wait for its tokens.
    const never = results.every(
      (result) => result.kind === 'settled' && codeOf(result.outcome) === 'request_exceeds_quota',
    );
    const beyond = usage === null ? 0 : estimate.settle(reserved, usage);
    pacer.answered(never ? -reserved.tokens : beyond, caller.told);
  }

  /** Nothing succeeds: every worker of the queue pauses, and no attempt is used up. */
  async #pause(ms: number): Promise<void> {
    if (ms === 0) return;
    this.parts.log.info({ ms, ...this.parts.outage.view?.fault }, 'the service is down; pausing');
    await this.parts.pauseAll(ms);
  }

  /** The service refused for lack of quota: every worker of the queue pauses, and no attempt is used up. */
  async #wait(
    chunk: Chunk,
    { ms, fault }: RowResult & { kind: 'wait' },
    startedAt: number,
    tokens: number,
  ): Promise<void> {
    const { quota, pacer, log } = this.parts;
    const before = quota.remaining(Date.now());
    const verdict = quota.refused(ms, startedAt, Date.now());
    if (verdict.kind === 'give-up') return this.parts.stop(chunk, fault);
    const told = pacer?.refused(startedAt, verdict.ms, tokens);
    if (verdict.ms > before) {
      log.info({ ms: verdict.ms, ...fault }, 'the service asked to wait');
      await this.parts.pauseAll(verdict.ms);
    }
    await told;
  }
}

const billedBy = (rows: readonly ReservedRow[], results: readonly RowResult[]): Tokens =>
  rows.reduce((sum, { most }, i) => plus(sum, billedFor(results[i], most)), NO_TOKENS);

const codeOf = (outcome: CalledOutcome): string | null =>
  outcome.status === 'failed' ? outcome.error.code : null;

/** What the rows of a request took together; null when the service did not say of any. */
function sumOfUsage(
  results: readonly RowResult[],
): { prompt_tokens: number; completion_tokens: number } | null {
  const usages = results.flatMap((result) => {
    const outcome = result.kind === 'settled' ? result.outcome : null;
    return (outcome !== null && 'completion' in outcome && outcome.completion?.usage) || [];
  });
  if (usages.length === 0) return null;
  return {
    prompt_tokens: usages.reduce((sum, usage) => sum + usage.prompt_tokens, 0),
    completion_tokens: usages.reduce((sum, usage) => sum + usage.completion_tokens, 0),
  };
}

function shuffled<T>(all: readonly T[], random: () => number): readonly T[] {
  return all
    .map((each) => ({ each, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
}

const nameOf = ({ chunk }: ChunkVisit, { row }: ChunkRow): string => `${chunk.run}:${row}`;
