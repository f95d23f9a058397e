import * as z from 'zod';
import { grown, isForgotten, rateOf, USED } from './found-rate.js';

/** A pace unused for this long is dropped, in ms. */
export const PACE_TTL_MS = 3_600_000;

const seenSchema = z.object({ admitted: z.number(), ms: z.number() });
const perMinute = z.number().positive().nullable();

/**
 * The pace of a deployment's queue, shared by all its workers. Calls take permits at even intervals: a permit
 * is the earliest start of a call under the request and token quotas (GCRA, "virtual scheduling", ITU-T
 * I.371). A bucket per worker would not do: the service counts over windows of one second, and independent
 * buckets fall into step and pour out together.
 *
 * Times are milliseconds of the store's clock.
 */
const paceSchema = z.object({
  /** The last permit given; the next one follows at the current rate's interval. */
  permit: z.number(),
  /** When the tokens taken have been refilled. */
  tokens: z.number(),
  waitUntil: z.number(),
  /** Calls admitted since `since`: the first call, or the end of the last pause. */
  admitted: z.number(),
  since: z.number(),
  /** The last wave of refusals; null before the first. */
  wave: z
    .object({
      refused: z.number(),
      seen: z.array(seenSchema).readonly(),
      until: z.number(),
      wait: z.number(),
      soon: z.number(),
    })
    .nullable(),
  /** Until then single refusals count as chance: they pause calls, but cut no rate. */
  chanceUntil: z.number(),
  /** Per minute, from responses; null where the service does not say. */
  advertised: z.object({ requestsPerMinute: perMinute, tokensPerMinute: perMinute }),
  /** Null while there were hardly any refusals. */
  found: z
    .object({
      peak: z.number().positive(),
      age: z.number(),
      still: z.number(),
      at: z.number(),
      heldUntil: z.number(),
      isGuess: z.boolean(),
      proven: z.number().positive().nullable(),
      seen: seenSchema.nullable(),
    })
    .nullable(),
});
export type SharedPace = Readonly<z.output<typeof paceSchema>>;
const writtenSchema = paceSchema.extend({ at: z.number() });

/** From the job or the service; null where it does not say. */
export interface PaceLimits {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
}

export const NOTHING: PaceLimits = { requestsPerMinute: null, tokensPerMinute: null };

/** Used share of a known quota of tokens, which are counted over a minute. */
const USED_TOKENS = 0.99;
/** Permits are given out this long in advance, in ms, so that asking for them costs no time. */
const AHEAD_MS = 250;
/** Pause after the very first call, in ms. */
const FIRST_MS = 400;
/** A found rate that has risen to this multiple of its peak limits nobody any more. */
const LIFTED = 50;
const MINUTE = 60_000;
/** A clock difference, in ms, that network and drift cannot explain: somebody set one. */
export const SET_MS = 2_000;

export function newPace(): SharedPace {
  return {
    permit: 0,
    tokens: 0,
    waitUntil: 0,
    admitted: 0,
    since: 0,
    wave: null,
    chanceUntil: 0,
    advertised: NOTHING,
    found: null,
  };
}

/** Text that is invalid, too old, or from another clock gives a new pace. */
export function readPace(text: string | null, now: number): SharedPace {
  const written = text === null ? null : parse(text);
  if (written === null) return newPace();
  // Written in the future: the clock was set back, so the times are shifted (fault 90).
  const back = written.at - now;
  const pace = back > SET_MS ? moved(written.pace, -back) : written.pace;
  const last = Math.max(pace.permit, pace.since, pace.waitUntil, pace.found?.at ?? 0);
  return Math.abs(last - now) > PACE_TTL_MS + MINUTE ? newPace() : pace;
}

export const textOf = (pace: SharedPace, at: number): string => JSON.stringify({ ...pace, at });

export function moved(pace: SharedPace, by: number): SharedPace {
  // 0 means never.
  const move = (time: number): number => (time === 0 ? 0 : time + by);
  const { found, wave } = pace;
  return {
    ...pace,
    permit: move(pace.permit),
    tokens: move(pace.tokens),
    waitUntil: move(pace.waitUntil),
    since: move(pace.since),
    chanceUntil: move(pace.chanceUntil),
    wave: wave && { ...wave, until: move(wave.until) },
    found: found && { ...found, at: move(found.at), heldUntil: move(found.heldUntil) },
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

/** Calls per minute; null when nothing limits them. */
export function allowedRate(pace: SharedPace, configured: PaceLimits): number | null {
  const { requestsPerMinute } = known(pace, configured);
  const most = requestsPerMinute === null ? null : requestsPerMinute * USED;
  if (pace.found === null) return most;
  return Math.min(rateOf(pace.found), most ?? Number.POSITIVE_INFINITY);
}

export interface Quota {
  /** Calls; null when unknown. */
  readonly perMinute: number | null;
  /** True when only refusals revealed it. */
  readonly isFound: boolean;
  /** Null when unknown. */
  readonly tokensPerMinute: number | null;
}

/** The stated quota, or a lower estimate from refusals; null when neither is known. */
export function quotaOf(pace: SharedPace, configured: PaceLimits): Quota | null {
  const { requestsPerMinute: told, tokensPerMinute } = known(pace, configured);
  const allowed = allowedRate(pace, configured);
  if (allowed === null && tokensPerMinute === null) return null;
  const isFound = allowed !== null && (told === null || allowed < told * USED);
  return { perMinute: isFound ? allowed : told, isFound, tokensPerMinute };
}

/** When not, nobody asks the store for permits. */
export function needsPermits(pace: SharedPace, configured: PaceLimits): boolean {
  const { requestsPerMinute, tokensPerMinute } = known(pace, configured);
  return requestsPerMinute !== null || tokensPerMinute !== null || pace.found !== null;
}

/** The job takes precedence: the user may share the quota with others. */
export function known({ advertised }: SharedPace, configured: PaceLimits): PaceLimits {
  return {
    requestsPerMinute: configured.requestsPerMinute ?? advertised.requestsPerMinute,
    tokensPerMinute: configured.tokensPerMinute ?? advertised.tokensPerMinute,
  };
}

interface PermitsGiven {
  readonly pace: SharedPace;
  /** Milliseconds until each permit, for the first calls of the request. */
  readonly waits: readonly number[];
  /** Milliseconds after which the others may ask again; 0 when all have a permit. */
  readonly again: number;
}

/** Gives permits in order, as long as they are due soon. */
export function takePermits(
  before: SharedPace,
  tokens: readonly number[],
  configured: PaceLimits,
  now: number,
): PermitsGiven {
  const limits = known(before, configured);
  const using = before.permit + distanceOf(before, configured) > now;
  const idle = before.found === null || isForgotten(Math.max(before.found.at, before.waitUntil), now);
  const older = before.found === null || idle ? null : grown(before.found, using, now);
  const found = older !== null && lifted(rateOf(older), older.peak, limits) ? null : older;
  // A clock that was set back must not block calls until it has caught up: this bounds the next permit.
  let pace: SharedPace = { ...before, found, permit: Math.min(before.permit, now + MINUTE + AHEAD_MS) };
  const distance = distanceOf(pace, configured);
  const each = limits.tokensPerMinute === null ? 0 : msPerToken(limits.tokensPerMinute);
  const waits: number[] = [];
  for (const cost of tokens) {
    const permit = Math.max(now, pace.waitUntil, pace.permit + distance, pace.tokens);
    if (permit - now > AHEAD_MS) return { pace, waits, again: Math.ceil(permit - now - AHEAD_MS) };
    waits.push(permit - now);
    // The very first call must connect first, so it arrives late in the window that it opens.
    const first = pace.permit === 0 ? FIRST_MS : 0;
    const flowing = Math.max(pace.tokens, now, pace.waitUntil);
    pace = { ...pace, permit: permit + first, tokens: each === 0 ? pace.tokens : flowing + cost * each };
  }
  return { pace, waits, again: 0 };
}

function distanceOf(pace: SharedPace, configured: PaceLimits): number {
  const rate = allowedRate(pace, configured);
  return rate === null ? 0 : MINUTE / rate;
}

/** Milliseconds until the quota refills one token. */
export const msPerToken = (tokensPerMinute: number): number => MINUTE / (tokensPerMinute * USED_TOKENS);

const lifted = (rate: number, peak: number, { requestsPerMinute }: PaceLimits): boolean =>
  rate > peak * LIFTED || (requestsPerMinute !== null && rate >= requestsPerMinute * USED);

/** A rate is logged again after changing by this fraction. */
const TOLD_AGAIN = 0.15;

/** A change of the allowed rate, in the words of the log. */
export interface PaceChange {
  /**
   * `told`: the service stated its quota. `pause`: slow start begins again. `growth`: no refusals for a
   * while. `held`: calls fail for other reasons. `lifted`: the estimate limits nobody any more. `no_gain`: more
   * calls at once bring no more answers a second, or it is tried whether fewer bring as many.
   */
  readonly reason: 'slow_start' | 'no_gain' | 'told' | 'refused' | 'pause' | 'growth' | 'held' | 'lifted';
  /** Of the whole fleet; null when only the concurrency or a token quota limits calls. */
  readonly calls_per_minute: number | null;
  readonly concurrency: number;
}

/** Logs each change once: the rate itself changes with every call. */
export class PaceChanges {
  #rate: number | null = null;
  #found = false;

  constructor(
    private readonly limits: PaceLimits,
    private readonly concurrency: () => number,
    private readonly onChange: (change: PaceChange) => void,
  ) {}

  tell(reason: PaceChange['reason'], pace: SharedPace): void {
    this.#rate = allowedRate(pace, this.limits);
    this.#found = pace.found !== null;
    this.onChange({
      reason,
      calls_per_minute: this.#rate === null ? null : Math.round(this.#rate * 10) / 10,
      concurrency: this.concurrency(),
    });
  }

  look(pace: SharedPace): void {
    const rate = allowedRate(pace, this.limits);
    if (this.#found && pace.found === null) this.tell('lifted', pace);
    else if (this.#rate === null || rate === null) this.#rate = rate;
    else if (rate > this.#rate * (1 + TOLD_AGAIN)) this.tell('growth', pace);
  }
}
