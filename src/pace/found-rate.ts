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
 * have to be rare rather than cuts deep: with 7 % and ten seconds the rate is 98 % of the peak on average.
 */
const CUT = 0.07;
/** Shortest and longest way back to the peak: a service that counts over minutes shows only then what it takes. */
const SHORTEST_MS = 10_000;
const LONGEST_MS = 60_000;
/** Beyond the peak the rate has doubled after this fraction of the way back: 17 s after the cut, at the shortest. */
const DOUBLED = 0.7;
/** Refused again within this time, in milliseconds: the cut before was not deep enough. */
const SOON_MS = 5_000;
const DEEPER = 0.7;
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

/** What is known when the service refuses. */
export interface Refusal {
  /** Calls a minute at which it did; `null` when nothing held the calls back. */
  readonly rate: number | null;
  /** Whether the rate was cut before. */
  readonly again: boolean;
  /** Calls that were admitted since the pause before. */
  readonly admitted: number;
  /** Milliseconds since the pause before. */
  readonly elapsed: number;
  /** Milliseconds of the pause that begins. */
  readonly wait: number;
}

/**
 * The rate after a refusal. What was admitted says what the quota is: with a window of a minute that is used up after
 * five seconds, the calls of these five seconds are the calls of a minute. The pause is part of the time, but for what
 * rounding may have added to it.
 */
export function cut({ rate, again, admitted, elapsed, wait }: Refusal, now: number): FoundRate {
  const low = perMinute(admitted, elapsed + wait);
  const high = perMinute(admitted, elapsed + Math.max(0, wait - ROUNDING_MS));
  const wanted = rate === null ? low : rate * (again && elapsed < SOON_MS ? DEEPER : 1);
  return {
    peak: Math.max(1, Math.min(high, Math.max(low, wanted))),
    age: 0,
    span: Math.min(LONGEST_MS, Math.max(SHORTEST_MS, wait)),
    at: now,
    heldUntil: 0,
    first: rate === null ? { admitted, ms: elapsed + wait } : null,
  };
}

/** Another worker was refused in the same first wave, and tells what of its calls was admitted before. */
export function together(found: FoundRate, admitted: number): FoundRate {
  if (found.first === null || admitted === 0) return found;
  const first = { ...found.first, admitted: found.first.admitted + admitted };
  return { ...found, first, peak: Math.max(found.peak, perMinute(first.admitted, first.ms)) };
}

const perMinute = (calls: number, ms: number): number => (calls * MINUTE) / Math.max(1, ms);
