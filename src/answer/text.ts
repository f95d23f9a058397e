import type { Completion } from '../model.js';

/**
 * What an answer is read out of. Log probabilities, or the votes of the other choices, tell how sure the model is; the rest,
 * whether the text was cut.
 */
export type ReadFrom = Pick<Completion, 'text' | 'finish_reason' | 'logprobs' | 'damaged' | 'others'>;

/** The text of a completion without the white space around it, which the service often sends. */
export function cleaned(text: string | null): string | null {
  return text === null ? null : text.trim();
}

/** The beginning of a text, for a message about it. */
export function excerpt(text: string | null): string {
  const whole = cleaned(text) ?? '';
  if (whole === '') return 'the empty text';
  return `the text ${JSON.stringify(whole.length > 60 ? `${whole.slice(0, 60)}…` : whole)}`;
}

/** Words for a message, which may be about each of many rows: not all of 20,000. */
export function listed(words: readonly string[]): string {
  const more = words.length - MOST_LISTED;
  if (more <= 1) return words.join(', ');
  return `${words.slice(0, MOST_LISTED).join(', ')} and ${more} more`;
}

const MOST_LISTED = 10;

/**
 * A text in NFC. Sorting a run of many combining marks takes time with its square (1 MB: ten minutes), so a run is cut after
 * 30 of them, as the Stream-Safe Text Format of Unicode (UAX #15, D4) does.
 */
export const composed = (text: string): string =>
  text.replace(/\p{M}{30}(?=\p{M})/gu, '$&\u034f').normalize('NFC');

/** Whether a sticky pattern matches at a place of a text. */
export function fits(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}
