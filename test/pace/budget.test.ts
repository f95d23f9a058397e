import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Tokens } from '../../src/core/model.js';
import {
  atPrice,
  type Budget,
  boundsOf,
  budgetProblem,
  mostBilled,
  passed,
  plus,
  spentText,
} from '../../src/pace/budget.js';

const PRICES = { prompt: 0.0015, completion: 0.002 };
const tokens = (prompt_tokens: number, completion_tokens = 0): Tokens => ({
  prompt_tokens,
  completion_tokens,
});
const budget = (limits: Partial<Budget>): Budget => ({ tokens: null, cost: null, prices: null, ...limits });

describe('a budget', () => {
  it('of tokens holds up to its last token, prompts and completions together', () => {
    expect(passed(budget({ tokens: 100 }), tokens(60, 40))).toBeNull();
    expect(passed(budget({ tokens: 100 }), tokens(60, 41))).toBe('tokens');
  });

  it('of money holds up to what the summary would show', () => {
    const money = budget({ cost: 0.035, prices: PRICES });
    expect(passed(money, tokens(10_000, 10_000))).toBeNull();
    expect(passed(money, tokens(10_000, 10_001))).toBe('cost');
  });

  it('of both is the one that is passed first', () => {
    const both = budget({ tokens: 100, cost: 1, prices: { prompt: 100, completion: 1 } });
    expect(passed(both, tokens(10, 90))).toBe('cost');
    expect(passed(both, tokens(0, 101))).toBe('tokens');
    expect(passed(both, tokens(5, 95))).toBeNull();
  });

  it('with neither holds for ever', () => {
    expect(passed(budget({ prices: PRICES }), tokens(1e12, 1e12))).toBeNull();
  });
});

describe('the most that a prompt can be billed', () => {
  it.each([
    [{ max_tokens: 5 }, 5],
    [{}, 16],
    [{ max_tokens: null }, 16],
    [{ max_tokens: 0 }, 0],
    [{ max_tokens: 5, best_of: 3 }, 15],
    [{ best_of: 2 }, 32],
    [{ n: 3 }, 48],
    [{ max_tokens: 5, n: 2, best_of: 4 }, 20],
  ])('with %o is its own tokens and %i of the completion', (parameters, completion) => {
    expect(mostBilled(40, parameters)).toEqual(tokens(40, completion));
  });
});

describe('tokens under a budget of endpoints with different prices', () => {
  const byEndpoint = { west: { prompt: 1, cached: 0.5, completion: 4 }, east: { prompt: 10, completion: 2 } };
  const money = budget({ cost: 1, prices: { prompt: 10, completion: 4 }, byEndpoint });

  it('count by the price of the endpoint, as a share of the highest, rounded up', () => {
    expect(atPrice(tokens(100, 10), undefined, money, 'west')).toEqual(tokens(10, 10));
    expect(atPrice(tokens(100, 10), undefined, money, 'east')).toEqual(tokens(100, 5));
    expect(atPrice(tokens(101, 1), undefined, money, 'east')).toEqual(tokens(101, 1));
    expect(atPrice({ ...tokens(100), cached_tokens: 40 }, undefined, money, 'west')).toEqual(tokens(8));
  });

  it('count in full at an endpoint that is not known, and where the budget has tokens', () => {
    expect(atPrice(tokens(100, 10), undefined, money, 'north')).toEqual(tokens(100, 10));
    expect(atPrice(tokens(100, 10), undefined, { ...money, tokens: 1_000 }, 'west')).toEqual(tokens(100, 10));
    expect(atPrice(tokens(100, 10), undefined, null, 'west')).toEqual(tokens(100, 10));
  });

  it('count nothing where they cost nothing, also without end', () => {
    const free = { ...money, byEndpoint: { west: { prompt: 0, completion: 0 } } };
    expect(atPrice(tokens(100, Number.POSITIVE_INFINITY), undefined, free, 'west')).toEqual(tokens(0, 0));
  });

  it('cost at the highest prices no less than at their own', () => {
    const figure = fc.nat(100_000).map((thousandths) => thousandths / 1_000);
    const each = fc.record({ prompt: figure, completion: figure });
    const count = fc.nat(1_000_000);
    fc.assert(
      fc.property(each, each, count, count, (west, east, prompt, completion) => {
        const prices = {
          prompt: Math.max(west.prompt, east.prompt),
          completion: Math.max(west.completion, east.completion),
        };
        const counted = atPrice(
          tokens(prompt, completion),
          undefined,
          { ...money, prices, byEndpoint: { west, east } },
          'west',
        );
        const paid = (prompt * west.prompt + completion * west.completion) / 1_000;
        const seen =
          (counted.prompt_tokens * prices.prompt + counted.completion_tokens * prices.completion) / 1_000;
        expect(seen).toBeGreaterThanOrEqual(paid * (1 - 1e-9));
        expect(seen).toBeLessThanOrEqual((paid + (prices.prompt + prices.completion) / 1_000) * (1 + 1e-9));
      }),
    );
  });
});

describe('tokens of a batch under a budget', () => {
  const prices = { prompt: 1, completion: 2, batch: 0.4 };
  it.each([
    ['of money count by the price of the tier, rounded up', { cost: 1, prices }, tokens(41, 5)],
    ['of tokens count in full', { tokens: 1_000, prices }, tokens(101, 11)],
    ['of both count in full', { tokens: 1_000, cost: 1, prices }, tokens(101, 11)],
    [
      'of money count half where the tier has no price of its own',
      { cost: 1, prices: PRICES },
      tokens(51, 6),
    ],
  ])('%s', (_, limits, counted) => {
    expect(atPrice(tokens(101, 11), 'batch', budget(limits), '')).toEqual(counted);
  });
});

describe('a budget as the ledger keeps it', () => {
  it('holds exactly the sums that are within it, beside what batches may be billed', () => {
    const money = fc.integer({ min: 1, max: 20_000 }).map((millionths) => millionths / 1e6);
    const limit = fc.record({
      tokens: fc.option(fc.nat(5_000)),
      cost: fc.option(money),
      prices: fc.constantFrom(PRICES, { prompt: 1, completion: 3 }, { prompt: 0.1, completion: 0.7 }),
    });
    const sum = fc.record({ prompt_tokens: fc.nat(5_000), completion_tokens: fc.nat(5_000) });
    const property = fc.property(limit, sum, sum, (limits, spent, batches) => {
      const { tokens, cost, promptPrice, completionPrice } = boundsOf({ ...limits, batches });
      const { prompt_tokens, completion_tokens } = spent;
      const fits =
        prompt_tokens + completion_tokens <= tokens &&
        prompt_tokens * promptPrice + completion_tokens * completionPrice <= cost;
      expect(fits).toBe(passed(limits, plus(spent, batches)) === null);
    });
    fc.assert(property, { numRuns: 1_000 });
  });
});

describe('what a person reads of a budget', () => {
  it('names the limit, what is spent, what the next call could take, and what to do', () => {
    expect(budgetProblem(budget({ tokens: 50_000 }), tokens(40_000, 9_310), tokens(700, 112))).toEqual({
      code: 'budget',
      message:
        'limits.budget.tokens is 50,000, of which 49,310 is spent, and the next call could take 812. ' +
        'Raise limits.budget.tokens in the job file, and the same command goes on.',
    });
    const money = budget({ cost: 25, tokens: 1e9, prices: PRICES });
    expect(budgetProblem(money, tokens(10_000_000, 4_999_000), tokens(1_000, 1_000)).message).toBe(
      'limits.budget.cost is 25.00, of which 24.998 is spent, and the next call could take 0.0035. ' +
        'Raise limits.budget.cost in the job file, and the same command goes on.',
    );
  });

  it('shows how much of each limit is spent', () => {
    const spent = tokens(100_000, 20_000);
    expect(spentText(budget({ tokens: 2_000_000 }), spent)).toBe('120,000 of 2,000,000 tokens');
    expect(spentText(budget({ tokens: 2_000_000, cost: 25, prices: PRICES }), spent)).toBe(
      '120,000 of 2,000,000 tokens and cost 0.19 of 25.00',
    );
  });
});
