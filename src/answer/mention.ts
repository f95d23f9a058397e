/** Interprets the words around a mention. Patterns see a bounded part of the text only (fault 69). */

export interface Mention {
  readonly start: number;
  readonly end: number;
}

/** With this many different answers a text is ambiguous, and messages list no more. */
export const ENOUGH = 5;

/** The first mention of each answer that is not negated, at most {@link ENOUGH}. */
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

/** Characters searched for a negation before a mention. */
const NEAR = 80;

/**
 * Whether a negation precedes a place, up to two words away: "not a very positive".
 * @param from where it may begin. @default 0
 */
export type Negation = (text: string, start: number, from?: number) => boolean;

/** @param isAnswer words that are answers themselves negate nothing */
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
/** Such as "Sentiment:". */
const CAPTION = /^[^\n:]{0,40}:/;
const LINE_ENDS = /^[^\p{L}\p{N}\n,/|]*(?:\n|$)/u;
const EXPLANATION = /^[^\p{L}\p{N}\s,/|]*(?:[.!;]|\s*[-–—](?=\s*\p{L})|\s+(?:because|since|as)\b)/u;

const FOLLOWING = 1_000;

export const withoutCaption = (text: string): string => text.slice(CAPTION.exec(text)?.[0].length ?? 0);

/** Only a caption precedes it. */
export const isFirst = (text: string, { start }: Mention): boolean =>
  !WORD.test(withoutCaption(text.slice(0, start)));

export const endsLine = (text: string, { end }: Mention): boolean =>
  LINE_ENDS.test(text.slice(end, end + FOLLOWING));

/** An explanation with the next mention follows. "Positive. Negative." explains nothing. */
export const isExplained = (text: string, { end }: Mention, next: Mention): boolean =>
  EXPLANATION.test(text.slice(end, end + FOLLOWING)) && LETTER.test(text.slice(end, next.start));
