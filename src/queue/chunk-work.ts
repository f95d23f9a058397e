import { setTimeout as sleep } from 'node:timers/promises';
import type { LimitFunction } from 'p-limit';
import type { Logger } from 'pino';
import type { Fault } from '../model.js';
import type { QuotaWait } from '../pace/quota-wait.js';
import { type Caller, failedRow } from './caller.js';
import type { ChunkRow } from './chunk.js';
import type { ChunkVisit } from './chunk-visit.js';
import { packs } from './packs.js';
import type { Recorder } from './recorder.js';
import type { RowResult } from './row-result.js';

/** Pause before rows go back to the queue because the store refused, in milliseconds. */
const STORE_PAUSE_MS = 1_000;

/** How a chunk's visit ends: every row recorded, rows to be tried again, a pause, or rows not called. */
export type VisitEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** How a row left its request: recorded, to be tried again, refused for lack of quota, or not called at all. */
type RowEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  | { readonly kind: 'retry'; readonly row: ChunkRow; readonly fault: Fault; readonly latency: number };

const DONE: RowEnd = { kind: 'done' };
const WAIT: RowEnd = { kind: 'wait' };
const LEFT: RowEnd = { kind: 'left' };

/** What the work on chunks takes from its worker. */
export interface ChunkWorkParts {
  readonly caller: Caller;
  /** One limit over all chunks of the process. */
  readonly limit: LimitFunction;
  readonly quota: QuotaWait;
  readonly recorder: Recorder;
  readonly log: Logger;
  /** True when rows that are not called yet go back to the queue. */
  readonly releasing: () => boolean;
  /** Told before each request. */
  readonly onRequest: () => void;
  /** Pauses all workers of the queue, for milliseconds. */
  readonly pauseAll: (ms: number) => Promise<void>;
  /** Nothing can pass until somebody mends something. */
  readonly stop: (run: string, fault: Fault) => Promise<void>;
}

/** Calls the service for the rows of a chunk and records what it says. */
export class ChunkWork {
  constructor(private readonly parts: ChunkWorkParts) {}

  /** @param attempt number of this attempt for the chunk, from 1 */
  async visit(visit: ChunkVisit, attempt: number): Promise<VisitEnd> {
    const requests = packs(visit.unknownRows(), visit.chunk.promptsPerRequest);
    const ends = await Promise.all(
      requests.map((rows) => this.parts.limit(() => this.#requestOrLeft(visit, rows, attempt))),
    ).then((all) => all.flat());
    await visit.recorded();
    if (!visit.wanted) return { kind: 'done' };
    // Before the rows that failed: a wait uses up no attempt, and theirs are tried again with it.
    if (ends.includes(WAIT)) return { kind: 'wait' };

    const retries = ends.filter((end) => end.kind === 'retry');
    if (retries.length > 0 && attempt < visit.attempts) {
      return {
        kind: 'retry',
        rows: retries.length,
        codes: [...new Set(retries.map((end) => end.fault.code))],
      };
    }
    for (const { row, fault, latency } of retries) {
      visit.keep(this.parts.recorder.add(visit.entry(row, failedRow(fault, attempt, latency))));
    }
    await visit.recorded();
    return { kind: ends.includes(LEFT) ? 'left' : 'done' };
  }

  /** Rows whose fate the store did not let us learn go back to the queue; the others of their chunk go on. */
  async #requestOrLeft(visit: ChunkVisit, rows: readonly ChunkRow[], attempt: number): Promise<RowEnd[]> {
    try {
      return await this.#request(visit, rows, attempt);
    } catch (error) {
      this.parts.log.warn({ err: error, row: rows[0]?.row }, 'the store refused; rows go back to the queue');
      await sleep(STORE_PAUSE_MS);
      return [LEFT];
    }
  }

  async #request(visit: ChunkVisit, asked: readonly ChunkRow[], attempt: number): Promise<RowEnd[]> {
    const { caller, quota, recorder } = this.parts;
    if (this.parts.releasing()) return [LEFT];
    if (quota.remaining(Date.now()) > 0) return [WAIT];
    await visit.refresh();
    const rows = asked.filter((row) => visit.wants(row));
    if (rows.length === 0) return [DONE];

    this.parts.onRequest();
    const { run } = visit.chunk;
    const startedAt = Date.now();
    const results = await caller.call(visit.chunk, rows, attempt, (what) => recorder.count(run, what));
    const ends = rows.map((row, i) => this.#rowEnd(visit, row, results[i]));

    const failure = results.find((result) => result.kind === 'retry');
    if (failure?.kind === 'retry') this.#countRetry(visit, failure, attempt);
    const stop = results.find((result) => result.kind === 'stop');
    if (stop?.kind === 'stop') await this.parts.stop(run, stop.fault);
    const wait = results.find((result) => result.kind === 'wait');
    if (wait?.kind === 'wait') await this.#wait(run, wait, startedAt);
    else quota.admitted();
    return ends;
  }

  #rowEnd(visit: ChunkVisit, row: ChunkRow, result: RowResult | undefined): RowEnd {
    switch (result?.kind) {
      case 'settled':
        visit.keep(this.parts.recorder.add(visit.entry(row, result.outcome)));
        return DONE;
      case 'retry':
        return { kind: 'retry', row, fault: result.fault, latency: result.latency_ms };
      case 'wait':
        return WAIT;
      default:
        return LEFT;
    }
  }

  /** The request that follows may be the second that is paid for (fault 21). */
  #countRetry(visit: ChunkVisit, failure: RowResult & { kind: 'retry' }, attempt: number): void {
    const { run } = visit.chunk;
    this.parts.log.info({ run, attempt, ...failure.fault }, 'a call failed; its rows are tried again');
    if (attempt >= visit.attempts) return;
    this.parts.recorder.count(run, 'retried');
    if (failure.possiblyBilled) this.parts.recorder.count(run, 'repeated');
  }

  /** The service refused for lack of quota: every worker of the queue pauses, and no attempt is used up. */
  async #wait(run: string, { ms, fault }: RowResult & { kind: 'wait' }, startedAt: number): Promise<void> {
    const { quota, log } = this.parts;
    const before = quota.remaining(Date.now());
    const verdict = quota.refused(ms, startedAt, Date.now());
    if (verdict.kind === 'give-up') return this.parts.stop(run, fault);
    if (verdict.ms <= before) return;
    log.info({ ms: verdict.ms, ...fault }, 'the service asked to wait');
    await this.parts.pauseAll(verdict.ms);
  }
}
