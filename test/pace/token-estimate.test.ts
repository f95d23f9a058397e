import { describe, expect, it } from 'vitest';
import { TokenEstimator } from '../../src/pace/usage.js';

const PROMPT = 'Classify the review: the strap is short.'; // 40 characters, about 10 tokens

describe('the estimate of a request', () => {
  it('full: is prompt + max_tokens × candidates, for every prompt of it', () => {
    const estimate = new TokenEstimator('full');
    expect(estimate.reserve([PROMPT], { max_tokens: 100 }).tokens).toBe(110);
    expect(estimate.reserve([PROMPT], { max_tokens: 100, best_of: 3 }).tokens).toBe(310);
    expect(estimate.reserve([PROMPT], { max_tokens: 100, n: 5 }).tokens).toBe(510);
    expect(estimate.reserve([PROMPT, PROMPT], { max_tokens: 100 }).tokens).toBe(220);
    expect(estimate.reserve([PROMPT], {}).tokens).toBe(26);
  });

  it('full: settles the prompt by its real count, and never what was generated', () => {
    const estimate = new TokenEstimator('full');
    const reserved = estimate.reserve([PROMPT], { max_tokens: 100 });
    expect(estimate.settle(reserved, { prompt_tokens: 13, completion_tokens: 5 })).toBe(3);
  });

  it('learned: a max_tokens of 1,000 with answers of 5 ends up near 5', () => {
    const estimate = new TokenEstimator('learned');
    const first = estimate.reserve([PROMPT], { max_tokens: 1_000 });
    expect(first.tokens).toBe(1_010);
    expect(estimate.settle(first, { prompt_tokens: 10, completion_tokens: 5 })).toBe(-995);
    expect(estimate.reserve([PROMPT], { max_tokens: 1_000 }).tokens).toBe(15);
  });

  it('learned: follows answers that grow longer', () => {
    const estimate = new TokenEstimator('learned');
    for (const completion_tokens of [...Array(50).fill(5), ...Array(100).fill(400)]) {
      const reserved = estimate.reserve([PROMPT], { max_tokens: 1_000 });
      estimate.settle(reserved, { prompt_tokens: 10, completion_tokens });
    }
    expect(estimate.reserve([PROMPT], { max_tokens: 1_000 }).tokens).toBeGreaterThan(390);
  });

  it.each(['full', 'learned'] as const)(
    '%s: learns how many tokens the characters of its prompts are',
    (basis) => {
      const estimate = new TokenEstimator(basis);
      for (let i = 0; i < 200; i++) {
        const reserved = estimate.reserve([PROMPT], { max_tokens: 0 });
        estimate.settle(reserved, { prompt_tokens: 30, completion_tokens: 0 });
      }
      expect(estimate.reserve([PROMPT + PROMPT], { max_tokens: 0 }).tokens).toBeCloseTo(60, 0);
    },
  );
});
