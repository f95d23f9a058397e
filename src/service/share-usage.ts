import type { Usage } from '../model.js';

/** What one row of a shared request has itself, in tokens of its own count. */
export interface OwnTokens {
  readonly prompt: number;
  readonly completion: number;
}

/**
 * Shares the usage of one request out to its rows, in proportion to the tokens they count themselves. The shares
 * are whole numbers and add up to what was billed.
 */
export function shareUsage(billed: Usage, own: readonly OwnTokens[]): Usage[] {
  const prompts = shares(
    billed.prompt_tokens,
    own.map(({ prompt }) => prompt),
  );
  const completions = shares(
    billed.completion_tokens,
    own.map(({ completion }) => completion),
  );
  return own.map((_, i) => {
    const prompt_tokens = prompts[i] ?? 0;
    const completion_tokens = completions[i] ?? 0;
    return {
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      estimated: true,
    };
  });
}

/** Whole shares of a total by weight: each row gets what lies between its marks on the line from 0 to the total. */
function shares(total: number, weights: readonly number[]): number[] {
  const sum = weights.reduce((a, b) => a + b, 0);
  let passed = 0;
  let given = 0;
  return weights.map((weight, i) => {
    passed += sum > 0 ? weight / sum : 1 / weights.length;
    const mark = i === weights.length - 1 ? total : Math.round(total * passed);
    const share = mark - given;
    given = mark;
    return share;
  });
}
