/**
 * The rate the service seems to take, judging by its refusals: CUBIC's growth (RFC 9438), in calls per
 * minute. A refusal cuts the rate a little below its peak. It returns fast at first, then slower, stays near
 * the peak, and rises ever faster while nothing is refused.
 */
export interface EstimatedRate {
  /** Calls per minute of the whole fleet when the service refused. */
  readonly peak: number;
  /** Milliseconds of growth since; only time in which calls waited for permits counts. */
  readonly age: number;
  /** Milliseconds until the rate is back at its peak. */
  readonly span: number;
  /** When `age` was last updated. */
  readonly at: number;
  /** No growth until then, because of failures of another kind (5xx, timeouts). */
  readonly heldUntil: number;
  /** What the first estimate is based on; null after a further refusal. */
  readonly first: Seen | null;
}

/**
 * Share of the rate that a refusal cuts. Each refusal costs a pause of a second or more, so it must be rare,
 * and too small a cut costs another. Of the values tried, these use most of the quota
 * (test/pace/fleet.test.ts).
 */
const CUT = 0.07;
/** Bounds of the way back to the peak: a service that counts over minutes refuses only then. */
const SHORTEST_MS = 20_000;
const LONGEST_MS = 60_000;
/** The same after the first refusal, whose rate is a guess, and usually too low. */
const FIRST_SPAN_MS = 4_000;
/** Time beyond the peak until the rate has doubled, in ms: at the earliest 26 s after the cut. */
const DOUBLED_MS = 6_000;
/** A refusal before this part of the way back means that the peak is wrong, or that it has another cause. */
const EARLY = 0.5;
/** A refusal within this time, in ms, means that the last cut was too small. */
const SOON_MS = 2_500;
const DEEPER = 0.9;
/** A refusal is caused by the calls of at least this time, in ms. */
const RECENT_MS = 3_000;
/** Hints are mostly rounded up to whole seconds. */
const ROUNDING_MS = 1_000;
/** When less than 1/SLACK of the rate was called, that rate is not what was refused. */
const SLACK = 1.25;
/** Most growth between two calls, in ms. */
const LONGEST_STEP_MS = 1_000;

/** Lowest estimate, in calls per minute. Below it the service's hints hold calls back anyway. */
const FLOOR = 6;
/** Admitted calls, or milliseconds with at least one, that tell what the service takes. */
const ENOUGH = { calls: 5, ms: 10_000 };
/** An estimate unused for this long is dropped, in ms: the service's quotas are per minute. */
const FORGOTTEN_MS = 60_000;

const MINUTE = 60_000;

interface Seen {
  readonly admitted: number;
  readonly ms: number;
}

export function tellsEnough({ admitted, ms }: Seen): boolean {
  return admitted >= ENOUGH.calls || (admitted >= 1 && ms >= ENOUGH.ms);
}

/** @param since when it was last used, or could be used again after a pause */
export const isForgotten = (since: number, now: number): boolean => now - since > FORGOTTEN_MS;

export function rateOf({ peak, age, span }: EstimatedRate): number {
  const x = age / span;
  return x < 1 ? peak * (1 - CUT * (1 - x) ** 3) : peak * (1 + ((age - span) / DOUBLED_MS) ** 3);
}

/** @param using whether calls waited for permits: a rate that limits nobody proves nothing */
export function grown(estimate: EstimatedRate, using: boolean, now: number): EstimatedRate {
  const step = Math.min(now - Math.max(estimate.at, estimate.heldUntil), LONGEST_STEP_MS);
  return { ...estimate, at: now, age: estimate.age + (using && step > 0 ? step : 0) };
}

/**
 * The first estimate. The admitted calls tell the quota: when a window of a minute is used up after five
 * seconds, the calls of these five are a minute's quota. Refusals alone let no more through, so a run is
 * hardly slower.
 * @param seen admitted calls and their time in ms, including the pause of `wait` that begins
 */
export function firstEstimate(
  { admitted, ms, wait }: Seen & { readonly wait: number },
  now: number,
): EstimatedRate {
  const seen = { admitted, ms };
  const span = Math.min(LONGEST_MS, Math.max(FIRST_SPAN_MS, wait));
  return { ...backTo(seenRate(seen), wait, now), span, first: seen };
}

/**
 * The rate after a further refusal. The refusal came at the rate of the last seconds or, with a long pause,
 * of a period that includes the pause, except for what rounding added. Soon after a cut, that cut was too
 * small. A rate far above the calls made says nothing about the quota.
 * @param estimate the last estimate, or a configured rate
 * @param seen calls admitted since the last cut and their time in ms, including the pause
 */
export function nextCut(estimate: EstimatedRate, seen: Seen, wait: number, now: number): EstimatedRate {
  const ms = Math.max(1, Math.min(estimate.age, Math.max(RECENT_MS, 2 * wait)));
  const recent = meanOf(estimate, estimate.age - ms, estimate.age);
  const rounding = Math.min(wait, ROUNDING_MS);
  const low = (recent * ms) / (ms + wait);
  const high = (recent * ms) / (ms + wait - rounding);
  const rate = rateOf(estimate);
  const wanted = rate * (estimate.age < SOON_MS ? DEEPER : 1);
  const used = seenRate({ ...seen, ms: seen.ms - wait }) / meanOf(estimate, 0, estimate.age);
  const peak = Math.min(high, Math.max(low, wanted));
  return backTo(peak * Math.min(1, Math.max(0.5, SLACK * used)), wait, now);
}

/** A rate that was not estimated: as if long back at its peak. */
export function steady(rate: number, now: number): EstimatedRate {
  return { peak: rate, age: LONGEST_MS, span: LONGEST_MS, at: now, heldUntil: 0, first: null };
}

const backTo = (peak: number, wait: number, now: number): EstimatedRate => ({
  peak: Math.max(FLOOR, peak),
  age: 0,
  span: Math.min(LONGEST_MS, Math.max(SHORTEST_MS, wait)),
  at: now,
  heldUntil: 0,
  first: null,
});

/** Whether the rate is still below a peak that the service has taken before. */
export const isEarly = ({ age, span }: EstimatedRate): boolean => age < span * EARLY;

export const restored = (peak: number, now: number): EstimatedRate => backTo(peak, 0, now);

/** Mean rate between two ages, by Simpson's rule: exact for a cubic, and close where two meet. */
function meanOf(estimate: EstimatedRate, from: number, to: number): number {
  const at = (age: number): number => rateOf({ ...estimate, age });
  return (at(from) + 4 * at((from + to) / 2) + at(to)) / 6;
}

const seenRate = ({ admitted, ms }: Seen): number => (admitted * MINUTE) / Math.max(1, ms);

/** Adds another worker's calls before the first estimate; negative when some were refused. */
export function together(estimate: EstimatedRate, admitted: number): EstimatedRate {
  if (estimate.first === null || admitted === 0) return estimate;
  const first = { ...estimate.first, admitted: estimate.first.admitted + admitted };
  return { ...estimate, first, peak: Math.max(FLOOR, seenRate(first)) };
}
