import {
  type FoundRate,
  firstFound,
  grown,
  isEarly,
  nextCut,
  rateOf,
  restored,
  steady,
  tellsEnough,
} from './found-rate.js';
import { heard, type News } from './news.js';
import { allowedRate, type PaceLimits, type SharedPace } from './shared-pace.js';
import { areSingle, MOST_WAVES, tellQuota, type Wave } from './waves.js';

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
  news: News,
  configured: PaceLimits,
  now: number,
): SharedPace {
  const waitUntil = Math.max(before.waitUntil, now + call.wait);
  const pace = { ...heard(before, news, configured, now), waitUntil };
  const free = allowedRate(pace, configured) === null;
  if (call.startedAt < before.waitUntil) {
    const last = pace.waves.at(-1);
    const waves = last ? [...pace.waves.slice(0, -1), { ...last, refused: last.refused + 1 }] : [];
    // What is seen from the end of the pause on is seen from its later end on.
    const since = before.since === before.waitUntil ? waitUntil : pace.since;
    const wave = { ...pace, waves, since };
    return free && last !== undefined && tellQuota(waves)
      ? cut(wave, firstFound(last, now), waitUntil)
      : wave;
  }
  const seen = { admitted: pace.admitted, ms: now - pace.since + call.wait };
  if (!tellsEnough(seen)) return { ...pace, suspected: waitUntil };
  const alone = now - pace.suspected > TOGETHER_MS;
  const earlier = alone && pace.found === null ? [] : pace.waves;
  const waves = [...earlier.slice(1 - MOST_WAVES), { ...seen, refused: 1, wait: call.wait }];
  const wave = { ...pace, waves, admitted: 0, since: waitUntil, suspected: waitUntil };
  const known = tellQuota(waves);
  if (now < pace.chanceUntil && !known) return { ...wave, chanceUntil: now + CHANCE_MS };
  if (free) {
    if (known) return cut(wave, firstFound({ ...seen, wait: call.wait }, now), waitUntil);
    // Perhaps there are a few calls too many: a little less shows whether it helps.
    return waves.length < MOST_WAVES ? wave : cut(wave, firstFound(callingOf(waves), now), waitUntil);
  }
  if (alone && pace.found === null) return wave;
  const found = pace.found ?? steady(allowedRate(pace, configured) ?? 0, now);
  const inVain =
    isEarly(found) && !known
      ? { peak: found.peak, ...pace.inVain, cuts: (pace.inVain?.cuts ?? 0) + 1 }
      : null;
  if (inVain !== null && inVain.cuts > MOST_IN_VAIN) {
    const back = areSingle(waves) ? null : restored(inVain.peak, now);
    return { ...wave, inVain: null, chanceUntil: now + CHANCE_MS, found: back };
  }
  return { ...cut(wave, nextCut(found, seen, call.wait, now), waitUntil), inVain };
}

/** The rate is what was found out, from the end of the pause on: the first turn after it is there. */
function cut(pace: SharedPace, found: FoundRate, waitUntil: number): SharedPace {
  return {
    ...pace,
    turn: Math.min(pace.turn, waitUntil - MINUTE / rateOf(found)),
    tokens: Math.max(pace.tokens, waitUntil),
    inVain: null,
    chanceUntil: 0,
    found,
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
  if (pace.found === null) return pace;
  return { ...pace, found: { ...grown(pace.found, true, now), heldUntil: now + ms } };
}
