/** How many rows were done at a moment of a monotonic clock, in milliseconds. */
interface Sample {
  readonly at: number;
  readonly done: number;
}

/** Recent samples, oldest first; what the rate is measured over. */
export type RateWindow = readonly Sample[];

/** Short enough to follow a change of quota, long enough to bridge the gaps between chunks: 30 s. */
const WINDOW_MS = 30_000;

/** Samples that are closer together than such a part of the window replace each other, so that it holds no more. */
const MOST_SAMPLES = 60;

/**
 * The window with one more sample in it, without those that have become too old.
 * @param lengthMs what the rate is measured over. @default 30 s
 */
export function sampled(window: RateWindow, sample: Sample, lengthMs = WINDOW_MS): RateWindow {
  const last = window.at(-1);
  const beforeLast = window.at(-2);
  const replaces = last && beforeLast && last.at - beforeLast.at < lengthMs / MOST_SAMPLES;
  const samples = [...(replaces ? window.slice(0, -1) : window), sample];
  // The newest of the too old ones stays: the window must reach back over its whole length.
  const tooOld = samples.findLastIndex(({ at }) => at <= sample.at - lengthMs);
  return samples.slice(Math.max(0, tooOld));
}

/** Rows per second over the window; `null` while there is nothing to measure. */
export function rateOf(window: RateWindow): number | null {
  const first = window.at(0);
  const last = window.at(-1);
  if (!first || !last || last.at <= first.at) return null;
  // A store that comes back empty (fault 35) takes known outcomes away: that is no negative speed.
  return Math.max(0, ((last.done - first.done) / (last.at - first.at)) * 1000);
}

/** Rows a second between each two samples, oldest first. */
export function ratesOf(window: RateWindow): number[] {
  return window.slice(1).flatMap((sample, i) => rateOf(window.slice(i, i + 1).concat(sample)) ?? []);
}
