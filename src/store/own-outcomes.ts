import type { CalledOutcome } from '../model.js';
import type { ChunkKey, Progress, Settlement } from './ledger.js';

/** Characters of JSON that the outcomes have at most; as objects they take some five times as much. */
export const MOST_OWN = 4 * 1024 * 1024;

interface OwnChunk {
  readonly outcomes: Map<number, CalledOutcome>;
  /** Characters of JSON. */
  size: number;
}

/**
 * Outcomes that this process has written to the ledger and that are there as they were given, so that the collector of the
 * same process need not fetch them back. Whatever is missing here is fetched.
 */
export class OwnOutcomes {
  /** Run → first row of a chunk; only of runs that are collected here. */
  readonly #runs = new Map<string, Map<number, OwnChunk>>();
  #size = 0;

  /** The run is collected by this process. */
  begin(run: string): void {
    if (!this.#runs.has(run)) this.#runs.set(run, new Map());
  }

  /**
   * A row was settled in the ledger.
   * @param isKept whether its outcome is there as it was given; another may be, when it is not
   * @param size of the outcome, in characters of JSON
   */
  settled({ run, first, row, outcome, interim }: Settlement, isKept: boolean, size: number): void {
    const chunks = this.#runs.get(run);
    if (chunks === undefined || outcome === null || interim) return;
    if (!isKept) {
      chunks.get(first)?.outcomes.delete(row);
      return;
    }
    if (this.#size + size > MOST_OWN) return;
    let chunk = chunks.get(first);
    if (chunk === undefined) {
      chunk = { outcomes: new Map(), size: 0 };
      chunks.set(first, chunk);
    }
    chunk.outcomes.set(row, outcome);
    chunk.size += size;
    this.#size += size;
  }

  /** Those of a chunk, which may be a part of it. */
  of({ run, first }: ChunkKey): ReadonlyMap<number, CalledOutcome> | undefined {
    return this.#runs.get(run)?.get(first)?.outcomes;
  }

  /**
   * Looks at chunks in the ledger. One that does not know the run, or has fewer outcomes of a chunk than were here before, has
   * lost some, and others may take their place: then none stays here.
   */
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
