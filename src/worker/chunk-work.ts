import { setTimeout as sleep } from 'node:timers/promises';
import { steadyNow } from '../clock.js';
import type { ChunkRow } from '../queue/chunk.js';
import { failedRow } from './caller.js';
import type { ChunkVisit } from './chunk-visit.js';
import type { FairLimit } from './fair-limit.js';
import { packs } from './packs.js';
import {
  LEFT,
  type RequestParts,
  Requests,
  type RowEnd,
  type RowRetry,
  unknownRow,
  WAIT,
} from './requests.js';

/** Pause before rows go back to the queue because the store refused, in milliseconds. */
export const STORE_PAUSE_MS = 1_000;

/** Pause between two looks at rows that are in flight elsewhere, in milliseconds. */
const LOOK_MS = 500;

const LOST = 'its call was cut off when a process ended';

/** How a chunk's visit ends: every row recorded, rows to be tried again, a pause, or rows not called. */
export type VisitEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** What the work on chunks takes from its worker. */
export interface ChunkWorkParts extends RequestParts {
  /** One limit over all chunks of the process, in which its runs take turns. */
  readonly limit: FairLimit;
}

/** Answers to several prompts in a row that nobody could take apart, after which every row is called alone. */
const MIXED_UP = 3;

/** Has the rows of a chunk called for, and says what becomes of the chunk. */
export class ChunkWork {
  readonly #requests: Requests;
  /** Answers to several prompts that could not be taken apart, with none between that could. */
  #mixedUp = 0;

  constructor(private readonly parts: ChunkWorkParts) {
    this.#requests = new Requests(parts);
  }

  /** Requests that may be made and for which the process has no slot free. */
  get waitingForSlot(): number {
    return this.#requests.waitingForSlot;
  }

  /** @param attempt number of this attempt for the chunk, from 1 */
  async visit(visit: ChunkVisit, attempt: number): Promise<VisitEnd> {
    // A row that the service cannot take would have its neighbours fail with it: at each attempt it has fewer.
    const shared = Math.ceil(visit.chunk.promptsPerRequest / 4 ** (attempt - 1));
    const most = this.#mixedUp >= MIXED_UP ? 1 : shared;
    const held = this.#awaitHeld(visit);
    const first = await this.#requestAll(visit, packs(visit.unknownRows(), most), attempt);
    // At once and not with the next attempt: nothing is wrong with the rows, nor with the service.
    const alone = first.filter((end) => end.kind === 'retry').filter((end) => end.result.alone);
    this.#countRetries(visit.chunk.run, alone, alone.length);
    const rest = first.filter((end) => end.kind !== 'retry' || !end.result.alone);
    const again = alone.map(({ row }) => [row]);
    const more = again.length === 0 ? [] : await this.#requestAll(visit, again, attempt);
    const ends = [...rest, ...more, ...(await held)];
    const retries = ends.filter((end) => end.kind === 'retry');
    if (!visit.wanted) {
      this.#countRetries(visit.chunk.run, retries);
      return { kind: 'done' };
    }
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
          this.#requests.record(visit, row, failedRow(fault, attempt, latency_ms)),
        ),
      );
    }
    return { kind: ends.includes(LEFT) ? 'left' : 'done' };
  }

  /**
   * Rows that are in flight elsewhere end by what comes of that call; when it will not be heard of any more, they end
   * without an outcome. A call that was not made, or not answered for certain, leaves them to be called.
   */
  async #awaitHeld(visit: ChunkVisit): Promise<RowEnd[]> {
    const all = visit.heldRows();
    for (let held = all; held.length > 0; held = visit.heldRows()) {
      const lost = held.filter((row) => visit.isLost(row));
      await Promise.all(lost.map((row) => this.#requests.record(visit, row, unknownRow(LOST, 1, null))));
      if (lost.length === held.length) break;
      if (this.parts.releasing()) return [LEFT];
      await sleep(LOOK_MS);
      try {
        await visit.refresh(0);
      } catch (error) {
        this.parts.log.debug({ err: error }, 'the ledger refused to say which rows are in flight');
      }
    }
    return all.some((row) => visit.wants(row)) ? [LEFT] : [];
  }

  /**
   * The requests that follow may be the second that is paid for (fault 21).
   * @param requests how many follow. @default as many as failed
   */
  #countRetries(
    run: string,
    retries: readonly RowRetry[],
    requests = retries.filter((end) => end.leads).length,
  ): void {
    const billed = retries.filter((end) => end.result.possiblyBilled).length;
    if (requests > 0) this.parts.recorder.count(run, 'retried', requests);
    if (billed > 0) this.parts.recorder.count(run, 'repeated', billed);
  }

  async #requestAll(
    visit: ChunkVisit,
    inOrder: readonly (readonly ChunkRow[])[],
    attempt: number,
  ): Promise<readonly RowEnd[]> {
    // In an outage the first of them probes; it must not be the same row again and again.
    const requests = this.parts.outage.view === null ? inOrder : shuffled(inOrder, Math.random);
    const ends = await Promise.all(
      requests.map((rows) =>
        this.parts.limit.run(visit.chunk.run, () => this.#requestOrLeft(visit, rows, attempt)),
      ),
    );
    return ends.flat();
  }

  /** A server that mixes all its answers up has each paid for twice: from the third on, rows are called alone. */
  #learnOfPacks(rows: readonly ChunkRow[], ends: readonly RowEnd[]): void {
    if (rows.length === 1) return;
    if (ends.some((end) => end.kind === 'done')) this.#mixedUp = 0;
    if (!ends.some((end) => end.kind === 'retry' && end.result.alone)) return;
    this.#mixedUp++;
    if (this.#mixedUp !== MIXED_UP) return;
    this.parts.log.warn(
      'answers to several prompts in one request have choices with wrong indexes; rows are called one by one from now on',
    );
  }

  /** Rows whose fate the store did not let us learn go back to the queue; the others of their chunk go on. */
  async #requestOrLeft(visit: ChunkVisit, rows: readonly ChunkRow[], attempt: number): Promise<RowEnd[]> {
    try {
      const ends = await this.parts.outage.through(steadyNow, () =>
        this.#requests.make(visit, rows, attempt),
      );
      this.#learnOfPacks(rows, ends ?? []);
      return ends ?? [WAIT];
    } catch (error) {
      this.parts.log.warn({ err: error, row: rows[0]?.row }, 'the store refused; rows go back to the queue');
      await sleep(STORE_PAUSE_MS);
      return [LEFT];
    }
  }
}

function shuffled<T>(all: readonly T[], random: () => number): readonly T[] {
  return all
    .map((each) => ({ each, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
}
