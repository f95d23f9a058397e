import { costOf, type Prices } from '../account/summary.js';

/** A figure that is known between two bounds. */
export interface Range {
  readonly least: number;
  readonly most: number;
}

/** How far the true count of the prompts may be from ours, as factors of it. */
export const EXACT: Range = { least: 1, most: 1 };
/**
 * The same where the tokenizer is assumed. Those of other models take up to half as much again for reviews in English (a build of
 * llama.cpp: 15 % more), and a quarter less. Scripts other than the Latin one are where tokenizers differ: vocabularies of 200,000
 * tokens take half to a third for most of them, and those of 32,000 up to twice as many.
 * @param otherScripts share of the prompts that is in them, from 0 to 1
 */
export const assumed = (otherScripts: number): Range => ({
  least: 0.75 - 0.45 * otherScripts,
  most: 1.5 + 0.75 * otherScripts,
});

/** The limits of a job that a quote is held against; `null` where one is not set. */
export interface QuoteLimits {
  /** Calls in flight at once. */
  readonly concurrency: number;
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
  readonly deadlineSeconds: number | null;
  readonly budget: { readonly tokens: number | null; readonly cost: number | null };
}

/** How long a run takes under its quota. */
export interface QuotedTime {
  readonly seconds: number;
  /** The limit that makes it so long. */
  readonly limit: 'requests_per_minute' | 'tokens_per_minute';
  /** Mean seconds of a call up to which the concurrency keeps up with the quota. */
  readonly call_seconds: number;
}

export interface QuotedDeadline {
  readonly seconds: number;
  /** `unknown` without a quota: how long a call takes is then all that counts, and nobody knows it. */
  readonly verdict: 'holds' | 'does_not_hold' | 'unknown';
  /** Mean seconds of a call up to which the concurrency is enough for it. */
  readonly call_seconds: number;
}

export interface QuotedBudget {
  readonly limit: 'tokens' | 'cost';
  readonly budget: number;
  /** `depends`: on how long the answers are. */
  readonly verdict: 'inside' | 'depends' | 'exceeded';
}

/** What a run would take. Retries and prompts that the filter blocks are not in it: nobody knows them beforehand. */
export interface Quote {
  /** From no answer at all to every answer as long as it may be. */
  readonly completion_tokens: Range;
  readonly total_tokens: Range;
  /** In the currency of the prices; `null` without prices. */
  readonly cost: Range | null;
  /** `null` without a quota, and for an input with nothing to send. */
  readonly time: QuotedTime | null;
  /** `null` without a deadline. */
  readonly deadline: QuotedDeadline | null;
  readonly budget: readonly QuotedBudget[];
}

/**
 * Quotes tokens, money and time, and holds them against the limits of the job. The time goes by our own count.
 * @param spread of the prompts. @default EXACT
 */
export function quote(
  tokens: TokenSums,
  requests: number,
  limits: QuoteLimits,
  prices: Prices | null,
  spread: Range = EXACT,
): Quote {
  const total = totalTokens(tokens, spread);
  const cost = costRange(tokens, prices, spread);
  const time = quotedTime(totalTokens(tokens, EXACT).most, requests, limits);
  return {
    completion_tokens: { least: 0, most: tokens.most_completion_tokens },
    total_tokens: total,
    cost,
    time,
    deadline: quotedDeadline(time, requests, limits),
    budget: [
      ...quotedBudget('tokens', limits.budget.tokens, total),
      ...quotedBudget('cost', limits.budget.cost, cost),
    ],
  };
}

/** Tokens with no answer at all, and with every answer as long as it may be. */
export function totalTokens(
  { prompt_tokens: prompt, most_completion_tokens: completion }: TokenSums,
  spread: Range,
): Range {
  return { least: Math.floor(prompt * spread.least), most: Math.ceil(prompt * spread.most) + completion };
}

/** The same in money; `null` without prices. */
export function costRange(tokens: TokenSums, prices: Prices | null, spread: Range): Range | null {
  if (prices === null) return null;
  const of = (factor: number, completion_tokens: number) =>
    costOf({ prompt_tokens: tokens.prompt_tokens * factor, completion_tokens }, prices);
  return { least: of(spread.least, 0), most: of(spread.most, tokens.most_completion_tokens) };
}

/** @param admitted tokens that the service counts: it admits a request by its longest possible answer */
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
  const seconds = limits.deadlineSeconds;
  if (seconds === null || requests === 0) return null;
  const verdict = time === null ? 'unknown' : time.seconds <= seconds ? 'holds' : 'does_not_hold';
  return { seconds, verdict, call_seconds: callSeconds(seconds, requests, limits) };
}

/** Little's law: calls in flight = calls a second × seconds of a call. */
const callSeconds = (seconds: number, requests: number, { concurrency }: QuoteLimits): number =>
  (seconds * concurrency) / requests;

function quotedBudget(
  limit: QuotedBudget['limit'],
  budget: number | null,
  range: Range | null,
): QuotedBudget[] {
  // A job with a cost and no prices is refused before it is read.
  if (budget === null || range === null) return [];
  const verdict = range.most <= budget ? 'inside' : range.least > budget ? 'exceeded' : 'depends';
  return [{ limit, budget, verdict }];
}

/** Tokens before they are used: those of the prompts exactly, those of the completions at most. */
export interface TokenSums {
  readonly prompt_tokens: number;
  /** `max_tokens` × candidates (`best_of`, `n`) of each row: every answer as long as it may be, and every candidate billed. */
  readonly most_completion_tokens: number;
}

export const NO_TOKENS: TokenSums = { prompt_tokens: 0, most_completion_tokens: 0 };

export function added(a: TokenSums, b: TokenSums): TokenSums {
  return {
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    most_completion_tokens: a.most_completion_tokens + b.most_completion_tokens,
  };
}
