import type { Parameters, Prompt } from '../core/model.js';
import { DEFAULT_MAX_TOKENS, listedLogprobs } from './parameters.js';

/** Bytes of a response that are read; a longer one is cut off, billed, and asked again. */
export const LARGEST_ANSWER = 16 * 1024 * 1024;

/** A choice without its text, in bytes, roughly: index, finish reason, filter results. */
const CHOICE = 1024;
/** The text of a token, in bytes: some servers escape every non-ASCII character. */
const TOKEN = 12;
/** Each listed alternative of a token, and the token itself, in bytes. */
const LISTED = 150;
const PROMPT_TOKEN = 3;

/** Upper bound, roughly, of the response bytes for one prompt. */
export function answerBytes(parameters: Parameters, prompt: Prompt): number {
  const { n, max_tokens, echo } = parameters;
  const logprobs = listedLogprobs(parameters);
  const echoed = echo ? Math.ceil(prompt.length / PROMPT_TOKEN) : 0;
  const listed = logprobs === null ? 0 : LISTED * (1 + logprobs);
  const tokens = (max_tokens ?? DEFAULT_MAX_TOKENS) + echoed;
  return (n ?? 1) * (CHOICE + tokens * (TOKEN + listed));
}
