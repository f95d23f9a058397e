import {
  type EstimatedRate,
  firstEstimate,
  grown,
  isEarly,
  nextCut,
  rateOf,
  restored,
  steady,
  tellsEnough,
} from './estimated-rate.js';
import { allowedRate, type PaceLimits, type SharedPace } from './shared-pace.js';
import { applyReport, type UsageReport } from './usage.js';

/** Refusals that came together, and the calls admitted since the pause before. */
export interface Wave {
  readonly admitted: number;
  readonly refused: number;
  /** Milliseconds from the previous pause to the end of its own. */
  readonly ms: number;
  /** Milliseconds that its first refusal asked for. */
  readonly wait: number;
}

const MOST_WAVES = 6;
/** So many refusals mean that a wave hit everybody: with 20 calls at once, one in fifty seldom hits three. */
const MANY = 3;
/** Waves within this factor come from a quota; chance ones mostly differ by more. */
const ALIKE = 1.3;
/** Pauses this long, in ms, mean a window of a minute: nothing else asks for so long. */
const LONG_MS = 5_000;

/**
 * Whether refusals come from a quota. A quota refuses everybody until its window ends, and again after as
 * many calls. Random refusals hit single calls, at unrelated counts (fault 79).
 * @param waves oldest first
 */
export function tellQuota(waves: readonly Wave[]): boolean {
  const [last, before, third] = [...waves].reverse();
  if (last === undefined || before === undefined) return false;
  if (last.wait >= LONG_MS) return true;
  if (last.refused >= MANY && before.refused >= MANY) return true;
  if (third === undefined) return false;
  const admitted = [last, before, third].map((wave) => wave.admitted);
  return Math.max(...admitted) <= ALIKE * Math.min(...admitted);
}

/** No wave refused several calls: if that goes on, there is no rate to find. */
const areSingle = (waves: readonly Wave[]): boolean => waves.every(({ refused }) => refused < MANY);

/**
 * Refusals within this time are considered together, in ms, without pauses: a single one may mean anything,
 * and quotas span a minute at most.
 */
const TOGETHER_MS = 60_000;
/**
 * Consecutive cuts refused before the rate was back. By then a quota reduced to a third is found; further
 * refusals have nothing to do with the rate.
 */
const MOST_IN_VAIN = 2;
/** After cuts did not help, refusals count as chance for this long after each, in ms. */
const CHANCE_MS = 60_000;

const MINUTE = 60_000;

/**
 * However many calls of however many workers see a refusal, it is one wave: a call made before the last pause
 * ended belongs to it. Until a quota is known to be the cause, everybody only waits as long as asked.
 * @param call.wait milliseconds without calls
 */
export function refuse(
  before: SharedPace,
  call: { readonly startedAt: number; readonly wait: number },
  report: UsageReport,
  configured: PaceLimits,
  now: number,
): SharedPace {
  const waitUntil = Math.max(before.waitUntil, now + call.wait);
  const pace = { ...applyReport(before, report, configured, now), waitUntil };
  const free = allowedRate(pace, configured) === null;
  if (call.startedAt < before.waitUntil) {
    const last = pace.waves.at(-1);
    const waves = last ? [...pace.waves.slice(0, -1), { ...last, refused: last.refused + 1 }] : [];
    // Counting that starts at the end of the pause starts at its new end.
    const since = before.since === before.waitUntil ? waitUntil : pace.since;
    const wave = { ...pace, waves, since };
    return free && last !== undefined && tellQuota(waves)
      ? cut(wave, firstEstimate(last, now), waitUntil)
      : wave;
  }
  const seen = { admitted: pace.admitted, ms: now - pace.since + call.wait };
  if (!tellsEnough(seen)) return { ...pace, suspected: waitUntil };
  const alone = now - pace.suspected > TOGETHER_MS;
  const earlier = alone && pace.estimate === null ? [] : pace.waves;
  const waves = [...earlier.slice(1 - MOST_WAVES), { ...seen, refused: 1, wait: call.wait }];
  const wave = { ...pace, waves, admitted: 0, since: waitUntil, suspected: waitUntil };
  const known = tellQuota(waves);
  if (now < pace.chanceUntil && !known) return { ...wave, chanceUntil: now + CHANCE_MS };
  if (free) {
    if (known) return cut(wave, firstEstimate({ ...seen, wait: call.wait }, now), waitUntil);
    // Perhaps a few calls too many: a slightly lower rate shows whether it helps.
    return waves.length < MOST_WAVES ? wave : cut(wave, firstEstimate(callingOf(waves), now), waitUntil);
  }
  if (alone && pace.estimate === null) return wave;
  const estimate = pace.estimate ?? steady(allowedRate(pace, configured) ?? 0, now);
  const inVain =
    isEarly(estimate) && !known
      ? { peak: estimate.peak, ...pace.inVain, cuts: (pace.inVain?.cuts ?? 0) + 1 }
      : null;
  if (inVain !== null && inVain.cuts > MOST_IN_VAIN) {
    const back = areSingle(waves) ? null : restored(inVain.peak, now);
    return { ...wave, inVain: null, chanceUntil: now + CHANCE_MS, estimate: back };
  }
  return { ...cut(wave, nextCut(estimate, seen, call.wait, now), waitUntil), inVain };
}

/** Applies a new estimate: the first permit is at the end of the pause. */
function cut(pace: SharedPace, estimate: EstimatedRate, waitUntil: number): SharedPace {
  return {
    ...pace,
    permit: Math.min(pace.permit, waitUntil - MINUTE / rateOf(estimate)),
    tokens: Math.max(pace.tokens, waitUntil),
    inVain: null,
    chanceUntil: 0,
    estimate,
  };
}

function callingOf(waves: readonly Wave[]): Wave {
  const sum = (of: (wave: Wave) => number): number => waves.reduce((total, wave) => total + of(wave), 0);
  return {
    admitted: sum((wave) => wave.admitted),
    ms: sum((wave) => wave.ms - wave.wait),
    refused: 0,
    wait: 0,
  };
}

export function pause(pace: SharedPace, ms: number, now: number): SharedPace {
  return { ...pace, waitUntil: Math.max(pace.waitUntil, now + ms) };
}

/** Calls failed for another reason (5xx, resets, timeouts): no growth for a while, but no cut. */
export function hold(pace: SharedPace, ms: number, now: number): SharedPace {
  if (pace.estimate === null) return pace;
  return { ...pace, estimate: { ...grown(pace.estimate, true, now), heldUntil: now + ms } };
}
