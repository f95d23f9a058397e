import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  admitted,
  type Budget,
  budgetFault,
  mostBilled,
  passed,
  plus,
  spentText,
  type Tokens,
} from '../../src/budget/budget.js';
import { costOf } from '../../src/report/summary.js';

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
  ])('with %o is its own tokens and %i of the completion', (parameters, completion) => {
    expect(mostBilled(40, parameters)).toEqual(tokens(40, completion));
  });
});

describe('requests that ask for a budget', () => {
  it('are admitted in their order, and a small one takes the room that a large one leaves', () => {
    const asked = [tokens(30), tokens(50), tokens(20), tokens(1)];
    expect(admitted(budget({ tokens: 150 }), tokens(100), asked)).toEqual([true, false, true, false]);
  });

  it('never pass it together, and nobody is sent away who would have fitted', () => {
    const amount = fc.record({ prompt_tokens: fc.nat(500), completion_tokens: fc.nat(500) });
    const limit = fc.record({
      tokens: fc.option(fc.nat(5_000)),
      cost: fc.option(fc.double({ min: 0, max: 0.01, noNaN: true })),
      prices: fc.constant(PRICES),
    });
    const property = fc.property(limit, amount, fc.array(amount), (limits, before, asked) => {
      const verdicts = admitted(limits, before, asked);
      const sum = asked.filter((_, i) => verdicts[i]).reduce(plus, before);
      if (verdicts.includes(true)) {
        if (limits.tokens !== null)
          expect(sum.prompt_tokens + sum.completion_tokens).toBeLessThanOrEqual(limits.tokens);
        if (limits.cost !== null) expect(costOf(sum, PRICES)).toBeLessThanOrEqual(limits.cost);
      }
      for (const refused of asked.filter((_, i) => !verdicts[i]))
        expect(passed(limits, plus(sum, refused))).not.toBeNull();
    });
    fc.assert(property);
  });
});

describe('what a person reads of a budget', () => {
  it('names the limit, what is spent, what the next call could take, and what to do', () => {
    expect(budgetFault(budget({ tokens: 50_000 }), tokens(40_000, 9_310), tokens(700, 112))).toEqual({
      code: 'budget',
      message:
        'limits.budget.tokens is 50,000, of which 49,310 is spent, and the next call could take 812. ' +
        'Raise limits.budget.tokens in the job file, and the same command goes on.',
    });
    const money = budget({ cost: 25, tokens: 1e9, prices: PRICES });
    expect(budgetFault(money, tokens(10_000_000, 4_999_000), tokens(1_000, 1_000)).message).toBe(
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
