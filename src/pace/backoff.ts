/** Longest pause between two attempts of a chunk, in milliseconds. */
const CEILING_MS = 60_000;
const FIRST_MS = 1_000;

/**
 * Pause before the next attempt: exponential with full jitter, so that rows that failed together do not come
 * back together ("Exponential Backoff and Jitter", AWS Architecture Blog, 2015).
 *
 * @param attempt attempts made so far, from 1
 * @param random a number in [0, 1)
 * @returns milliseconds, between 50 and 60,000
 */
export function backoffMs(attempt: number, random: number): number {
  const ceiling = Math.min(CEILING_MS, FIRST_MS * 2 ** (attempt - 1));
  return Math.max(50, Math.round(random * ceiling));
}
