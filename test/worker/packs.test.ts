import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Parameters } from '../../src/core/model.js';
import { answerBytes, LARGEST_ANSWER } from '../../src/service/answer-size.js';
import { shareUsage } from '../../src/worker/row-usage.js';
import { packs } from '../../src/worker/visit.js';

describe('rows that share a request', () => {
  const row = (number: number, max_tokens: number | null = null) => ({
    row: number,
    prompt: `prompt ${number}`,
    parameters: max_tokens === null ? null : { max_tokens },
  });

  it('are as many as a request may hold, in input order', () => {
    const rows = [1, 2, 3, 4, 5].map((number) => row(number));
    expect(packs(rows, 2, {}).map((pack) => pack.map((each) => each.row))).toEqual([[1, 2], [3, 4], [5]]);
    expect(packs(rows, 1, {}).length).toBe(5);
  });

  it('have equal parameters', () => {
    const rows = [row(1, 5), row(2), row(3, 5), row(4, 9), row(5)];
    expect(packs(rows, 10, {}).map((pack) => pack.map((each) => each.row))).toEqual([[1, 3], [2, 5], [4]]);
  });
});

describe('the answer to rows that share a request', () => {
  const rows = Array.from({ length: 2_048 }, (_, i) => ({
    row: i + 1,
    prompt: 'a prompt of forty characters, or nearly',
    parameters: null,
  }));
  const sizes = (parameters: Parameters): readonly number[] =>
    packs(rows, 2_048, parameters).map((pack) => pack.length);

  it('has room for all of them as jobs have it', () => {
    expect(sizes({})).toEqual([2_048]);
    expect(sizes({ max_tokens: 500 })).toEqual([2_048]);
    expect(sizes({ max_tokens: 5, n: 7 })).toEqual([2_048]);
  });

  it.each<[string, Parameters]>([
    ['votes', { max_tokens: 5, n: 128 }],
    ['long texts', { max_tokens: 4_000 }],
    ['log probabilities', { max_tokens: 100, logprobs: 5 }],
    ['prompts that are repeated with log probabilities', { max_tokens: 1, echo: true, logprobs: 5 }],
  ])('is never larger than what is read of one, for all their %s', (_, parameters) => {
    const each = answerBytes(parameters, rows[0]?.prompt ?? '');
    expect(each * 2_048).toBeGreaterThan(LARGEST_ANSWER);
    expect(Math.max(...sizes(parameters)) * each).toBeLessThanOrEqual(LARGEST_ANSWER);
    expect(sizes(parameters).reduce((sum, size) => sum + size, 0)).toBe(2_048);
  });

  it('is asked for all the same where that of one row is too large', () => {
    expect(sizes({ max_tokens: 2_000_000 })).toHaveLength(2_048);
  });
});

describe('the usage of a shared request', () => {
  it('is shared out by the tokens of each row, and marked as estimated', () => {
    const own = [
      { prompt: 10, completion: 0 },
      { prompt: 30, completion: 5 },
    ];
    expect(shareUsage({ prompt_tokens: 44, completion_tokens: 5, total_tokens: 49 }, own)).toEqual([
      { prompt_tokens: 11, completion_tokens: 0, total_tokens: 11, estimated: true },
      { prompt_tokens: 33, completion_tokens: 5, total_tokens: 38, estimated: true },
    ]);
  });

  it('adds up to what was billed, whatever the rows count themselves', () => {
    const tokens = fc.nat({ max: 5_000 });
    const rows = fc.array(fc.record({ prompt: tokens, completion: tokens }), { minLength: 1, maxLength: 50 });
    fc.assert(
      fc.property(fc.nat(100_000), fc.nat(100_000), rows, (prompt_tokens, completion_tokens, own) => {
        const total_tokens = prompt_tokens + completion_tokens;
        const shares = shareUsage({ prompt_tokens, completion_tokens, total_tokens }, own);
        const sum = (name: 'prompt_tokens' | 'completion_tokens' | 'total_tokens') =>
          shares.reduce((all, share) => all + share[name], 0);
        expect([sum('prompt_tokens'), sum('completion_tokens'), sum('total_tokens')]).toEqual([
          prompt_tokens,
          completion_tokens,
          total_tokens,
        ]);
        expect(shares.every((share) => share.prompt_tokens >= 0 && share.completion_tokens >= 0)).toBe(true);
      }),
      { seed: 3 },
    );
  });
});
