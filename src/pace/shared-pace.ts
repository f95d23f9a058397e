import { z } from 'zod';
import {
  firstFound,
  grown,
  isForgotten,
  nextCut,
  rateOf,
  steady,
  tellsEnough,
  together,
} from './found-rate.js';
import { REGISTER_TTL_MS } from './register.js';

const perMinute = z.number().positive().nullable();

/**
 * The pace of a deployment's queue, one value that all its workers share. Calls take turns at even distances: a turn
 * is the earliest time at which a call may begin, by the quota of requests and by that of tokens ("virtual scheduling",
 * ITU-T I.371, known as GCRA). A bucket for each worker with its share of the quota would not do: the service counts
 * over windows of one second, and buckets that know nothing of each other fall into step and pour out together.
 *
 * Times are milliseconds of the store's clock.
 */
const paceSchema = z.object({
  /** The turn that was given last; the next one follows at the distance of the rate then. */
  turn: z.number(),
  /** When the tokens that were taken have flowed in again. */
  tokens: z.number(),
  /** The service asked everybody to wait until then. */
  waitUntil: z.number(),
  /** Calls that the service admitted since a time: the end of the pause after the last change of what was found. */
  admitted: z.number(),
  since: z.number(),
  /** When the last pause ended, or ends, that no rate was taken from; 0 when there was none. */
  suspected: z.number(),
  /** The quota per minute as the service says it in its answers; null where it says nothing. */
  told: z.object({ requestsPerMinute: perMinute, tokensPerMinute: perMinute }),
  /** What the service was found to take; null while it hardly refused. */
  found: z
    .object({
      peak: z.number().positive(),
      age: z.number(),
      span: z.number().positive(),
      at: z.number(),
      heldUntil: z.number(),
      first: z.object({ admitted: z.number(), ms: z.number() }).nullable(),
    })
    .nullable(),
});
export type SharedPace = Readonly<z.output<typeof paceSchema>>;

/** A quota per minute, as a job or the service says it; null where it says nothing. */
export interface PaceLimits {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
}

export const NOTHING: PaceLimits = { requestsPerMinute: null, tokensPerMinute: null };

/**
 * What of a known quota is used. Requests are counted over windows of a second: 1.5 % less than the quota lets
 * calls arrive 15 ms early or late without one too many in a window. Tokens are counted over a minute.
 */
const USED = { requests: 0.985, tokens: 0.99 };
/** Turns are given out this long before they come, in milliseconds, so that asking for them costs no time. */
const AHEAD_MS = 250;
/** Pause after the first call of all, in milliseconds. */
const FIRST_MS = 400;
/** A rate that has grown to so many times its peak holds nobody back any more. */
const LIFTED = 50;
/**
 * Two refusals within this time, in milliseconds, pauses not counted, tell of a quota. A single one may be anything: the
 * service asks whoever it has no room for to wait. Quotas are counted over a minute at most.
 */
const SUSPECT_MS = 60_000;
/** Admissions older than this, in milliseconds, count by their average over the half of it. */
const MEMORY_MS = 60_000;

const MINUTE = 60_000;

export function newPace(): SharedPace {
  return {
    turn: 0,
    tokens: 0,
    waitUntil: 0,
    admitted: 0,
    since: 0,
    suspected: 0,
    told: NOTHING,
    found: null,
  };
}

/** Reads what a store holds. What is no pace, was left long ago, or comes from another clock is a new one. */
export function readPace(text: string | null, now: number): SharedPace {
  const pace = text === null ? null : parse(text);
  if (pace === null) return newPace();
  const last = Math.max(pace.turn, pace.since, pace.waitUntil, pace.found?.at ?? 0);
  return Math.abs(last - now) > REGISTER_TTL_MS + MINUTE ? newPace() : pace;
}

function parse(text: string): SharedPace | null {
  try {
    return paceSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Calls a minute that are allowed at present; null when nothing is known. */
export function allowedRate(pace: SharedPace, configured: PaceLimits): number | null {
  const { requestsPerMinute } = known(pace, configured);
  const most = requestsPerMinute === null ? null : requestsPerMinute * USED.requests;
  if (pace.found === null) return most;
  return Math.min(rateOf(pace.found), most ?? Number.POSITIVE_INFINITY);
}

/** Whether calls need a turn. Where they do not, nobody asks the store for one. */
export function needsTurns(pace: SharedPace, configured: PaceLimits): boolean {
  const { requestsPerMinute, tokensPerMinute } = known(pace, configured);
  return requestsPerMinute !== null || tokensPerMinute !== null || pace.found !== null;
}

/** What the job says goes before what the service says: the user may share the quota with others. */
function known({ told }: SharedPace, configured: PaceLimits): PaceLimits {
  return {
    requestsPerMinute: configured.requestsPerMinute ?? told.requestsPerMinute,
    tokensPerMinute: configured.tokensPerMinute ?? told.tokensPerMinute,
  };
}

/** What a worker tells of its calls with the next change. */
export interface News {
  /** Calls made since the last change, less those that were refused: below 0 when older ones were. */
  readonly admitted: number;
  /** When the first of them was made. */
  readonly since: number;
  /** Tokens that calls took beyond what was reserved for them; negative when they took less. */
  readonly tokens: number;
  /** What the service says of its quota now, where that has changed. */
  readonly told: PaceLimits;
}

/** Takes what a worker tells into account. */
export function heard(before: SharedPace, news: News, configured: PaceLimits, now: number): SharedPace {
  const told = news.told.requestsPerMinute !== null || news.told.tokensPerMinute !== null;
  // Calls from before a rate was found, of a worker that had no reason to tell of them.
  const early = news.since < before.since;
  const found = before.found !== null && early ? together(before.found, news.admitted) : before.found;
  const pace = {
    ...before,
    // What was found out before the service told another quota means nothing any more.
    found: told ? null : found,
    told: {
      requestsPerMinute: news.told.requestsPerMinute ?? before.told.requestsPerMinute,
      tokensPerMinute: news.told.tokensPerMinute ?? before.told.tokensPerMinute,
    },
  };
  const { tokensPerMinute } = known(pace, configured);
  // A time without calls before the first one tells nothing; calls from before the pause belong to what is done with.
  const began = pace.since === 0 ? news.since : pace.since;
  const part = news.since < began ? (now - began) / Math.max(1, now - news.since) : 1;
  const { admitted, since } = remembered(pace.admitted + news.admitted * Math.max(0, part), began, now);
  if (tokensPerMinute === null || news.tokens === 0) return { ...pace, admitted, since };
  const owed = Math.min(MINUTE, news.tokens * msPerToken(tokensPerMinute));
  return { ...pace, admitted, since, tokens: Math.max(pace.tokens, now) + owed };
}

/** Lets what was long ago count less. */
export function remembered(
  admitted: number,
  since: number,
  now: number,
): { admitted: number; since: number } {
  const elapsed = now - since;
  if (elapsed <= MEMORY_MS) return { admitted, since };
  return { admitted: (admitted * MEMORY_MS) / 2 / elapsed, since: now - MEMORY_MS / 2 };
}

/** Turns that were given out. */
export interface TurnsGiven {
  readonly pace: SharedPace;
  /** Milliseconds until each turn, for the first so many of the calls that asked. */
  readonly waits: readonly number[];
  /** Milliseconds after which the others may ask again; 0 when all have their turn. */
  readonly again: number;
}

/**
 * Gives turns to calls in their order, as far as they come soon.
 * @param tokens what each call is reckoned to take
 */
export function takeTurns(
  before: SharedPace,
  tokens: readonly number[],
  configured: PaceLimits,
  now: number,
): TurnsGiven {
  const limits = known(before, configured);
  const using = before.turn + distanceOf(before, configured) > now;
  const idle = before.found === null || isForgotten(Math.max(before.found.at, before.waitUntil), now);
  const older = before.found === null || idle ? null : grown(before.found, using, now);
  const found = older !== null && lifted(rateOf(older), older.peak, limits) ? null : older;
  let pace: SharedPace = { ...before, found };
  const distance = distanceOf(pace, configured);
  const each = limits.tokensPerMinute === null ? 0 : msPerToken(limits.tokensPerMinute);
  const waits: number[] = [];
  for (const cost of tokens) {
    const turn = Math.max(now, pace.waitUntil, pace.turn + distance, pace.tokens);
    if (turn - now > AHEAD_MS) return { pace, waits, again: Math.ceil(turn - now - AHEAD_MS) };
    waits.push(turn - now);
    // The first call of all makes its connection first, and comes late into the window that it opens.
    const first = pace.turn === 0 ? FIRST_MS : 0;
    const flowing = Math.max(pace.tokens, now, pace.waitUntil);
    pace = { ...pace, turn: turn + first, tokens: each === 0 ? pace.tokens : flowing + cost * each };
  }
  return { pace, waits, again: 0 };
}

/** Milliseconds between two turns. */
function distanceOf(pace: SharedPace, configured: PaceLimits): number {
  const rate = allowedRate(pace, configured);
  return rate === null ? 0 : MINUTE / rate;
}

const msPerToken = (tokensPerMinute: number): number => MINUTE / (tokensPerMinute * USED.tokens);

const lifted = (rate: number, peak: number, { requestsPerMinute }: PaceLimits): boolean =>
  rate > peak * LIFTED || (requestsPerMinute !== null && rate >= requestsPerMinute * USED.requests);

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
  if (rate === null && now - pace.suspected > SUSPECT_MS) {
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
