import { costOf, factorOf, type Prices } from '../../account/summary.js';
import type { Settings } from '../../config/settings.js';

type SlowTier = 'flex' | 'batch';

export interface Range {
  readonly least: number;
  readonly most: number;
}

/** True tokens of the prompts relative to our count, as factors. */
export const EXACT: Range = { least: 1, most: 1 };
/**
 * For an assumed tokenizer. Others take up to 50 % more for English reviews (a build of llama.cpp: 15 %), or
 * 25 % less. They differ most in scripts other than Latin: vocabularies of 200,000 tokens take half to a
 * third for most of them, vocabularies of 32,000 up to twice as many.
 * @param otherScripts share of the prompts in such scripts, from 0 to 1
 */
export const assumed = (otherScripts: number): Range => ({
  least: 0.75 - 0.45 * otherScripts,
  most: 1.5 + 0.75 * otherScripts,
});

export type QuoteLimits = Pick<
  Settings['limits'],
  'concurrency' | 'requestsPerMinute' | 'tokensPerMinute' | 'deadlineMs' | 'budget'
>;

export interface QuotedTime {
  readonly seconds: number;
  readonly limit: 'requests_per_minute' | 'tokens_per_minute';
  /** Mean seconds per call up to which the concurrency uses the whole quota. */
  readonly call_seconds: number;
}

export interface QuotedDeadline {
  readonly seconds: number;
  /** `unknown` without a quota: only the call time matters then, and it is unknown. */
  readonly verdict: 'holds' | 'does_not_hold' | 'unknown';
  /** Mean seconds per call up to which the concurrency is enough. */
  readonly call_seconds: number;
}

export interface QuotedBudget {
  readonly limit: 'tokens' | 'cost';
  readonly budget: number;
  /** `depends`: on the length of the answers. */
  readonly verdict: 'inside' | 'depends' | 'exceeded';
}

/** What a run would take, without retries and prompts blocked by the filter: both are unknown beforehand. */
export interface Quote {
  /** From no answer to every answer at its maximum. */
  readonly completion_tokens: Range;
  readonly total_tokens: Range;
  /** In the currency of the prices; `null` without prices. */
  readonly cost: Range | null;
  /** The cost if a tier took all rows. `null`: the job asks for none. */
  readonly tiers: Readonly<Record<string, Range | null>> | null;
  /** `null` without a quota, or with nothing to send. */
  readonly time: QuotedTime | null;
  /** `null` without a deadline. */
  readonly deadline: QuotedDeadline | null;
  readonly budget: readonly QuotedBudget[];
}

/**
 * Time is computed from our own token count.
 * @param spread of the prompts. @default EXACT
 * @param routes prices of all endpoints: any may take every row. @default those of one
 * @param tiers that may take every row, besides online
 */
export function quote(
  tokens: TokenSums,
  requests: number,
  limits: QuoteLimits,
  prices: Prices | null,
  spread: Range = EXACT,
  routes: readonly (Prices | null)[] = [prices],
  tiers: readonly SlowTier[] = [],
): Quote {
  const total = totalTokens(tokens, spread);
  const inTier = (of: SlowTier | 'online') =>
    overRoutes(routes.map((each) => costRange(tokens, each, spread, of)));
  const quoted = [...tiers, 'online' as const].map((of) => [of, inTier(of)] as const);
  const cost = overRoutes(quoted.map(([, each]) => each));
  const time = quotedTime(totalTokens(tokens, EXACT).most, requests, limits);
  return {
    completion_tokens: { least: 0, most: tokens.most_completion_tokens },
    total_tokens: total,
    cost,
    tiers: tiers.length === 0 ? null : Object.fromEntries(quoted),
    time,
    deadline: quotedDeadline(time, requests, limits),
    budget: [
      ...quotedBudget('tokens', limits.budget?.tokens, total),
      ...quotedBudget('cost', limits.budget?.cost, cost),
    ],
  };
}

/** From no answer to every answer at its maximum. */
export function totalTokens(
  { prompt_tokens: prompt, most_completion_tokens: completion }: TokenSums,
  spread: Range,
): Range {
  return { least: Math.floor(prompt * spread.least), most: Math.ceil(prompt * spread.most) + completion };
}

/** `null` when it is unknown for one. */
const overRoutes = (costs: readonly (Range | null)[]): Range | null =>
  costs.reduce((a, b) => a && b && { least: Math.min(a.least, b.least), most: Math.max(a.most, b.most) });

/** `null` without prices. */
export function costRange(
  tokens: TokenSums,
  prices: Prices | null,
  spread: Range,
  tier: SlowTier | 'online' = 'online',
): Range | null {
  if (prices === null) return null;
  const of = (factor: number, completion_tokens: number, cached = 0) => {
    const prompt_tokens = tokens.prompt_tokens * factor;
    const online = costOf({ prompt_tokens, completion_tokens, cached_tokens: cached * factor }, prices);
    return Number((online * factorOf(tier, prices)).toFixed(6));
  };
  return {
    least: of(spread.least, 0, tokens.cacheable_prompt_tokens),
    most: of(spread.most, tokens.most_completion_tokens),
  };
}

/** @param admitted tokens that count against the quota: a request counts with its longest possible answer */
function quotedTime(admitted: number, requests: number, limits: QuoteLimits): QuotedTime | null {
  if (requests === 0) return null;
  const minutes = {
    requests_per_minute: requests / (limits.requestsPerMinute ?? Number.POSITIVE_INFINITY),
    tokens_per_minute: admitted / (limits.tokensPerMinute ?? Number.POSITIVE_INFINITY),
  };
  const limit =
    minutes.tokens_per_minute > minutes.requests_per_minute ? 'tokens_per_minute' : 'requests_per_minute';
  if (minutes[limit] === 0) return null;
  const seconds = minutes[limit] * 60;
  return { seconds, limit, call_seconds: callSeconds(seconds, requests, limits) };
}

function quotedDeadline(
  time: QuotedTime | null,
  requests: number,
  limits: QuoteLimits,
): QuotedDeadline | null {
  if (limits.deadlineMs === null || requests === 0) return null;
  const seconds = limits.deadlineMs / 1000;
  const verdict = time === null ? 'unknown' : time.seconds <= seconds ? 'holds' : 'does_not_hold';
  return { seconds, verdict, call_seconds: callSeconds(seconds, requests, limits) };
}

/** Little's law: calls in flight = calls per second × seconds per call. */
const callSeconds = (seconds: number, requests: number, { concurrency }: QuoteLimits): number =>
  (seconds * concurrency) / requests;

function quotedBudget(
  limit: QuotedBudget['limit'],
  budget: number | null | undefined,
  range: Range | null,
): QuotedBudget[] {
  // A job with a cost budget and no prices is refused earlier.
  if (typeof budget !== 'number' || range === null) return [];
  const verdict = range.most <= budget ? 'inside' : range.least > budget ? 'exceeded' : 'depends';
  return [{ limit, budget, verdict }];
}

/** Exact for prompts, maximum for completions. */
export interface TokenSums {
  readonly prompt_tokens: number;
  /** Of these, what a cache can hold. @default 0 */
  readonly cacheable_prompt_tokens?: number;
  /** Sum of `max_tokens` × candidates (`best_of`, `n`): every candidate at its maximum, and billed. */
  readonly most_completion_tokens: number;
}

export const NO_TOKENS: TokenSums = { prompt_tokens: 0, most_completion_tokens: 0 };

export function added(a: TokenSums, b: TokenSums): TokenSums {
  return {
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    most_completion_tokens: a.most_completion_tokens + b.most_completion_tokens,
  };
}
