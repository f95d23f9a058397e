import { hash } from 'node:crypto';

/** Distinct requests that are remembered: with them the index takes 48 MB, and no more however long the input is. */
const MOST_DISTINCT = 3_000_000;

const FIRST_CAPACITY = 2 ** 14;

/**
 * Finds requests that were seen before. It remembers 64 bits of a hash of each distinct one, and the line on which it
 * was first seen: among 3,000,000 the chance that two different ones are taken for the same is one in four million.
 */
export class RepeatIndex {
  readonly #most: number;
  #high = new Uint32Array(FIRST_CAPACITY);
  #low = new Uint32Array(FIRST_CAPACITY);
  /** 0 marks a free slot; lines count from 1. */
  #lines = new Uint32Array(FIRST_CAPACITY);
  #distinct = 0;
  #full = false;

  /** @param most distinct requests to remember. @default 3,000,000 */
  constructor(most: number = MOST_DISTINCT) {
    this.#most = most;
  }

  /** True when a request could not be remembered: from then on some repeats are not found. */
  get isFull(): boolean {
    return this.#full;
  }

  /**
   * The line on which the same request was first seen; `null` for one that is new, which is remembered.
   * @param line from 1
   */
  firstLine(request: string, line: number): number | null {
    const digest = hash('sha1', request, 'buffer');
    const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
    const slot = this.#slotOf(high, low);
    const first = this.#lines[slot] ?? 0;
    if (first !== 0) return first;
    if (this.#distinct >= this.#most) this.#full = true;
    else this.#remember(slot, high, low, line);
    return null;
  }

  #remember(slot: number, high: number, low: number, line: number): void {
    [this.#high[slot], this.#low[slot], this.#lines[slot]] = [high, low, line];
    this.#distinct++;
    if (this.#distinct > this.#lines.length * 0.75) this.#grow();
  }

  /** Where the hash is, or the free slot where it belongs: linear probing. */
  #slotOf(high: number, low: number): number {
    const mask = this.#lines.length - 1;
    let slot = low & mask;
    while (this.#lines[slot] !== 0 && (this.#low[slot] !== low || this.#high[slot] !== high)) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #grow(): void {
    const [highs, lows, lines] = [this.#high, this.#low, this.#lines];
    const capacity = lines.length * 2;
    this.#high = new Uint32Array(capacity);
    this.#low = new Uint32Array(capacity);
    this.#lines = new Uint32Array(capacity);
    for (const [i, line] of lines.entries()) {
      if (line === 0) continue;
      const [high, low] = [highs[i] ?? 0, lows[i] ?? 0];
      const slot = this.#slotOf(high, low);
      [this.#high[slot], this.#low[slot], this.#lines[slot]] = [high, low, line];
    }
  }
}
