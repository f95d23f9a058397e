import type { Completion } from '../core/model.js';

/** Log probabilities, or the other choices' votes, give the confidence. */
export type ReadFrom = Pick<
  Completion,
  'text' | 'finish_reason' | 'refusal' | 'logprobs' | 'damaged' | 'others'
>;

/** The service often sends white space around a text. */
export function cleaned(text: string | null): string | null {
  return text === null ? null : text.trim();
}

export function excerpt(text: string | null): string {
  const whole = cleaned(text) ?? '';
  if (whole === '') return 'the empty text';
  return `the text ${JSON.stringify(whole.length > 60 ? `${whole.slice(0, 60)}…` : whole)}`;
}

/** Shortened: there may be 20,000 labels, and a message for each row. */
export function listed(words: readonly string[]): string {
  const more = words.length - MOST_LISTED;
  if (more <= 1) return words.join(', ');
  return `${words.slice(0, MOST_LISTED).join(', ')} and ${more} more`;
}

const MOST_LISTED = 10;

/**
 * NFC. Sorting a run of combining marks is quadratic (1 MB: ten minutes), so runs are cut after 30, as in the
 * Stream-Safe Text Format (UAX #15, D4).
 */
export const composed = (text: string): string =>
  text.replace(/\p{M}{30}(?=\p{M})/gu, '$&\u034f').normalize('NFC');

export function fits(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}
