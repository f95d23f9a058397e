import type { CalledOutcome } from '../core/model.js';
import type { ChunkKey, Progress, Settlement } from './ledger.js';

/** Maximum characters of JSON to keep; as objects they take about five times as much memory. */
export const MOST_CACHED = 4 * 1024 * 1024;

interface CachedChunk {
  readonly outcomes: Map<number, CalledOutcome>;
  /** Characters of JSON. */
  size: number;
}

/** Outcomes that the ledger has as this process gave them, so that its collector need not fetch them. */
export class OutcomeCache {
  /** Run → first row of a chunk; only runs collected here. */
  readonly #runs = new Map<string, Map<number, CachedChunk>>();
  #size = 0;

  /** Starts keeping outcomes of a run that this process collects. */
  begin(run: string): void {
    if (!this.#runs.has(run)) this.#runs.set(run, new Map());
  }

  /** @param isKept false when the ledger may hold another outcome @param size in characters of JSON */
  settled({ run, first, row, outcome, interim }: Settlement, isKept: boolean, size: number): void {
    const chunks = this.#runs.get(run);
    if (chunks === undefined || outcome === null || interim) return;
    if (!isKept) {
      chunks.get(first)?.outcomes.delete(row);
      return;
    }
    if (this.#size + size > MOST_CACHED) return;
    let chunk = chunks.get(first);
    if (chunk === undefined) {
      chunk = { outcomes: new Map(), size: 0 };
      chunks.set(first, chunk);
    }
    chunk.outcomes.set(row, outcome);
    chunk.size += size;
    this.#size += size;
  }

  /** Perhaps only some of its outcomes. */
  of({ run, first }: ChunkKey): ReadonlyMap<number, CalledOutcome> | undefined {
    return this.#runs.get(run)?.get(first)?.outcomes;
  }

  /** A ledger that forgot the run, or some outcomes, may get others in their place: then all are dropped. */
  async whileLooking(
    run: string,
    firsts: readonly number[],
    look: () => Promise<Progress>,
  ): Promise<Progress> {
    const before = firsts.map((first) => this.of({ run, first })?.size ?? 0);
    const progress = await look();
    const isLost = before.some((own, i) => own > (progress.counts[i] ?? 0));
    if ((isLost || !progress.opened) && this.#runs.has(run)) {
      this.end(run);
      this.begin(run);
    }
    return progress;
  }

  forget(run: string, firsts: readonly number[]): void {
    const chunks = this.#runs.get(run);
    for (const first of firsts) {
      this.#size -= chunks?.get(first)?.size ?? 0;
      chunks?.delete(first);
    }
  }

  end(run: string): void {
    this.forget(run, [...(this.#runs.get(run)?.keys() ?? [])]);
    this.#runs.delete(run);
  }
}
