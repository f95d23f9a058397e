import type { Fault } from '../model.js';
import { DEFAULT_MAX_TOKENS } from '../service/parameters.js';
import type { Tokenizer } from './tokens.js';

/** Bytes of the longest token of cl100k_base (128 spaces) and of p50k_base. */
const LONGEST_TOKEN = 128;
/** Characters for each token of room of which a prefix is counted before the whole; English has some 4. */
const PREFIX = 8;
/** Tokens that a cut through a token or a character may add. */
const CUT = 4;

/**
 * About how many tokens a text has, for pacing only; the real usage settles it. Four characters of English are about
 * one token; each byte that a character has beyond the first adds a third of one, which is close for European
 * accents, Cyrillic and CJK alike.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(text.length / 4 + (Buffer.byteLength(text) - text.length) / 3);
}

/**
 * Checks prompts against the context window of a model. A prompt is refused only when it surely does not fit; the
 * service's own refusal of another costs nothing.
 *
 * Most prompts are decided by their size in bytes: no token is shorter than one, none longer than
 * {@link LONGEST_TOKEN}. Only between the two bounds are tokens counted, and of a long text first a prefix, so that a
 * cell of 10 MB costs no more than a short one (fault 7). Where no prompt is between them, no tokenizer is loaded.
 *
 * @param contextWindow tokens of prompt and completion together
 * @param tokenizer asked for when a prompt has to be counted
 * @returns for a prompt and its `max_tokens`: `context_length_exceeded`, or `null` when the prompt may fit
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

/** A number of tokens that the text has at least, when it has surely more than `room`; else `null`. */
function tokensAbove(text: string, room: number, tokenizer: () => Pick<Tokenizer, 'count'>): number | null {
  const bytes = Buffer.byteLength(text);
  if (bytes <= room) return null;
  const least = Math.ceil(bytes / LONGEST_TOKEN);
  if (least > room) return least;
  const { count } = tokenizer();
  if (text.length > PREFIX * room) {
    // Before a space both tokenizers begin a new token.
    const space = text.lastIndexOf(' ', PREFIX * room);
    const counted = count(text.slice(0, space > 0 ? space : PREFIX * room)) - CUT;
    if (counted > room) return counted;
  }
  const counted = count(text);
  return counted > room ? counted : null;
}
