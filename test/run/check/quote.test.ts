import { describe, expect, it } from 'vitest';
import { assumed, type Quote, type QuoteLimits, quote } from '../../../src/run/check/quote.js';

const NO_LIMITS: QuoteLimits = {
  concurrency: 10,
  requestsPerMinute: null,
  tokensPerMinute: null,
  deadlineMs: null,
  budget: { tokens: null, cost: null },
};
const TOKENS = { prompt_tokens: 60_000, most_completion_tokens: 6_000 };
const PRICES = { prompt: 0.0015, completion: 0.002 };

const quoted = (limits: Partial<QuoteLimits>, prices: typeof PRICES | null = null, requests = 600): Quote =>
  quote(TOKENS, requests, { ...NO_LIMITS, ...limits }, prices);

describe('tokens and money', () => {
  it('are a range from no answer at all to every answer as long as it may be', () => {
    const { completion_tokens, total_tokens, cost } = quoted({}, PRICES);
    expect(completion_tokens).toEqual({ least: 0, most: 6_000 });
    expect(total_tokens).toEqual({ least: 60_000, most: 66_000 });
    expect(cost).toEqual({ least: 0.09, most: 0.102 });
  });

  it('are a wider range where the tokenizer is assumed, and the time goes by the count', () => {
    const limits = { ...NO_LIMITS, tokensPerMinute: 11_000, budget: { tokens: 50_000, cost: null } };
    const { total_tokens, cost, budget, time } = quote(TOKENS, 600, limits, PRICES, assumed(0));
    expect(total_tokens).toEqual({ least: 45_000, most: 96_000 });
    expect(cost).toEqual({ least: 0.0675, most: 0.147 });
    expect(budget).toMatchObject([{ verdict: 'depends' }]);
    expect(time).toMatchObject({ seconds: 360 });
  });

  it('are a still wider range for scripts in which tokenizers differ most', () => {
    expect(assumed(1)).toEqual({ least: 0.75 - 0.45, most: 2.25 });
  });

  it('are the range over all endpoints, of which any may take every row', () => {
    const dear = { prompt: 0.003, completion: 0.004 };
    const over = (...routes: readonly (typeof PRICES | null)[]) =>
      quote(TOKENS, 600, NO_LIMITS, PRICES, undefined, routes).cost;
    expect(over(PRICES, dear)).toEqual({ least: 0.09, most: 0.204 });
    expect(over(PRICES, null)).toBe(null);
  });

  it('no money is quoted without prices', () => {
    expect(quoted({}).cost).toBe(null);
  });
});

describe('time', () => {
  it('is not quoted without a quota', () => {
    expect(quoted({}).time).toBe(null);
  });

  it('is not quoted for nothing to send', () => {
    expect(quoted({ requestsPerMinute: 10, deadlineMs: 1_000 }, null, 0)).toMatchObject({
      time: null,
      deadline: null,
    });
  });

  it('follows from the quota of requests', () => {
    expect(quoted({ requestsPerMinute: 300 }).time).toEqual({
      seconds: 120,
      limit: 'requests_per_minute',
      // 5 requests a second, 10 in flight.
      call_seconds: 2,
    });
  });

  it('follows from the quota of tokens, which counts every answer as long as it may be', () => {
    expect(quoted({ tokensPerMinute: 11_000 }).time).toMatchObject({
      seconds: 360,
      limit: 'tokens_per_minute',
      call_seconds: 6,
    });
  });

  it('is that of the tighter of the two', () => {
    const both = { requestsPerMinute: 300, tokensPerMinute: 11_000 };
    expect(quoted(both).time).toMatchObject({ seconds: 360, limit: 'tokens_per_minute' });
    expect(quoted({ ...both, tokensPerMinute: 66_000 }).time).toMatchObject({
      seconds: 120,
      limit: 'requests_per_minute',
    });
  });
});

describe('the deadline', () => {
  it('is not there when the job has none', () => {
    expect(quoted({ requestsPerMinute: 300 }).deadline).toBe(null);
  });

  it('holds when the quota lets the run end by then', () => {
    expect(quoted({ requestsPerMinute: 300, deadlineMs: 120_000 }).deadline).toEqual({
      seconds: 120,
      verdict: 'holds',
      call_seconds: 2,
    });
  });

  it('does not hold when the quota is too small', () => {
    expect(quoted({ requestsPerMinute: 300, deadlineMs: 119_000 }).deadline?.verdict).toBe('does_not_hold');
  });

  it('depends on the service alone without a quota; the time of a call that is needed is known', () => {
    expect(quoted({ deadlineMs: 60_000 }).deadline).toEqual({
      seconds: 60,
      verdict: 'unknown',
      call_seconds: 1,
    });
  });
});

describe('the budget', () => {
  it.each([
    [66_000, 'inside'],
    [65_999, 'depends'],
    [60_000, 'depends'],
    [59_999, 'exceeded'],
  ])('of %i tokens is %s', (tokens, verdict) => {
    expect(quoted({ budget: { tokens, cost: null } }).budget).toEqual([
      { limit: 'tokens', budget: tokens, verdict },
    ]);
  });

  it.each([
    [0.102, 'inside'],
    [0.1, 'depends'],
    [0.08, 'exceeded'],
  ])('of %d in money is %s', (cost, verdict) => {
    expect(quoted({ budget: { tokens: null, cost } }, PRICES).budget).toEqual([
      { limit: 'cost', budget: cost, verdict },
    ]);
  });
});
