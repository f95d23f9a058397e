import { doubledMs } from '../backoff.js';

/** Longest time a single hint is obeyed, in milliseconds: one hour. Then one call asks again. */
const LONGEST_MS = 3_600_000;
/** Shortest pause, in milliseconds, also where the service says that it may be called at once. */
const SHORTEST_MS = 1_000;
/** Refusals in a row, with no call admitted between them, after which a run stops instead of waiting on (fault 18). */
const MOST_IN_A_ROW = 30;

/** What to do after a 429: wait until a time, or give the run up for now. */
export type QuotaVerdict = { readonly kind: 'wait'; readonly ms: number } | { readonly kind: 'give-up' };

/**
 * Remembers refusals for lack of quota in one process. However many calls in flight see the same refusal,
 * it is one episode: the pause only ever grows by a later hint.
 */
export class QuotaWait {
  #until = 0;
  #episodes = 0;

  /** Milliseconds that remain of the current pause; 0 when calls may be made. */
  remaining(now: number): number {
    return Math.max(0, this.#until - now);
  }

  /**
   * A call was refused.
   * @param hint milliseconds the service asked to wait; null when it gave no hint: 1 s, doubling to 60 s
   * @param startedAt when the call was made: one made before the pause began is no new refusal
   */
  refused(hint: number | null, startedAt: number, now: number): QuotaVerdict {
    if (startedAt >= this.#until) this.#episodes++;
    if (this.#episodes > MOST_IN_A_ROW) return { kind: 'give-up' };
    const guess = doubledMs(1_000, this.#episodes - 1, 60_000);
    const ms = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, hint ?? guess));
    this.#until = Math.max(this.#until, now + ms);
    return { kind: 'wait', ms: this.#until - now };
  }

  /** Another process was told to wait, and its pause goes on. */
  joined(ms: number, now: number): void {
    this.#until = Math.max(this.#until, now + Math.min(LONGEST_MS, ms));
  }

  /** A call was admitted. */
  admitted(): void {
    this.#episodes = 0;
  }
}
