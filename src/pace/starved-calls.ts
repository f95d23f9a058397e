/** Fewer starved calls than this, or a smaller part of those that were answered, are odd losses. */
const ODD = { calls: 2, part: 1 / 50 };
/** An answer that takes at most this part of the time that a call has came fast. */
const FAST = 1 / 4;

/** Calls are counted for this time, in milliseconds, and then anew: what was answered for hours says nothing of now. */
const PERIOD_MS = 600_000;

/**
 * Tells whether a server starves calls: it leaves connections alone until their calls time out, while it answers others fast.
 * A call counts when it was sent over a connection on which nothing was ever heard, and one that began later was answered
 * fast. A row whose answer takes too long is none where connections are kept: it goes over one on which others were answered. Where
 * they are not, it looks like one, and what is few among the answers counts as an odd loss.
 */
export class StarvedCalls {
  #answered = 0;
  #starved = 0;
  #countedFrom = Number.NEGATIVE_INFINITY;
  /** Calls that began before have taught what they can teach. */
  #since = Number.NEGATIVE_INFINITY;
  #fast = { startedAt: Number.NEGATIVE_INFINITY, ms: 0 };

  /**
   * A call was answered after so many milliseconds.
   * @param timeoutMs the time that it had
   */
  answered(startedAt: number, ms: number, timeoutMs: number): void {
    this.#count(startedAt + ms);
    this.#answered++;
    if (ms <= timeoutMs * FAST && startedAt > this.#fast.startedAt) this.#fast = { startedAt, ms };
  }

  /** Whether a call that timed out, over a connection on which nothing was ever heard, was starved. */
  isStarved(startedAt: number): boolean {
    return startedAt < this.#fast.startedAt;
  }

  /**
   * A call was starved.
   * @returns in how many milliseconds others are answered, where these are too many calls at once; else null
   */
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
