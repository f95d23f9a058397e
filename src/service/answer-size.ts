import type { Parameters } from '../model.js';
import { DEFAULT_MAX_TOKENS } from './parameters.js';

/** Bytes of an answer that are read; a longer one is paid for, cut off, and asked again. */
export const LARGEST_ANSWER = 16 * 1024 * 1024;

/** A choice without its text, about, in bytes: its index, why it ended, and what the filter says of it. */
const CHOICE = 1024;
/** The text of a token, in bytes: some servers escape each character that is not ASCII. */
const TOKEN = 12;
/** Each alternative of a token where log probabilities are listed, and the token itself. */
const LISTED = 150;
/** Least characters that a token of a prompt stands for. */
const PROMPT_TOKEN = 3;

/** Bytes of an answer that the choices for one prompt take at most, about. @param parameters those of the request */
export function answerBytes({ n, max_tokens, logprobs, echo }: Parameters, prompt: string): number {
  const echoed = echo ? Math.ceil(prompt.length / PROMPT_TOKEN) : 0;
  const listed = typeof logprobs === 'number' ? LISTED * (1 + logprobs) : 0;
  const tokens = (max_tokens ?? DEFAULT_MAX_TOKENS) + echoed;
  return (n ?? 1) * (CHOICE + tokens * (TOKEN + listed));
}
