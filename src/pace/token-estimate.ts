import type { Parameters } from '../model.js';
import { estimateTokens } from '../prompt/context.js';

/** What the service generates at most when a request does not say. */
const DEFAULT_MAX_TOKENS = 16;
/** Weight of the latest call in the moving averages. */
const WEIGHT = 0.05;

/** What the service goes by when it admits a request; see {@link TokenEstimate}. */
export type TokenBasis = 'full' | 'learned';

/** What one request is reckoned to take. */
export interface Reserved {
  /** Tokens in all. */
  readonly tokens: number;
  /** The part of the prompts before anything was learned. */
  readonly raw: number;
  /** Most tokens that may be generated. */
  readonly most: number;
}

/**
 * Reckons the tokens of a request before it is made, and learns from what requests took.
 *
 * - `full`: prompts + `max_tokens` × `best_of`, which is what the hosted service admits a request on, whatever it
 *   generates later.
 * - `learned`: prompts + the moving average of what was generated, for a service that counts what it bills. A
 *   `max_tokens` of 1,000 with answers of 5 tokens then does not waste the quota.
 *
 * Prompts are reckoned by their characters and a moving ratio to the real count; counting them costs more than the
 * sum over a minute gains by it, because errors of single prompts even out and the real usage settles the rest.
 */
export class TokenEstimate {
  /** Real prompt tokens for each reckoned one. */
  #ratio = 1;
  /** Tokens generated for each that was allowed; null before the first answer. */
  #share: number | null = null;

  constructor(private readonly basis: TokenBasis) {}

  reserve(prompts: readonly string[], parameters: Parameters): Reserved {
    const raw = prompts.reduce((sum, prompt) => sum + estimateTokens(prompt), 0);
    const choices = Math.max(parameters.best_of ?? 1, parameters.n ?? 1);
    const most = (parameters.max_tokens ?? DEFAULT_MAX_TOKENS) * choices * prompts.length;
    const generated = this.basis === 'full' ? most : most * (this.#share ?? 1);
    return { tokens: raw * this.#ratio + generated, raw, most };
  }

  /**
   * Learns from an answer.
   * @returns tokens that the request took beyond what was reserved; negative when it took less
   */
  settle(
    reserved: Reserved,
    usage: { readonly prompt_tokens: number; readonly completion_tokens: number },
  ): number {
    if (reserved.raw > 0) this.#ratio += WEIGHT * (usage.prompt_tokens / reserved.raw - this.#ratio);
    if (reserved.most > 0) {
      const share = usage.completion_tokens / reserved.most;
      this.#share = this.#share === null ? share : this.#share + WEIGHT * (share - this.#share);
    }
    const completion = this.basis === 'full' ? reserved.most : usage.completion_tokens;
    return usage.prompt_tokens + completion - reserved.tokens;
  }
}
