/**
 * The rate that refusals told, in calls per minute. It begins with what the service admitted before it refused, and
 * stays for a while: a rate that was measured is nearly right, and each attempt at more costs a pause. After that it
 * rises ever faster until it is refused again, because others may have left the deployment.
 */
export interface FoundRate {
  /** Calls per minute of the whole fleet, before it rises. */
  readonly peak: number;
  /** Milliseconds since; only time in which calls waited for permits counts. */
  readonly age: number;
  /** Milliseconds until it rises. */
  readonly still: number;
  /** When `age` was last updated. */
  readonly at: number;
  /** No rise until then, because of failures of another kind (5xx, timeouts). */
  readonly heldUntil: number;
  /** Waves that were alike told it: likely, but not sure. */
  readonly isGuess: boolean;
  /** Last peak that was refused only after it rose; null when there was none. */
  readonly proven: number | null;
  /** The calls and milliseconds that `peak` was measured by; null when it was not measured. */
  readonly seen: Seen | null;
}

/** Calls that were refused together, in the pause that began with the first of them. */
export interface Wave {
  readonly refused: number;
  /** What was admitted before it, and before up to two waves of the minute before; newest first. */
  readonly seen: readonly Seen[];
  /** End of its pause. */
  readonly until: number;
  /** Milliseconds that its first refusal asked for. */
  readonly wait: number;
  /** Consecutive waves, this one included, that began soon after the pause before. */
  readonly soon: number;
}

/** Calls admitted since a pause, and the milliseconds in which the service admits so many. */
interface Seen {
  readonly admitted: number;
  readonly ms: number;
}

/**
 * Used share of a known quota of requests. They are counted over windows of a second: with 1.5 % less, calls may
 * arrive 15 ms early or late without one too many.
 */
export const USED = 0.985;
/** Time until a rate rises, in ms: one that is not sure yet, and one that was refused soon after it rose. */
export const STILL_MS = { unsure: 8_000, proven: 29_000 };
/** Time until the risen rate is twice the peak, in ms. */
const DOUBLED_MS = 6_000;
/** A peak is right when the rate that was refused had risen by no more than this factor. */
const PROVEN = 1.17;
/** A guess that has risen by more than this factor had nothing to do with the quota. */
const WRONG = 1.5;
/** A refusal comes so much, in ms, and so many calls after the rate that it belongs to: calls are counted over a second. */
const BEHIND = { ms: 1_000, calls: 1 };
/** Share of the rate that a refusal cuts which comes soon after the pause before. */
const CUT = 0.05;
/**
 * Soon, in ms. A rate that was taken for longer is not too high for a quota of calls a second, so a later refusal is
 * chance, or somebody else's call.
 */
export const SOON_MS = 2_500;
/** So many soon ones have nothing to do with the rate: by then a quota reduced to a tenth is found. */
const MOST_SOON = 5;
/** A wave of at least so many, and of this share of the calls, hit everybody: chance does not. */
const EVERYBODY = { calls: 3, share: 1 / 4 };
/** Waves after as many calls, within this factor, come from a quota; two may be so by chance, three hardly. */
const ALIKE = { 2: 1.1, 3: 1.4 };
/** The windows over which services count, in ms. */
const WINDOWS_MS = [1_000, 10_000, 60_000] as const;
/** Hints are mostly rounded up to whole seconds: a longer one tells the end of its window well. */
export const LONG_MS = 2_000;
/** Mean of what rounding adds, in ms. */
const ROUNDING_MS = 500;

/**
 * Lowest rate, in calls per minute. Below it the service's hints hold calls back anyway, and calls would be so far apart
 * that a refusal does not tell which of the rising rates it belongs to.
 */
const FLOOR = 30;
/** A rate unused for this long is dropped, in ms. */
const FORGOTTEN_MS = 60_000;
/** Most growth between two calls, in ms. */
const LONGEST_STEP_MS = 1_000;
const MINUTE = 60_000;
export const NONE: Seen = { admitted: 0, ms: 1 };

/** @param since when it was last used, or could be used again after a pause */
export const isForgotten = (since: number, now: number): boolean => now - since > FORGOTTEN_MS;

export const rateOf = ({ peak, age, still }: FoundRate): number =>
  peak * (1 + (Math.max(0, age - still) / DOUBLED_MS) ** 3);

/** @param using whether calls waited for permits: a rate that limits nobody proves nothing */
export function grown(found: FoundRate, using: boolean, now: number): FoundRate {
  const step = Math.min(now - Math.max(found.at, found.heldUntil), LONGEST_STEP_MS);
  return { ...found, at: now, age: found.age + (using && step > 0 ? step : 0) };
}

/** Adds the calls of another worker to those before the last wave; negative when some were refused. */
export function withCallsBefore<P extends { readonly wave: Wave | null; readonly found: FoundRate | null }>(
  pace: P,
  admitted: number,
): P {
  const { wave, found } = pace;
  const [last, ...earlier] = wave?.seen ?? [];
  if (wave === null || last === undefined) return pace;
  const more = (seen: Seen): Seen => ({ ...seen, admitted: Math.max(0, seen.admitted + admitted) });
  const seen = found?.seen && more(found.seen);
  return {
    ...pace,
    wave: { ...wave, seen: [more(last), ...earlier] },
    found: found && seen ? { ...found, seen, peak: peakOf(seen) } : found,
  };
}

/** A quota refuses everybody until its window ends; chance refusals hit single calls (fault 79). */
export const hitEverybody = ({ refused, seen: [last] }: Wave): boolean =>
  refused >= EVERYBODY.calls && refused >= ((last?.admitted ?? 0) + refused) * EVERYBODY.share;

export function areAlike(seen: readonly Seen[], waves: keyof typeof ALIKE): boolean {
  const admitted = seen.slice(0, waves).map((each) => each.admitted);
  return admitted.length === waves && Math.max(...admitted) <= ALIKE[waves] * Math.min(...admitted);
}

/** The shortest window that a hint fits in. */
export const windowOf = (wait: number): number => WINDOWS_MS.find((ms) => wait <= ms) ?? MINUTE;

/** What was admitted is the quota of its window. Of two waves the lower rate: the other may have spanned two windows. */
export function first(
  { seen: [last = NONE, before = last], wait }: Wave,
  isGuess: boolean,
  now: number,
): FoundRate {
  const [rate, earlier] = [peakOf(last), peakOf(before)];
  const lower = earlier < rate && earlier * ALIKE[3] >= rate ? earlier : rate;
  return begun(lower, Math.max(STILL_MS.unsure, stillIn(wait)), now, { isGuess });
}

/**
 * A rate refused after it rose was right, or else that of a moment ago. One refused soon after a pause is a little too
 * high; if that goes on, the calls since the pause tell. Null when the refusals have nothing to do with the rate.
 * @param call `ms` since the last pause; `lag`: how long the refused call took, in ms
 */
export function nextCut(
  found: FoundRate,
  wave: Wave,
  { ms, lag, isQuota }: { readonly ms: number; readonly lag: number; readonly isQuota: boolean },
  now: number,
): FoundRate | null {
  const { peak, age, still, proven, isGuess } = found;
  const {
    wait,
    soon,
    seen: [{ admitted } = NONE],
  } = wave;
  const isLong = wait > LONG_MS;
  const seen = { admitted, ms: ms + wait - (isLong ? ROUNDING_MS : 0) };
  if (age >= still) {
    const behind = BEHIND.ms + lag + (BEHIND.calls * MINUTE) / peak;
    const told = isLong ? peakOf(seen) : rateOf({ ...found, age: age - behind });
    if (told <= peak * PROVEN) {
      // One that was cut meanwhile goes back to what was proven.
      const back = Math.max(peak, Math.min(told, proven ?? 0));
      return begun(back, Math.max(STILL_MS.proven, stillIn(wait)), now, { proven: peak });
    }
    if (isGuess && told > peak * WRONG) return null;
    return begun(told, Math.max(STILL_MS.unsure, stillIn(wait)), now, { proven: peak });
  }
  if (isLong) return begun(peakOf(seen), stillIn(wait), now, { seen, proven });
  if (soon === 0) return found;
  if (soon > (isGuess ? 1 : MOST_SOON) && !isQuota) return null;
  const less = peak * (1 - CUT);
  const high = peakOf({ admitted, ms: Math.max(ms, 1_000) });
  const lower = soon <= 2 ? less : Math.min(less, Math.sqrt(peakOf(seen) * high));
  return begun(lower, STILL_MS.unsure, now, { proven });
}

/** Not before a window of that length has passed. */
const stillIn = (wait: number): number => (wait > LONG_MS ? windowOf(wait) : 0);

export const peakOf = ({ admitted, ms }: Seen): number =>
  Math.max(FLOOR, (admitted * MINUTE * USED) / Math.max(1, ms));

export function begun(peak: number, still: number, now: number, more: Partial<FoundRate> = {}): FoundRate {
  return {
    peak: Math.max(FLOOR, peak),
    age: 0,
    still,
    at: now,
    heldUntil: 0,
    isGuess: false,
    proven: null,
    seen: null,
    ...more,
  };
}
