import { fingerprintOf } from '../core/random.js';

/** Tokens of the shortest beginning that is cached, and of each further step. */
export const SHORTEST = 1024;
const STEP = 128;

/** About 50 bytes each; the longest unused is forgotten first. */
const MOST = 100_000;

/** The beginnings of earlier requests of a deployment. */
export class PromptCache {
  readonly #seen = new Set<number>();

  /** How many tokens at the beginning are those of an earlier request; remembers these too. */
  read(tokens: readonly number[]): number {
    let cached = 0;
    let so = 0;
    for (let end = SHORTEST; end <= tokens.length; end += STEP) {
      so = fingerprintOf(`${so} ${tokens.slice(end === SHORTEST ? 0 : end - STEP, end).join(' ')}`);
      if (this.#seen.delete(so)) cached = end;
      this.#seen.add(so);
    }
    for (const oldest of this.#seen) {
      if (this.#seen.size <= MOST) break;
      this.#seen.delete(oldest);
    }
    return cached;
  }
}
