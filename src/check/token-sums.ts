/** Tokens before they are used: those of the prompts exactly, those of the completions at most. */
export interface TokenSums {
  readonly prompt_tokens: number;
  /** `max_tokens` × `best_of` of each row: every answer as long as it may be, and every candidate billed. */
  readonly most_completion_tokens: number;
}

export const NO_TOKENS: TokenSums = { prompt_tokens: 0, most_completion_tokens: 0 };

export function added(a: TokenSums, b: TokenSums): TokenSums {
  return {
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    most_completion_tokens: a.most_completion_tokens + b.most_completion_tokens,
  };
}
