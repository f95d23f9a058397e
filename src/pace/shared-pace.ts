import * as z from 'zod';
import { grown, isForgotten, rateOf } from './estimated-rate.js';

/** A pace that nobody has used for this long is dropped, in milliseconds: then nothing of it is true any more. */
export const PACE_TTL_MS = 3_600_000;

const perMinute = z.number().positive().nullable();

/**
 * The pace of a deployment's queue, one value that all its workers share. Calls take permits at even distances: a permit
 * is the earliest time at which a call may begin, by the quota of requests and by that of tokens ("virtual scheduling",
 * ITU-T I.371, known as GCRA). A bucket for each worker with its share of the quota would not do: the service counts
 * over windows of one second, and buckets that know nothing of each other fall into step and pour out together.
 *
 * Times are milliseconds of the store's clock.
 */
const paceSchema = z.object({
  /** The permit that was given last; the next one follows at the distance of the rate then. */
  permit: z.number(),
  /** When the tokens that were taken have flowed in again. */
  tokens: z.number(),
  /** The service asked everybody to wait until then. */
  waitUntil: z.number(),
  /** Calls that the service admitted since a time: the end of the pause after the last change of the estimate. */
  admitted: z.number(),
  since: z.number(),
  /** When the last pause ended, or ends, that no rate was taken from; 0 when there was none. */
  suspected: z.number(),
  /** The last waves of refusals, oldest first; none where nothing was refused for a minute. */
  waves: z.array(z.object({ admitted: z.number(), refused: z.number(), ms: z.number(), wait: z.number() })),
  /** Cuts in a row that did not help, and the peak before the first of them. */
  inVain: z.object({ cuts: z.number(), peak: z.number().positive() }).nullable(),
  /** Until then single refusals are taken to be chance: they cost their pause, and no rate is cut. */
  chanceUntil: z.number(),
  /** The quota per minute as the service says it in its answers; null where it says nothing. */
  advertised: z.object({ requestsPerMinute: perMinute, tokensPerMinute: perMinute }),
  /** What the service is estimated to take, by its refusals; null while it hardly refused. */
  estimate: z
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
/** With when it was written. */
const writtenSchema = paceSchema.extend({ at: z.number() });

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
/** Permits are given out this long before they come, in milliseconds, so that asking for them costs no time. */
const AHEAD_MS = 250;
/** Pause after the first call of all, in milliseconds. */
const FIRST_MS = 400;
/** A rate that has grown to so many times its peak holds nobody back any more. */
const LIFTED = 50;
const MINUTE = 60_000;
/** A difference of clocks that is none of networks and drift: somebody set one, in milliseconds. */
export const SET_MS = 2_000;

export function newPace(): SharedPace {
  return {
    permit: 0,
    tokens: 0,
    waitUntil: 0,
    admitted: 0,
    since: 0,
    suspected: 0,
    waves: [],
    inVain: null,
    chanceUntil: 0,
    advertised: NOTHING,
    estimate: null,
  };
}

/** Reads what a store holds. What is no pace, was left long ago, or comes from another clock is a new one. */
export function readPace(text: string | null, now: number): SharedPace {
  const written = text === null ? null : parse(text);
  if (written === null) return newPace();
  // Written at a time that is yet to come: the clock was set back, and the times are moved with it (fault 90).
  const back = written.at - now;
  const pace = back > SET_MS ? moved(written.pace, -back) : written.pace;
  const last = Math.max(pace.permit, pace.since, pace.waitUntil, pace.estimate?.at ?? 0);
  return Math.abs(last - now) > PACE_TTL_MS + MINUTE ? newPace() : pace;
}

/** What a store holds of a pace that was changed at a time of its clock. */
export const textOf = (pace: SharedPace, at: number): string => JSON.stringify({ ...pace, at });

/** The same pace after the clock was set: every time is as far away as it was. */
export function moved(pace: SharedPace, by: number): SharedPace {
  // 0 stands for never.
  const move = (time: number): number => (time === 0 ? 0 : time + by);
  const { estimate } = pace;
  return {
    ...pace,
    permit: move(pace.permit),
    tokens: move(pace.tokens),
    waitUntil: move(pace.waitUntil),
    since: move(pace.since),
    suspected: move(pace.suspected),
    estimate:
      estimate === null ? null : { ...estimate, at: move(estimate.at), heldUntil: move(estimate.heldUntil) },
  };
}

function parse(text: string): { readonly pace: SharedPace; readonly at: number } | null {
  try {
    const { at, ...pace } = writtenSchema.parse(JSON.parse(text));
    return { pace, at };
  } catch {
    return null;
  }
}

/** Calls a minute that are allowed at present; null when nothing is known. */
export function allowedRate(pace: SharedPace, configured: PaceLimits): number | null {
  const { requestsPerMinute } = known(pace, configured);
  const most = requestsPerMinute === null ? null : requestsPerMinute * USED.requests;
  if (pace.estimate === null) return most;
  return Math.min(rateOf(pace.estimate), most ?? Number.POSITIVE_INFINITY);
}

/** What people are told of a quota. */
export interface Quota {
  /** Calls; null where nothing is known of them. */
  readonly perMinute: number | null;
  /** Whether only refusals told the calls. */
  readonly isFound: boolean;
  /** Null where nothing is known of tokens. */
  readonly tokensPerMinute: number | null;
}

/** The quota itself where it is told, and what was found out where refusals say that it is less; null where nothing is known. */
export function quotaOf(pace: SharedPace, configured: PaceLimits): Quota | null {
  const { requestsPerMinute: told, tokensPerMinute } = known(pace, configured);
  const allowed = allowedRate(pace, configured);
  if (allowed === null && tokensPerMinute === null) return null;
  const isFound = allowed !== null && (told === null || allowed < told * USED.requests);
  return { perMinute: isFound ? allowed : told, isFound, tokensPerMinute };
}

/** Whether calls need a permit: only then does anybody ask the store for one. */
export function needsPermits(pace: SharedPace, configured: PaceLimits): boolean {
  const { requestsPerMinute, tokensPerMinute } = known(pace, configured);
  return requestsPerMinute !== null || tokensPerMinute !== null || pace.estimate !== null;
}

/** What the job says goes before what the service says: the user may share the quota with others. */
export function known({ advertised }: SharedPace, configured: PaceLimits): PaceLimits {
  return {
    requestsPerMinute: configured.requestsPerMinute ?? advertised.requestsPerMinute,
    tokensPerMinute: configured.tokensPerMinute ?? advertised.tokensPerMinute,
  };
}

/** Permits that were given out. */
interface PermitsGiven {
  readonly pace: SharedPace;
  /** Milliseconds until each permit, for the first so many of the calls that asked. */
  readonly waits: readonly number[];
  /** Milliseconds after which the others may ask again; 0 when all have their permit. */
  readonly again: number;
}

/**
 * Gives permits to calls in their order, as far as they come soon.
 * @param tokens what each call is reckoned to take
 */
export function takePermits(
  before: SharedPace,
  tokens: readonly number[],
  configured: PaceLimits,
  now: number,
): PermitsGiven {
  const limits = known(before, configured);
  const using = before.permit + distanceOf(before, configured) > now;
  const idle = before.estimate === null || isForgotten(Math.max(before.estimate.at, before.waitUntil), now);
  const older = before.estimate === null || idle ? null : grown(before.estimate, using, now);
  const estimate = older !== null && lifted(rateOf(older), older.peak, limits) ? null : older;
  // A clock that was put back must not hold the calls until it has caught up: no permit is further ahead than this.
  let pace: SharedPace = { ...before, estimate, permit: Math.min(before.permit, now + MINUTE + AHEAD_MS) };
  const distance = distanceOf(pace, configured);
  const each = limits.tokensPerMinute === null ? 0 : msPerToken(limits.tokensPerMinute);
  const waits: number[] = [];
  for (const cost of tokens) {
    const permit = Math.max(now, pace.waitUntil, pace.permit + distance, pace.tokens);
    if (permit - now > AHEAD_MS) return { pace, waits, again: Math.ceil(permit - now - AHEAD_MS) };
    waits.push(permit - now);
    // The first call of all makes its connection first, and comes late into the window that it opens.
    const first = pace.permit === 0 ? FIRST_MS : 0;
    const flowing = Math.max(pace.tokens, now, pace.waitUntil);
    pace = { ...pace, permit: permit + first, tokens: each === 0 ? pace.tokens : flowing + cost * each };
  }
  return { pace, waits, again: 0 };
}

/** Milliseconds between two permits. */
function distanceOf(pace: SharedPace, configured: PaceLimits): number {
  const rate = allowedRate(pace, configured);
  return rate === null ? 0 : MINUTE / rate;
}

/** Milliseconds in which the quota lets a token flow in again. */
export const msPerToken = (tokensPerMinute: number): number => MINUTE / (tokensPerMinute * USED.tokens);

const lifted = (rate: number, peak: number, { requestsPerMinute }: PaceLimits): boolean =>
  rate > peak * LIFTED || (requestsPerMinute !== null && rate >= requestsPerMinute * USED.requests);

/** A rate is told again when it has changed by this fraction. */
const TOLD_AGAIN = 0.15;

/** A change of what is allowed, for the log. Its words are those of the log. */
export interface PaceChange {
  /**
   * `slow_start`: more calls at once. `told`: the service said what its quota is. `refused`: it refused, and the rate is
   * cut. `pause`: nobody may call for a while, and slow start begins again. `growth`: nothing was refused for a while.
   * `held`: calls fail for other reasons, so the rate does not grow. `lifted`: the estimate holds nothing back any more.
   */
  readonly reason: 'slow_start' | 'told' | 'refused' | 'pause' | 'growth' | 'held' | 'lifted';
  /** Calls a minute of the whole fleet; null when nothing but the concurrency, or a quota of tokens, holds calls back. */
  readonly calls_per_minute: number | null;
  /** Calls at once of this process. */
  readonly concurrency: number;
}

/** Tells the changes of the pace, and each of them once: the rate itself changes with every call. */
export class PaceChanges {
  #rate: number | null = null;
  #estimated = false;

  constructor(
    private readonly limits: PaceLimits,
    private readonly concurrency: () => number,
    private readonly onChange: (change: PaceChange) => void,
  ) {}

  tell(reason: PaceChange['reason'], pace: SharedPace): void {
    this.#rate = allowedRate(pace, this.limits);
    this.#estimated = pace.estimate !== null;
    this.onChange({
      reason,
      calls_per_minute: this.#rate === null ? null : Math.round(this.#rate * 10) / 10,
      concurrency: this.concurrency(),
    });
  }

  /** Looks at a pace that somebody may have changed. */
  look(pace: SharedPace): void {
    const rate = allowedRate(pace, this.limits);
    if (this.#estimated && pace.estimate === null) this.tell('lifted', pace);
    else if (this.#rate === null || rate === null) this.#rate = rate;
    else if (rate > this.#rate * (1 + TOLD_AGAIN)) this.tell('growth', pace);
  }
}
