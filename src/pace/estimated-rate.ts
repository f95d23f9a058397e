/**
 * What the service is estimated to take by its refusals: the growth of CUBIC (RFC 9438), in calls a minute instead of
 * a window of packets. After a refusal the rate falls a little below its peak, comes back to it fast at first and
 * then ever more slowly, stays there for a while, and rises faster and faster when nothing refuses.
 */
export interface EstimatedRate {
  /** Calls a minute of the whole fleet at which the service refused. */
  readonly peak: number;
  /** Milliseconds for which the rate has grown since. Time without calls that waited for it does not count. */
  readonly age: number;
  /** Milliseconds after which the rate is back at its peak. */
  readonly span: number;
  /** When the age was last brought up to date. */
  readonly at: number;
  /** No growth until then: the service had troubles of another kind (5xx, timeouts). */
  readonly heldUntil: number;
  /** What was seen at the first estimate; null after a further refusal. */
  readonly first: Seen | null;
}

/**
 * What a refusal takes away, as a fraction of the rate. Each refusal costs a pause of a second and more, so refusals
 * have to be rare, and a cut that is not deep enough costs another one. Of the values that were tried against the
 * quota of the emulator, these use most of it (test/pace/fleet.test.ts).
 */
const CUT = 0.07;
/** Shortest and longest way back to the peak: a service that counts over minutes shows only then what it takes. */
const SHORTEST_MS = 20_000;
const LONGEST_MS = 60_000;
/** The same after the first refusal, whose rate is a guess, and rather too low. */
const FIRST_SPAN_MS = 4_000;
/** Beyond the peak the rate has doubled after this time, in milliseconds: 26 s after the cut, at the shortest. */
const DOUBLED_MS = 6_000;
/** Refused before this part of the way back: the peak is not what the service takes, or the refusal has another cause. */
const EARLY = 0.5;
/** Refused again within this time, in milliseconds: the cut before was not deep enough. */
const SOON_MS = 2_500;
const DEEPER = 0.9;
/** A refusal comes of the calls of this time at least, in milliseconds. */
const RECENT_MS = 3_000;
/** Hints are mostly rounded up to whole seconds. */
const ROUNDING_MS = 1_000;
/** A rate of which less than this part was called, turned upside down, was not the one that was refused. */
const SLACK = 1.25;
/** Longest time between two calls that counts as growing, in milliseconds. */
const LONGEST_STEP_MS = 1_000;

/** Slowest rate that is ever estimated, in calls a minute. Below it the hints of the service hold the calls back anyway. */
const FLOOR = 6;
/** Calls that were admitted, or milliseconds, that say how much the service takes. Fewer say nothing. */
const ENOUGH = { calls: 5, ms: 10_000 };
/** A rate that nobody has used for this long is forgotten, in milliseconds: the quotas of the service are of a minute. */
const FORGOTTEN_MS = 60_000;

const MINUTE = 60_000;

/** Calls that the service admitted within a time. */
interface Seen {
  readonly admitted: number;
  /** Milliseconds. */
  readonly ms: number;
}

/** Whether a rate may be taken from what was seen. A stray refusal is none. */
export function tellsEnough({ admitted, ms }: Seen): boolean {
  return admitted >= ENOUGH.calls || (admitted >= 1 && ms >= ENOUGH.ms);
}

/** @param since when it was last used, or could be used again after a pause */
export const isForgotten = (since: number, now: number): boolean => now - since > FORGOTTEN_MS;

/** Calls a minute at present. */
export function rateOf({ peak, age, span }: EstimatedRate): number {
  const x = age / span;
  return x < 1 ? peak * (1 - CUT * (1 - x) ** 3) : peak * (1 + ((age - span) / DOUBLED_MS) ** 3);
}

/**
 * @param using whether calls waited for their permit: a rate that holds nobody back shows nothing by not being refused
 */
export function grown(estimate: EstimatedRate, using: boolean, now: number): EstimatedRate {
  const step = Math.min(now - Math.max(estimate.at, estimate.heldUntil), LONGEST_STEP_MS);
  return { ...estimate, at: now, age: estimate.age + (using && step > 0 ? step : 0) };
}

/**
 * The first estimate, when nothing but the pauses held the calls back before. What was admitted says what the
 * quota is: with a window of a minute that is used up after five seconds, the calls of these five seconds are those of a
 * minute. It is what refusals alone let through as well, so a run is hardly slower for it.
 * @param seen calls that were admitted, and the milliseconds in which they were, the pause of `wait` that begins included
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
 * The rate after a further refusal. It came at the rate of the last seconds, or, where the service asks for a long
 * pause, of a time of which the pause is a part, but for what rounding may have added to it. Refused again soon, the
 * cut before was not deep enough. A rate far above what was called says nothing of the quota.
 * @param estimate what was known before, or a configured rate
 * @param seen calls admitted since the last cut, and the milliseconds in which they were, the pause included
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

/** A rate that holds without having been estimated: as if it were back at its peak for long. */
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

/** Whether the rate is still on its way back to a peak at which the service has taken more. */
export const isEarly = ({ age, span }: EstimatedRate): boolean => age < span * EARLY;

/** The rate goes back to a peak from which it was cut without reason. */
export const restored = (peak: number, now: number): EstimatedRate => backTo(peak, 0, now);

/** The mean rate between two ages, by Simpson's rule, which is exact for a cubic and close where two meet. */
function meanOf(estimate: EstimatedRate, from: number, to: number): number {
  const at = (age: number): number => rateOf({ ...estimate, age });
  return (at(from) + 4 * at((from + to) / 2) + at(to)) / 6;
}

const seenRate = ({ admitted, ms }: Seen): number => (admitted * MINUTE) / Math.max(1, ms);

/** Another worker tells how many of its calls were admitted at the first estimate, or that one of them was not. */
export function together(estimate: EstimatedRate, admitted: number): EstimatedRate {
  if (estimate.first === null || admitted === 0) return estimate;
  const first = { ...estimate.first, admitted: estimate.first.admitted + admitted };
  return { ...estimate, first, peak: Math.max(FLOOR, seenRate(first)) };
}
