/** Up to so many starved calls, or this share of the answers, are stray losses. */
const ODD = { calls: 2, part: 1 / 50 };
/** Answers within this part of the timeout are fast. */
const FAST = 1 / 4;

/** Counting restarts after this time, in ms: hours of answers say nothing about now. */
const PERIOD_MS = 600_000;

/**
 * Detects a server that lets some connections time out while it answers others fast. A starved call was sent
 * on a connection without any earlier response, while a later call was answered fast. A slow row looks like
 * one only where connections are not kept; a small share counts as stray losses.
 */
export class StarvedCalls {
  #answered = 0;
  #starved = 0;
  #countedFrom = Number.NEGATIVE_INFINITY;
  /** Earlier calls are already taken into account. */
  #since = Number.NEGATIVE_INFINITY;
  #fast = { startedAt: Number.NEGATIVE_INFINITY, ms: 0 };

  answered(startedAt: number, ms: number, timeoutMs: number): void {
    this.#count(startedAt + ms);
    this.#answered++;
    if (ms <= timeoutMs * FAST && startedAt > this.#fast.startedAt) this.#fast = { startedAt, ms };
  }

  /** For a call that timed out on a connection without any response. */
  isStarved(startedAt: number): boolean {
    return startedAt < this.#fast.startedAt;
  }

  /** @returns how fast others are answered, in ms, when there are too many calls at once; else null */
  starved(startedAt: number, now: number): number | null {
    if (startedAt < this.#since) return null;
    this.#count(now);
    this.#starved++;
    if (this.#starved <= ODD.calls || this.#starved <= this.#answered * ODD.part) return null;
    this.#countedFrom = Number.NEGATIVE_INFINITY;
    this.#since = now;
    return this.#fast.ms;
  }

  #count(now: number): void {
    if (now - this.#countedFrom < PERIOD_MS) return;
    this.#countedFrom = now;
    this.#answered = 0;
    this.#starved = 0;
  }
}
