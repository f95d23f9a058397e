/** `at`: milliseconds of a monotonic clock. `done`: rows so far. */
interface Sample {
  readonly at: number;
  readonly done: number;
}

/** Oldest first. */
export type RateWindow = readonly Sample[];

/** Short enough to follow a change of quota, long enough to bridge the gaps between chunks. */
const WINDOW_MS = 30_000;

/** Samples closer together than this fraction of the window replace each other, which bounds their number. */
const MOST_SAMPLES = 60;

/** Adds a sample and drops those that are too old. @param lengthMs of the window. @default 30 s */
export function sampled(window: RateWindow, sample: Sample, lengthMs = WINDOW_MS): RateWindow {
  const last = window.at(-1);
  const beforeLast = window.at(-2);
  const replaces = last && beforeLast && last.at - beforeLast.at < lengthMs / MOST_SAMPLES;
  const samples = [...(replaces ? window.slice(0, -1) : window), sample];
  // The newest of those that are too old stays: the window must span its whole length.
  const tooOld = samples.findLastIndex(({ at }) => at <= sample.at - lengthMs);
  return samples.slice(Math.max(0, tooOld));
}

/** Rows per second; `null` with fewer than two moments. */
export function rateOf(window: RateWindow): number | null {
  const first = window.at(0);
  const last = window.at(-1);
  if (!first || !last || last.at <= first.at) return null;
  // A store that comes back empty (fault 35) loses known outcomes: that is no negative speed.
  return Math.max(0, ((last.done - first.done) / (last.at - first.at)) * 1000);
}

/** Rows per second between neighbouring samples, oldest first. */
export function ratesOf(window: RateWindow): number[] {
  return window.slice(1).flatMap((sample, i) => rateOf(window.slice(i, i + 1).concat(sample)) ?? []);
}
