import type { Fault } from '../model.js';
import { DEFAULT_MAX_TOKENS } from '../service/parameters.js';
import type { Tokenizer } from './tokens.js';

/** Bytes of the longest token of cl100k_base (128 spaces) and of p50k_base. */
const LONGEST_TOKEN = 128;
/** Characters per token of room in the prefix that is counted first; English has some 4 per token. */
const PREFIX = 8;
/** Tokens that a cut through a token or a character may add. */
const CUT = 4;

/**
 * Rough token count, for pacing only; the actual usage corrects it. Four English characters are about a
 * token. Each byte of a character beyond the first adds a third, which fits accents, Cyrillic and CJK alike.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(text.length / 4 + (Buffer.byteLength(text) - text.length) / 3);
}

/**
 * Refuses only prompts that certainly do not fit the window; the service refuses others at no cost.
 *
 * Size in bytes decides most prompts: a token has between 1 and {@link LONGEST_TOKEN} bytes. Only between
 * these bounds are tokens counted, and of a long text a prefix first, so that a cell of 10 MB costs no more
 * than a short one (fault 7).
 * @param contextWindow tokens of prompt and completion together
 * @param tokenizer loaded only when needed
 * @returns `context_length_exceeded`, or null when the prompt may fit
 */
export function contextCheck(
  contextWindow: number,
  tokenizer: () => Pick<Tokenizer, 'count'>,
): (prompt: string, maxTokens: number | null | undefined) => Fault | null {
  return (prompt, maxTokens) => {
    const generated = maxTokens ?? DEFAULT_MAX_TOKENS;
    const room = contextWindow - generated;
    const tokens = tokensAbove(prompt, room, tokenizer);
    if (tokens === null) return null;
    return {
      code: 'context_length_exceeded',
      message:
        `the prompt has at least ${tokens} tokens, and with max_tokens ${generated} does not fit the context ` +
        `window of ${contextWindow} tokens`,
    };
  };
}

/** A lower bound of the text's tokens, if certainly above `room`; else null. */
function tokensAbove(text: string, room: number, tokenizer: () => Pick<Tokenizer, 'count'>): number | null {
  const bytes = Buffer.byteLength(text);
  if (bytes <= room) return null;
  const least = Math.ceil(bytes / LONGEST_TOKEN);
  if (least > room) return least;
  const { count } = tokenizer();
  if (text.length > PREFIX * room) {
    // Both tokenizers start a new token at a space.
    const space = text.lastIndexOf(' ', PREFIX * room);
    const counted = count(text.slice(0, space > 0 ? space : PREFIX * room)) - CUT;
    if (counted > room) return counted;
  }
  const counted = count(text);
  return counted > room ? counted : null;
}
