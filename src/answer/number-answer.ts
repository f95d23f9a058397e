import type { AnswerSpec } from '../core/answer-spec.js';
import type { Answer } from '../core/model.js';
import { distinct, endsLine, isExplained, isFirst, type Mention, negationBefore } from './mention.js';
import { composed, excerpt, fits } from './text.js';

type Range = Pick<Extract<AnswerSpec, { kind: 'number' }>, 'min' | 'max' | 'integer'>;

interface Numeral extends Mention {
  /** "1,200" is 1200 to some and 1.2 to others. */
  readonly values: readonly number[];
}

const INVALID = 'invalid';

/**
 * Reads the number that a text names.
 *
 * - Any punctuation or markdown may surround a number, but no letter ("4th", "GPT-4", "5-star"), and no word
 *   such as "million". Negated numbers do not count.
 * - The scale is left out: `max` after the number ("4/5", "4 out of 5"), and `min` to `max` ("1-5", "1 to
 *   5").
 * - Of several different numbers the first counts when it stands alone on the first line, or begins the text
 *   and an explanation follows ("4 - it has 2 flaws"; not "1. It is good", which may be a list). Otherwise
 *   the text is ambiguous.
 * - Point and comma may separate thousands or decimals. If a number can be read both ways ("1,200", "1.200"),
 *   the range decides, or the text is ambiguous.
 *
 * Time is linear in the text (fault 69).
 */
export function numberReader(range: Range): (text: string | null) => Answer {
  const isWithin = (value: number): boolean => isInRange(value, range);
  const negated = negationBefore(() => false);

  return (text) => {
    const whole = composed(text ?? '');
    const invalid = (code: string, why: string): Answer => {
      const problem = { code, message: `${excerpt(text)} ${why}` };
      return { values: [null], counted: [INVALID], problem };
    };
    const named = distinct(whole, withoutScale(whole, range), ({ values }) => values.join(), negated);
    const [first, second] = named;
    if (first === undefined) return invalid('answer_not_a_number', 'has no number');
    if (second !== undefined && !decides(whole, first, second)) {
      const names = named.map(({ start, end }) => whole.slice(start, end)).join(', ');
      return invalid('answer_not_a_number', `has more than one number: ${names}`);
    }
    const [value, other] = first.values.filter(isWithin);
    if (value === undefined) {
      const numeral = whole.slice(first.start, first.end);
      return invalid('answer_out_of_range', `has ${numeral}, and not ${rangeText(range)}`);
    }
    if (other !== undefined) {
      return invalid('answer_not_a_number', `has a number that may be ${value} or ${other}`);
    }
    return { values: [value], counted: [String(value)], problem: null };
  };
}

const isInRange = (value: number, { min = -Infinity, max = Infinity, integer }: Range): boolean =>
  value >= min && value <= max && (!integer || Number.isInteger(value));

/** `a whole number from 1 to 5` */
export function rangeText({ min, max, integer }: Range): string {
  const kind = integer ? 'a whole number' : 'a number';
  if (min !== undefined && max !== undefined) return `${kind} from ${min} to ${max}`;
  if (min !== undefined) return `${kind} of at least ${min}`;
  return max === undefined ? kind : `${kind} of at most ${max}`;
}

const POINT = /[^\p{L}\p{N}\s]*[.)]/uy;

const decides = (text: string, first: Numeral, second: Numeral): boolean =>
  isFirst(text, first) &&
  (endsLine(text, first) || (isExplained(text, first, second) && !fits(POINT, text, first.end)));

const OUT_OF = /^[*_]*(?:\s*\/|(?:\s+\p{L}{1,12})?\s+(?:out\s+)?of)[\s*_]*$/iu;
const TO = /^\s*(?:[-–—]|to|through|and)\s*$/i;
const LONGEST_GAP = 40;

/** Skips numbers that only tell the scale. */
function* withoutScale(text: string, { min, max }: Range): Generator<Numeral> {
  let before: Numeral | null = null;
  for (const numeral of numerals(text)) {
    if (before !== null && numeral.values.includes(max ?? Number.NaN)) {
      const { values, end } = before;
      const gap = numeral.start - end > LONGEST_GAP ? '…' : text.slice(end, numeral.start);
      const isRange = values.includes(min ?? Number.NaN) && TO.test(gap);
      if (isRange || OUT_OF.test(gap)) {
        if (!isRange) yield before;
        before = null;
        continue;
      }
    }
    if (before !== null) yield before;
    before = numeral;
  }
  if (before !== null) yield before;
}

/** Groups of digits with one character between; narrow spaces and apostrophes separate thousands. */
const DIGITS = /\d+(?:[.,'’\u00a0\u2009\u202f]\d+)*/g;

/** Scripts without a space between a number and a word: "4分". */
const UNSPACED = '\\p{Script=Han}|\\p{Script=Hiragana}|\\p{Script=Katakana}|\\p{Script=Hangul}';
const WORDY = `\\p{M}|\\p{N}|(?!${UNSPACED})\\p{L}`;
const BEGINS = new RegExp(`(?<!${WORDY})(?<!(?!${UNSPACED})\\p{L}['’-])`, 'uy');
const ENDS = new RegExp(
  `(?!${WORDY}|['’-](?!${UNSPACED})\\p{L}|\\s+(?:hundred|thousand|million|billion|trillion)s?(?!\\p{L}))`,
  'iuy',
);
/** After a digit it is a dash, and before a space a bullet. */
const MINUS = /(?<![\p{L}\p{N})\]])[-−–]\p{Sc}?$/u;
/** After a word or another point it ends something: "No.5", "Rating...5". */
const LEADING_POINT = /(?<![\p{L}\p{N}.])\.$/u;

/** Longer ones identify something: an order, a card. */
const LONGEST = 30;

function* numerals(text: string): Generator<Numeral> {
  for (const { 0: digits, index } of text.matchAll(DIGITS)) {
    const end = index + digits.length;
    if (digits.length > LONGEST || !fits(BEGINS, text, index) || !fits(ENDS, text, end)) continue;
    const isFraction = LEADING_POINT.test(text.slice(Math.max(0, index - 3), index));
    const start = index - (isFraction ? 1 : 0);
    const sign = MINUS.exec(text.slice(Math.max(0, start - 4), start))?.[0] ?? '';
    const values = isFraction ? readings(`0.${digits}`) : readings(digits);
    const exact = values.filter((value) => value <= Number.MAX_SAFE_INTEGER);
    if (exact.length === 0) continue;
    // A subtraction never gives −0.
    yield { start: start - sign.length, end, values: sign === '' ? exact : exact.map((value) => 0 - value) };
  }
}

const DECIMAL = /^\d+(?:[.,]\d+)?$/;
const THOUSANDS = /^[1-9]\d{0,2}(?:([.,'’\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*(?:(?!\1)[.,]\d+)?$/;

/** The readings of digits with separators; none for a date, a version, a list. */
function readings(digits: string): readonly number[] {
  const mark = THOUSANDS.exec(digits)?.[1];
  const values = [
    ...(mark === undefined ? [] : [digits.replaceAll(mark, '').replace(',', '.')]),
    ...(DECIMAL.test(digits) ? [digits.replace(',', '.')] : []),
  ];
  return values.map(Number);
}
