import { fingerprintOf } from '../core/random.js';

/** Tokens of the shortest beginning that is cached. */
export const SHORTEST = 1024;
const STEP = 128;

/** About 50 bytes each; the longest unused is forgotten first. */
const MOST = 100_000;

/** The beginnings of earlier requests. */
export class PromptCache {
  readonly #seen = new Set<number>();

  /** How many tokens at the beginning an earlier request to the deployment had; remembers these too. */
  read(deployment: string, tokens: readonly number[]): number {
    let cached = 0;
    let beginning = fingerprintOf(deployment);
    for (let end = STEP; end <= tokens.length; end += STEP) {
      beginning = fingerprintOf(`${beginning} ${tokens.slice(end - STEP, end).join(' ')}`);
      if (end < SHORTEST) continue;
      if (this.#seen.delete(beginning)) cached = end;
      this.#seen.add(beginning);
    }
    for (const oldest of this.#seen) {
      if (this.#seen.size <= MOST) break;
      this.#seen.delete(oldest);
    }
    return cached;
  }
}
