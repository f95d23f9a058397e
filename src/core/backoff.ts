/** Pauses before retries: each twice as long as the one before, up to a longest one. */

/** @param times number of earlier pauses */
export const doubledMs = (firstMs: number, times: number, longestMs: number): number =>
  Math.min(longestMs, firstMs * 2 ** times);

/**
 * Pause before the next attempt of a chunk: exponential with full jitter, so that rows that failed together
 * do not return together ("Exponential Backoff and Jitter", AWS Architecture Blog, 2015).
 * @param attempt attempts made so far, from 1
 * @param random a number in [0, 1)
 * @returns milliseconds, between 50 and 60,000
 */
export const backoffMs = (attempt: number, random: number): number =>
  Math.max(50, Math.round(random * doubledMs(1_000, attempt - 1, 60_000)));

/** Milliseconds before the next connection to a store: short, and jittered over the fleet. */
export const reconnectMs = (times: number): number => doubledMs(50, times, 2_000) * (0.5 + Math.random() / 2);
