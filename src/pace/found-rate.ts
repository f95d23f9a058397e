/**
 * What the service was found to take when it refused: the growth of CUBIC (RFC 9438), in calls a minute instead of
 * a window of packets. After a refusal the rate falls a little below its peak, comes back to it fast at first and
 * then ever more slowly, stays there for a while, and rises faster and faster when nothing refuses.
 */
export interface FoundRate {
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
  /** Refused before any rate was known: what was admitted until then, and in how many milliseconds. */
  readonly first: { readonly admitted: number; readonly ms: number } | null;
}

/**
 * What a refusal takes away, as a fraction of the rate. Each refusal costs a pause of a second and more, so refusals
 * have to be rare, and a cut that is not deep enough costs another one. Of the values that were tried against the
 * quota of the emulator, these use most of it (test/pace/fleet.test.ts).
 */
const CUT = 0.1;
/** Shortest and longest way back to the peak: a service that counts over minutes shows only then what it takes. */
const SHORTEST_MS = 12_000;
const LONGEST_MS = 60_000;
/** The same after the first refusal, whose rate is a guess, and rather too low. */
const FIRST_SPAN_MS = 4_000;
/** Beyond the peak the rate has doubled after this fraction of the way back: 18 s after the cut, at the shortest. */
const DOUBLED = 0.5;
/** Refused again within this time, in milliseconds: the cut before was not deep enough. */
const SOON_MS = 5_000;
const DEEPER = 0.9;
/** A refusal comes of the calls of this time at least, in milliseconds. */
const RECENT_MS = 3_000;
/** Hints are mostly rounded up to whole seconds. */
const ROUNDING_MS = 1_000;
/** Longest time between two calls that counts as growing, in milliseconds. */
const LONGEST_STEP_MS = 1_000;

const MINUTE = 60_000;

/** Calls a minute at present. */
export function rateOf({ peak, age, span }: FoundRate): number {
  const x = age / span;
  return x < 1 ? peak * (1 - CUT * (1 - x) ** 3) : peak * (1 + ((x - 1) / DOUBLED) ** 3);
}

/**
 * @param using whether calls waited for their turn: a rate that holds nobody back shows nothing by not being refused
 */
export function grown(found: FoundRate, using: boolean, now: number): FoundRate {
  const step = Math.min(now - Math.max(found.at, found.heldUntil), LONGEST_STEP_MS);
  return { ...found, at: now, age: found.age + (using && step > 0 ? step : 0) };
}

/**
 * The rate after the first refusal, when nothing held the calls back before. What was admitted says what the quota is:
 * with a window of a minute that is used up after five seconds, the calls of these five seconds are those of a minute.
 * @param admitted calls until now
 * @param elapsed milliseconds in which they were made
 * @param wait milliseconds of the pause that begins
 */
export function firstCut(admitted: number, elapsed: number, wait: number, now: number): FoundRate {
  const ms = Math.max(1, elapsed + wait);
  const span = Math.min(LONGEST_MS, Math.max(FIRST_SPAN_MS, wait));
  return { ...backTo((admitted * MINUTE) / ms, wait, now), span, first: { admitted, ms } };
}

/**
 * The rate after a further refusal. It came at the rate of the last seconds, or, where the service asks for a long
 * pause, of a time of which the pause is a part, but for what rounding may have added to it. Refused again soon, the
 * cut before was not deep enough.
 * @param found what was known before, or a configured rate
 */
export function nextCut(found: FoundRate, wait: number, now: number): FoundRate {
  const ms = Math.max(1, Math.min(found.age, Math.max(RECENT_MS, 2 * wait)));
  const recent = meanOf(found, found.age - ms, found.age);
  const low = (recent * ms) / (ms + wait);
  const high = (recent * ms) / (ms + Math.max(0, wait - ROUNDING_MS));
  const wanted = rateOf(found) * (found.age < SOON_MS ? DEEPER : 1);
  return backTo(Math.min(high, Math.max(low, wanted)), wait, now);
}

/** A rate that holds without having been found: as if it were back at its peak for long. */
export function steady(rate: number, now: number): FoundRate {
  return { peak: rate, age: LONGEST_MS, span: LONGEST_MS, at: now, heldUntil: 0, first: null };
}

const backTo = (peak: number, wait: number, now: number): FoundRate => ({
  peak: Math.max(1, peak),
  age: 0,
  span: Math.min(LONGEST_MS, Math.max(SHORTEST_MS, wait)),
  at: now,
  heldUntil: 0,
  first: null,
});

/** The mean rate between two ages, by Simpson's rule, which is exact for a cubic and close where two meet. */
function meanOf(found: FoundRate, from: number, to: number): number {
  const at = (age: number): number => rateOf({ ...found, age });
  return (at(from) + 4 * at((from + to) / 2) + at(to)) / 6;
}

/**
 * More refusals of the first wave: another worker tells how many of its calls were admitted before, or a call that
 * counted as admitted was not.
 */
export function together(found: FoundRate, admitted: number): FoundRate {
  if (found.first === null || admitted === 0) return found;
  const first = { ...found.first, admitted: found.first.admitted + admitted };
  return { ...found, first, peak: Math.max(1, (first.admitted * MINUTE) / first.ms) };
}
