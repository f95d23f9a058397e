import { setTimeout as sleep } from 'node:timers/promises';
import type { LimitFunction } from 'p-limit';
import { failedRow } from './caller.js';
import type { ChunkRow } from './chunk.js';
import type { ChunkVisit } from './chunk-visit.js';
import { packs } from './packs.js';
import { LEFT, type RequestParts, Requests, type RowEnd, type RowRetry, WAIT } from './requests.js';

/** Pause before rows go back to the queue because the store refused, in milliseconds. */
export const STORE_PAUSE_MS = 1_000;

/** How a chunk's visit ends: every row recorded, rows to be tried again, a pause, or rows not called. */
export type VisitEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** What the work on chunks takes from its worker. */
export interface ChunkWorkParts extends RequestParts {
  /** One limit over all chunks of the process. */
  readonly limit: LimitFunction;
}

/** Has the rows of a chunk called for, and says what becomes of the chunk. */
export class ChunkWork {
  readonly #requests: Requests;

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
    const most = Math.ceil(visit.chunk.promptsPerRequest / 4 ** (attempt - 1));
    const inOrder = packs(visit.unknownRows(), most);
    // In an outage the first of them probes; it must not be the same row again and again.
    const requests = this.parts.outage.view === null ? inOrder : shuffled(inOrder, Math.random);
    const ends = await Promise.all(
      requests.map((rows) => this.parts.limit(() => this.#requestOrLeft(visit, rows, attempt))),
    ).then((all) => all.flat());
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
      const ends = await this.parts.outage.through(Date.now, () => this.#requests.make(visit, rows, attempt));
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
