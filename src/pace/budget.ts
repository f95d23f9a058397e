import { costOf, factorOf, type Prices } from '../account/summary.js';
import { cost, count } from '../core/figures.js';
import type { Parameters, Problem, Tokens, Usage } from '../core/model.js';
import { mostGenerated } from '../prompt/tokens.js';
import type { Bounds } from '../store/ledger.js';

export const NO_TOKENS: Tokens = { prompt_tokens: 0, completion_tokens: 0 };

/** `limits.budget`; null where not set. */
export interface Budget {
  /** Prompt and completion tokens together. */
  readonly tokens: number | null;
  /** In the currency of the prices. */
  readonly cost: number | null;
  /** Per 1,000 tokens, the highest of all endpoints. A job with a cost limit and no prices is refused. */
  readonly prices: Prices | null;
  /** By name, where they differ. */
  readonly byEndpoint?: { readonly [name: string]: Prices } | undefined;
  /** What the batches of the run were or may be billed, which no counter of calls has. @default none */
  readonly batches?: Tokens | undefined;
}

export const plus = (a: Tokens, b: Tokens): Tokens => ({
  prompt_tokens: a.prompt_tokens + b.prompt_tokens,
  completion_tokens: a.completion_tokens + b.completion_tokens,
});

export const minus = (a: Tokens, b: Tokens): Tokens => ({
  prompt_tokens: a.prompt_tokens - b.prompt_tokens,
  completion_tokens: a.completion_tokens - b.completion_tokens,
});

export const most = (a: Tokens, b: Tokens): Tokens => ({
  prompt_tokens: Math.max(a.prompt_tokens, b.prompt_tokens),
  completion_tokens: Math.max(a.completion_tokens, b.completion_tokens),
});

export const least = (a: Tokens, b: Tokens): Tokens => ({
  prompt_tokens: Math.min(a.prompt_tokens, b.prompt_tokens),
  completion_tokens: Math.min(a.completion_tokens, b.completion_tokens),
});

/**
 * More than any answer has. Caps `max_tokens` (2^53−1 means "as many as possible"), so that sums fit into a
 * number and the stores' integers.
 */
const MOST_GENERATED = 2 ** 32;

/** Upper bound of a prompt's bill: the service bills no more than it may generate. */
export function mostBilled(promptTokens: number, parameters: Parameters): Tokens {
  const generated = Math.min(mostGenerated(parameters), MOST_GENERATED);
  return { prompt_tokens: promptTokens, completion_tokens: generated };
}

/**
 * Tokens in the ledger, which knows one price of prompts and one of completions: under a budget of money alone, tokens
 * that cost less (cached ones, those of cheaper tiers and endpoints) count by their price.
 * @param endpoint its name
 */
export function atPrice(
  usage: Pick<Usage, keyof Tokens | 'cached_tokens'>,
  tier: string | undefined,
  budget: Budget | null,
  endpoint: string,
): Tokens {
  const { cached_tokens: cached = 0, prompt_tokens, completion_tokens } = usage;
  if (budget === null || budget.tokens !== null || budget.prices === null) return usage;
  const { prices } = budget;
  const own = budget.byEndpoint?.[endpoint] ?? prices;
  const factor = factorOf(tier, own);
  const priced = (tokens: number, price: number, highest: number): number => {
    const share = (highest === 0 ? 1 : price / highest) * factor;
    // The most that an answer can have may be Infinity.
    return share === 0 ? 0 : Math.ceil(tokens * share);
  };
  const cheaper = own.prompt === 0 ? 0 : cached * (1 - (own.cached ?? own.prompt) / own.prompt);
  return {
    prompt_tokens: priced(prompt_tokens - cheaper, own.prompt, prices.prompt),
    completion_tokens: priced(completion_tokens, own.completion, prices.completion),
  };
}

/** The limit that a sum exceeds, or null. The cost is as the summary shows it. */
export function passed({ tokens, cost: money, prices }: Budget, sum: Tokens): 'tokens' | 'cost' | null {
  if (tokens !== null && sum.prompt_tokens + sum.completion_tokens > tokens) return 'tokens';
  if (money !== null && prices !== null && costOf(sum, prices) > money) return 'cost';
  return null;
}

const WITHOUT_END = Number.MAX_SAFE_INTEGER;

/** The ledger's form: a sum is within it when {@link passed} returns null. */
export function boundsOf({ tokens, cost: money, prices, batches = NO_TOKENS }: Budget): Bounds {
  const left = (tokens ?? WITHOUT_END) - batches.prompt_tokens - batches.completion_tokens;
  const bounds = { tokens: left, cost: 0, promptPrice: 0, completionPrice: 0 };
  if (money === null || prices === null) return bounds;
  // The summary rounds costs to a millionth; prices are per 1,000 tokens.
  const millionths = Math.floor(money * 1e6 + 1e-6) + 0.4999;
  return {
    ...bounds,
    cost:
      millionths / 1e3 -
      batches.prompt_tokens * prices.prompt -
      batches.completion_tokens * prices.completion,
    promptPrice: prices.prompt,
    completionPrice: prices.completion,
  };
}

export function budgetProblem(budget: Budget, called: Tokens, next: Tokens): Problem {
  const spent = plus(called, budget.batches ?? NO_TOKENS);
  const limit = passed(budget, plus(spent, next)) ?? 'tokens';
  const figure = (tokens: Tokens): string =>
    limit === 'cost' && budget.prices !== null
      ? cost(costOf(tokens, budget.prices), budget.prices.currency)
      : count(tokens.prompt_tokens + tokens.completion_tokens);
  const given =
    limit === 'cost' ? cost(budget.cost ?? 0, budget.prices?.currency) : count(budget.tokens ?? 0);
  return {
    code: 'budget',
    message:
      `limits.budget.${limit} is ${given}, of which ${figure(spent)} is spent, and the next call could take ${figure(next)}. ` +
      `Raise limits.budget.${limit} in the job file, and the same command goes on.`,
  };
}

/** `120,000 of 2,000,000 tokens and cost 1.20 of 25.00`. */
export function spentText({ tokens, cost: money, prices }: Budget, spent: Tokens): string {
  const parts = [
    ...(tokens === null
      ? []
      : [`${count(spent.prompt_tokens + spent.completion_tokens)} of ${count(tokens)} tokens`]),
    ...(money === null || prices === null
      ? []
      : [`cost ${cost(costOf(spent, prices))} of ${cost(money, prices.currency)}`]),
  ];
  return parts.join(' and ');
}
