import { z } from 'zod';
import { cut, grown, rateOf, together } from './found-rate.js';
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
  /** When the next request may begin. */
  request: z.number(),
  /** When the tokens that were taken have flowed in again. */
  tokens: z.number(),
  /** The service asked everybody to wait until then. */
  waitUntil: z.number(),
  /** Calls that the service admitted since a time. */
  admitted: z.number(),
  since: z.number(),
  /** The quota per minute as the service says it in its answers; null where it says nothing. */
  told: z.object({ requestsPerMinute: perMinute, tokensPerMinute: perMinute }),
  /** What the service was found to take; null while it never refused. */
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
/** Admissions older than this, in milliseconds, count by their average over the half of it. */
const MEMORY_MS = 60_000;

const MINUTE = 60_000;

export function newPace(now: number): SharedPace {
  return { request: 0, tokens: 0, waitUntil: 0, admitted: 0, since: now, told: NOTHING, found: null };
}

/** Reads what a store holds. What is no pace, was left long ago, or comes from another clock is a new one. */
export function readPace(text: string | null, now: number): SharedPace {
  const pace = text === null ? null : parse(text);
  if (pace === null) return newPace(now);
  const last = Math.max(pace.request, pace.since, pace.waitUntil, pace.found?.at ?? 0);
  return Math.abs(last - now) > REGISTER_TTL_MS + MINUTE ? newPace(now) : pace;
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
  /** Calls that the service admitted since the last change. */
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
  const pace = {
    ...before,
    told: {
      requestsPerMinute: news.told.requestsPerMinute ?? before.told.requestsPerMinute,
      tokensPerMinute: news.told.tokensPerMinute ?? before.told.tokensPerMinute,
    },
  };
  const { tokensPerMinute } = known(pace, configured);
  const began = pace.admitted === 0 ? Math.min(Math.max(news.since, pace.waitUntil), now) : pace.since;
  const { admitted, since } = remembered(pace.admitted + news.admitted, began, now);
  if (tokensPerMinute === null || news.tokens === 0) return { ...pace, admitted, since };
  const owed = news.tokens * msPerToken(tokensPerMinute);
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
export interface Turns {
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
): Turns {
  const limits = known(before, configured);
  const using = before.request > now;
  const older = before.found === null ? null : grown(before.found, using, now);
  const found = older !== null && lifted(rateOf(older), older.peak, limits) ? null : older;
  let pace: SharedPace = { ...before, found };
  const rate = allowedRate(pace, limits);
  const distance = rate === null ? 0 : MINUTE / rate;
  const each = limits.tokensPerMinute === null ? 0 : msPerToken(limits.tokensPerMinute);
  const waits: number[] = [];
  for (const cost of tokens) {
    const turn = Math.max(now, pace.waitUntil, pace.request, pace.tokens);
    if (turn - now > AHEAD_MS) return { pace, waits, again: Math.ceil(turn - now - AHEAD_MS) };
    waits.push(turn - now);
    // The first call of all makes its connection first, and comes late into the window that it opens.
    const first = pace.request === 0 ? FIRST_MS : 0;
    const flowing = Math.max(pace.tokens, now, pace.waitUntil);
    pace = {
      ...pace,
      request: turn + distance + first,
      tokens: each === 0 ? pace.tokens : flowing + cost * each,
    };
  }
  return { pace, waits, again: 0 };
}

const msPerToken = (tokensPerMinute: number): number => MINUTE / (tokensPerMinute * USED.tokens);

const lifted = (rate: number, peak: number, { requestsPerMinute }: PaceLimits): boolean =>
  rate > peak * LIFTED || (requestsPerMinute !== null && rate >= requestsPerMinute * USED.requests);

/**
 * The service refused a call for lack of quota. However many calls of however many workers see the same refusal, it is
 * one episode: a call that was made before the last pause was over belongs to it.
 * @param call.startedAt when it was made
 * @param call.wait milliseconds that nobody may call
 */
export function refuse(
  pace: SharedPace,
  call: { readonly startedAt: number; readonly wait: number },
  news: News,
  configured: PaceLimits,
  now: number,
): SharedPace {
  const waitUntil = Math.max(pace.waitUntil, now + call.wait);
  if (pace.found !== null && call.startedAt < pace.waitUntil) {
    return { ...pace, waitUntil, found: together(pace.found, news.admitted) };
  }
  const { admitted, since, tokens, told } = heard(pace, news, configured, now);
  const rate = allowedRate(pace, configured);
  const again = pace.found !== null;
  const found = cut({ rate, again, admitted, elapsed: now - since, wait: call.wait }, now);
  return {
    request: waitUntil,
    tokens: Math.max(tokens, waitUntil),
    waitUntil,
    admitted: 0,
    since: waitUntil,
    told,
    found,
  };
}

/** Calls failed for another reason than their number (5xx, resets, timeouts): no growth for a while, and no cut. */
export function hold(pace: SharedPace, ms: number, now: number): SharedPace {
  if (pace.found === null) return pace;
  return { ...pace, found: { ...grown(pace.found, true, now), heldUntil: now + ms } };
}
