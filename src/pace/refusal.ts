import {
  areAlike,
  begun,
  type FoundRate,
  first,
  grown,
  hitEverybody,
  LONG_MS,
  NONE,
  nextCut,
  peakOf,
  rateOf,
  SOON_MS,
  STILL_MS,
  windowOf,
} from './found-rate.js';
import { allowedRate, type PaceLimits, type SharedPace } from './shared-pace.js';
import { applyReport, type UsageReport } from './usage.js';

/** Single refusals count as chance for this long after such ones, in ms, and after each other. */
const CHANCE_MS = 60_000;
/** Refusals within this time are considered together, in ms: quotas span a minute at most. */
const TOGETHER_MS = 60_000;
/** Fewer calls since the pause before, in less time in ms, tell no quota: slow start begins with as many. */
const FEW = { calls: 5, ms: 10_000 };
const MINUTE = 60_000;

/**
 * However many calls of however many workers see a refusal, it is one wave: a call made before the last pause ended
 * belongs to it. A wave that hit everybody tells a quota, and so do waves after as many calls each. Until then it may
 * be chance, and everybody only waits as long as asked.
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
  const { admitted, wave: last } = pace;
  const allowed = allowedRate(pace, configured);
  if (call.startedAt < before.waitUntil) {
    // The pause of an outage has no wave.
    if (last === null || now - last.until > TOGETHER_MS) return pace;
    const wave = { ...last, refused: last.refused + 1, until: waitUntil };
    // Counting that starts at the end of the pause starts at its new end.
    const since = before.since === before.waitUntil ? waitUntil : pace.since;
    const same = { ...pace, wave, since };
    if (allowed !== null || !hitEverybody(wave)) return same;
    // Others report their calls later.
    return paced(same, { ...first(wave, false, now), seen: wave.seen[0] ?? null });
  }
  const ms = now - pace.since;
  // The pause was shorter than the window: these few calls came before its end.
  const isEarly = allowed === null && last !== null && admitted < FEW.calls && ms < FEW.ms;
  if (admitted === 0 || isEarly) return { ...pace, wave: last && { ...last, until: waitUntil } };
  const earlier = last !== null && now - last.until <= TOGETHER_MS ? last : null;
  const wave = {
    refused: 1,
    seen: [{ admitted, ms: Math.max(ms, windowOf(call.wait)) }, ...(earlier?.seen.slice(0, 2) ?? [])],
    until: waitUntil,
    wait: call.wait,
    soon: ms <= SOON_MS && earlier !== null ? earlier.soon + 1 : 0,
  };
  const next = { ...pace, wave, admitted: 0, since: waitUntil };
  // The calls before the last wave are not all reported yet.
  const isQuota = earlier !== null && (areAlike(earlier.seen, 3) || hitEverybody(earlier));
  if (now < pace.chanceUntil && !isQuota) return { ...next, chanceUntil: now + CHANCE_MS };
  if (allowed === null) {
    const isLikely = earlier !== null && (areAlike(earlier.seen, 2) || call.wait > LONG_MS);
    return isQuota || isLikely ? paced(next, first(earlier, !isQuota, now)) : next;
  }
  if (pace.found === null && wave.soon < 2 && call.wait <= LONG_MS) return next;
  const found =
    pace.found ?? begun(Math.min(allowed, 2 * peakOf(wave.seen[0] ?? NONE)), STILL_MS.unsure, now);
  const cut = nextCut(found, wave, { ms, lag: now - call.startedAt, isQuota }, now);
  if (cut !== null) return cut === found ? next : paced(next, cut);
  const { proven } = found;
  const back = proven === null ? null : begun(proven, STILL_MS.unsure, now, { proven });
  return { ...next, chanceUntil: now + CHANCE_MS, found: back };
}

export function pause(pace: SharedPace, ms: number, now: number): SharedPace {
  return { ...pace, waitUntil: Math.max(pace.waitUntil, now + ms) };
}

/** Applies a new rate: the first permit is at the end of the pause. */
function paced(pace: SharedPace, found: FoundRate): SharedPace {
  const { waitUntil } = pace;
  return {
    ...pace,
    permit: Math.min(pace.permit, waitUntil - MINUTE / rateOf(found)),
    tokens: Math.max(pace.tokens, waitUntil),
    chanceUntil: 0,
    found,
  };
}

/** Calls failed for another reason (5xx, resets, timeouts): no rise for a while, but no cut. */
export function hold(pace: SharedPace, ms: number, now: number): SharedPace {
  if (pace.found === null) return pace;
  return { ...pace, found: { ...grown(pace.found, true, now), heldUntil: now + ms } };
}
