/**
 * What the words around a mention make of it. Patterns meet a bounded part of the text only (fault 69).
 */

/** A place of a text that may be its answer. */
export interface Mention {
  readonly start: number;
  readonly end: number;
}

/** Different answers after which nothing can make a text name one of them alone, and no more are told in a message. */
export const ENOUGH = 5;

/**
 * The first mention of each answer that a text does not negate, at most `ENOUGH`.
 * @param answerOf what a mention stands for, to be compared
 */
export function distinct<One extends Mention>(
  text: string,
  mentions: Iterable<One>,
  answerOf: (mention: One) => number | string,
  negated: Negation,
): readonly One[] {
  const found = new Map<number | string, One>();
  for (const mention of mentions) {
    const answer = answerOf(mention);
    if (found.has(answer) || negated(text, mention.start)) continue;
    found.set(answer, mention);
    if (found.size === ENOUGH) break;
  }
  return [...found.values()];
}

/** Characters before a mention in which a negation is looked for. */
const NEAR = 80;

/**
 * Whether a negation stands before a place of a text, up to two words away: "not a very positive".
 * @param from where it may begin. @default 0
 */
export type Negation = (text: string, start: number, from?: number) => boolean;

/** @param isAnswer tells words that are answers themselves, and so negate nothing */
export function negationBefore(isAnswer: (word: string) => boolean): Negation {
  const words = ['not', 'no', 'non', 'never', 'neither', 'nor', 'without'].filter((word) => !isAnswer(word));
  const negation = new RegExp(
    `(?:(?<![\\p{L}\\p{N}])(?:${words.join('|')})|n['’]t)(?:[\\s_-]+\\p{L}+){0,2}[\\s_*"'“‘-]*$`,
    'iu',
  );
  return (text, start, from = 0) => negation.test(text.slice(Math.max(from, start - NEAR), start));
}

const LETTER = /\p{L}/u;
const WORD = /[\p{L}\p{N}]/u;
/** A caption such as "Sentiment:". */
const CAPTION = /^[^\n:]{0,40}:/;
const LINE_ENDS = /^[^\p{L}\p{N}\n,/|]*(?:\n|$)/u;
const EXPLANATION = /^[^\p{L}\p{N}\s,/|]*(?:[.!;]|\s*[-–—](?=\s*\p{L})|\s+(?:because|since|as)\b)/u;

/** Characters behind a mention that are read for what they make of it. */
const FOLLOWING = 1_000;

/** A text without the caption that it begins with. */
export const withoutCaption = (text: string): string => text.slice(CAPTION.exec(text)?.[0].length ?? 0);

/** Whether nothing but a caption comes before a mention. */
export const isFirst = (text: string, { start }: Mention): boolean =>
  !WORD.test(withoutCaption(text.slice(0, start)));

/** Whether the line ends behind a mention. */
export const endsLine = (text: string, { end }: Mention): boolean =>
  LINE_ENDS.test(text.slice(end, end + FOLLOWING));

/** Whether an explanation follows a mention, in which the next one stands. "Positive. Negative." explains nothing. */
export const isExplained = (text: string, { end }: Mention, next: Mention): boolean =>
  EXPLANATION.test(text.slice(end, end + FOLLOWING)) && LETTER.test(text.slice(end, next.start));
