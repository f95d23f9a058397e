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

/** Refusals that came together, with what the service admitted since the pause before. */
export interface Wave {
  readonly admitted: number;
  /** Calls that were refused in it. */
  readonly refused: number;
  /** Milliseconds from the pause before to the end of its own. */
  readonly ms: number;
  /** Milliseconds that its first refusal asked for. */
  readonly wait: number;
}

/** Waves that are remembered. */
const MOST_WAVES = 6;
/** Refusals of a wave that say that whoever came was refused. Of twenty calls at once, one in fifty seldom hits three. */
const MANY = 3;
/** Waves whose numbers are alike within this factor come of a quota; those of chance differ by more, most often. */
const ALIKE = 1.3;
/** Pauses of this length, in milliseconds, are those of a window of a minute: nothing else asks for so long. */
const LONG_MS = 5_000;

/**
 * Whether refusals come of a quota. A quota refuses everybody until its window ends, and again after as many calls as the
 * time before. Refusals by chance hit single calls, after numbers of calls that have nothing in common (fault 79).
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

/** Whether nobody was refused beside another: where that goes on, no rate is to be found. */
const areSingle = (waves: readonly Wave[]): boolean => waves.every(({ refused }) => refused < MANY);

/**
 * Refusals within this time, in milliseconds, pauses not counted, are looked at together. A single one may be anything:
 * the service asks whoever it has no room for to wait. Quotas are counted over a minute at most.
 */
const TOGETHER_MS = 60_000;
/**
 * Cuts in a row after which the rate was refused again before it was back. A quota that fell to a third is found by then;
 * refusals that go on have nothing to do with the rate.
 */
const MOST_IN_VAIN = 2;
/** Refusals count as chance for this time after each, in milliseconds, once cuts have not helped. */
const CHANCE_MS = 60_000;

const MINUTE = 60_000;

/**
 * The service refused a call for lack of quota. However many calls of however many workers see the same refusal, it is
 * one wave: a call that was made before the last pause was over belongs to it. While it is not known that a quota is the
 * cause, everybody waits as long as the service asks, and nothing else.
 * @param call.startedAt when it was made
 * @param call.wait milliseconds that nobody may call
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
    // What is seen from the end of the pause on is seen from its later end on.
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
    // Perhaps there are a few calls too many: a little less shows whether it helps.
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

/** The rate is the new estimate, from the end of the pause on: the first permit after it is there. */
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

/** The calls of several waves, without their pauses. */
function callingOf(waves: readonly Wave[]): Wave {
  const sum = (of: (wave: Wave) => number): number => waves.reduce((total, wave) => total + of(wave), 0);
  return {
    admitted: sum((wave) => wave.admitted),
    ms: sum((wave) => wave.ms - wave.wait),
    refused: 0,
    wait: 0,
  };
}

/** Nobody may call for so long. */
export function pause(pace: SharedPace, ms: number, now: number): SharedPace {
  return { ...pace, waitUntil: Math.max(pace.waitUntil, now + ms) };
}

/** Calls failed for another reason than their number (5xx, resets, timeouts): no growth for a while, and no cut. */
export function hold(pace: SharedPace, ms: number, now: number): SharedPace {
  if (pace.estimate === null) return pace;
  return { ...pace, estimate: { ...grown(pace.estimate, true, now), heldUntil: now + ms } };
}
