import { firstFound, grown, nextCut, rateOf, steady, tellsEnough } from './found-rate.js';
import { heard, type News } from './news.js';
import { allowedRate, type PaceLimits, type SharedPace } from './shared-pace.js';

/**
 * Two refusals within this time, in milliseconds, pauses not counted, tell of a quota. A single one may be anything: the
 * service asks whoever it has no room for to wait. Quotas are counted over a minute at most.
 */
const SUSPECT_MS = 60_000;

const MINUTE = 60_000;

/**
 * The service refused a call for lack of quota. However many calls of however many workers see the same refusal, it is
 * one episode: a call that was made before the last pause was over belongs to it. While too little is known to tell the
 * quota by, everybody waits as long as the service asks, and nothing else.
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
  if (call.startedAt < before.waitUntil) {
    // What is seen from the end of the pause on is seen from its later end on.
    return before.since === before.waitUntil ? { ...pace, since: waitUntil } : pace;
  }
  const rate = allowedRate(pace, configured);
  const seen = { admitted: pace.admitted, ms: now - pace.since + call.wait };
  if (pace.found === null && now - pace.suspected > SUSPECT_MS) {
    return { ...pace, suspected: waitUntil, admitted: 0, since: waitUntil };
  }
  if (!tellsEnough(seen)) return { ...pace, suspected: waitUntil };
  const found =
    rate === null
      ? firstFound(seen, call.wait, now)
      : nextCut(pace.found ?? steady(rate, now), seen, call.wait, now);
  return {
    ...pace,
    // The first turn after the pause is at its end.
    turn: Math.min(pace.turn, waitUntil - MINUTE / rateOf(found)),
    tokens: Math.max(pace.tokens, waitUntil),
    admitted: 0,
    since: waitUntil,
    suspected: 0,
    found,
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
