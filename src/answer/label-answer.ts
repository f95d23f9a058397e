import type { AnswerSpec } from '../core/answer-spec.js';
import type { Answer, Json, Problem } from '../core/model.js';
import { LabelIndex, type LabelMention, type Names } from './label-index.js';
import {
  distinct,
  ENOUGH,
  endsLine,
  isExplained,
  isFirst,
  type Negation,
  negationBefore,
  withoutCaption,
} from './mention.js';
import { composed, excerpt, listed } from './text.js';

const NO_LABEL = '(none)';

/**
 * Reads the label that a text names.
 *
 * - A label counts as a whole word, by its name or a synonym, in any case, with any punctuation or markdown
 *   around it. White space, `_` and `-` are equivalent: "Self harm." is `self_harm`.
 * - A negated label ("not positive", "isn't a very positive") does not count: only the job's author knows
 *   what its opposite is.
 * - Of several labels the first counts when it stands alone on the first line (models often go on with the
 *   next example), or begins the text and an explanation follows ("Positive. Nothing negative in it").
 *   Otherwise the text is ambiguous: "positive or negative", "positive: 0.2, negative: 0.8".
 *
 * Time is linear in the text, whatever the number of labels (faults 69 and 74). The check of the job file
 * guarantees that all names differ.
 */
export function labelReader({
  labels,
  synonyms,
  multiple,
}: Extract<AnswerSpec, { kind: 'labels' }>): (text: string | null) => Answer {
  const index = new LabelIndex(namesOf({ labels, synonyms }));
  const negated = negationBefore((word) => index.has(word));
  if (multiple) return severalReader(labels, index, negated);

  return (text) => {
    const whole = composed(text ?? '');
    const named = distinct(whole, index.mentions(whole), ({ label }) => label, negated);
    const [first, second] = named;
    if (first !== undefined && (second === undefined || decides(whole, first, second))) {
      const label = labels[first.label] ?? '';
      return { values: [label], counted: [label], problem: null };
    }
    const why =
      first === undefined
        ? `is none of the labels ${listed(labels)}`
        : `names more than one label: ${named.map(({ label }) => labels[label]).join(', ')}${named.length === ENOUGH ? ', …' : ''}`;
    const problem: Problem = { code: 'answer_not_a_label', message: `${excerpt(text)} ${why}` };
    return { values: [null], counted: [NO_LABEL], problem };
  };
}

export const namesOf = ({
  labels,
  synonyms,
}: {
  readonly labels: readonly string[];
  readonly synonyms?: readonly Names[] | undefined;
}): readonly Names[] => labels.map((label, place) => [label, ...(synonyms?.[place] ?? [])]);

const decides = (text: string, first: LabelMention, second: LabelMention): boolean =>
  isFirst(text, first) && (endsLine(text, first) || isExplained(text, first, second));

export const SEPARATOR = ';';

/** No label applies: in a text, in a cell, and in the summary. */
export const NONE = 'none';

const INVALID = '(invalid)';

/** `price;delivery`, or `none`. */
export const labelsCell = (labels: Json): Json =>
  Array.isArray(labels) ? labels.join(SEPARATOR) || NONE : labels;

/**
 * Reads all labels that a text names, in the order of the job. Mentions count as above.
 *
 * - Prose names what it mentions: "It is about the price, and about delivery".
 * - A list alone on its lines counts alone (models often go on with the next example). "- price" starts no
 *   such list, because words may follow each point. More labels in the explanation of a list make the text
 *   ambiguous.
 * - Labels may have values: "price: yes, delivery: no". Scores ("price: 0.2") are unclear.
 * - "None" is an answer when the text begins with it, is an empty list, or denies every label; but not if a
 *   label is called "none".
 */
function severalReader(
  labels: readonly string[],
  index: LabelIndex,
  negated: Negation,
): (text: string | null) => Answer {
  const mayBeNone = !index.has(NONE);

  return (text) => {
    const whole = composed(text ?? '');
    const invalid = (why: string): Answer => {
      const problem: Problem = { code: 'answer_not_a_label', message: `${excerpt(text)} ${why}` };
      return { values: [null], counted: [INVALID], problem };
    };
    const answer = (places: ReadonlySet<number>): Answer => {
      const named = [...places].sort((a, b) => a - b).map((place) => labels[place] ?? '');
      return { values: [named], counted: named.length > 0 ? named : [NONE], problem: null };
    };

    const named: LabelMention[] = [];
    const denied = new Set<number>();
    // The "no" of one label does not negate the next.
    let said = 0;
    for (const mention of index.mentions(whole)) {
      if (negated(whole, mention.start, said)) continue;
      const { value, end } = valueBehind(whole, mention);
      said = end;
      if (value === 'unclear') return invalid('does not say clearly which labels apply');
      if (value === 'no') denied.add(mention.label);
      else named.push(mention);
    }
    const isNone = mayBeNone && (saysNone(whole) || denied.size === labels.length);
    const [first] = named;
    if (first === undefined) {
      return isNone ? answer(new Set()) : invalid(`is none of the labels ${listed(labels)}`);
    }
    if (isNone) return invalid('says none, and names labels');

    const all = placesOf(named);
    const length = listLength(whole, named);
    const [last, next] = [named[length - 1], named[length]];
    const list = placesOf(named.slice(0, length));
    if (list.size < all.size && last && next && isFirst(whole, first) && !isPoint(whole, first)) {
      if (endsLine(whole, last)) return answer(list);
      if (isExplained(whole, last, next)) return invalid('names further labels behind its list');
    }
    return answer(all);
  };
}

const placesOf = (mentions: readonly LabelMention[]): ReadonlySet<number> =>
  new Set(mentions.map(({ label }) => label));

const NO = /^["'’”*_`]*[ \t]*[:=][ \t]*["'‘“*_`]*(?:no|not|none|never|false|0)(?![\p{L}\p{N}%]|[.,]\d)/iu;
const ENDS = /^["'’”*_`]*[ \t]*(?:[,;.)}\]\r\n]|$)/u;
/** After a colon 0 and 1 mean no and yes. A quantity ("delivery: 3 days") is no score. */
const SCORE =
  /^["'’”*_`]*[ \t]*(?:[:=][ \t]*["'‘“*_`]*(?![01](?![\d%]|[.,]\d))|[(–—-][ \t]*["'‘“*_`]*)\d+(?:[.,]\d+)?%?(?![\d%]|[.,]\d|[ \t]*\p{L})/u;

const NEAR = 60;

/** "price: no", "price: not mentioned", "price (0.2)"; `end` is where it ends. */
function valueBehind(text: string, { end }: LabelMention): { value: 'yes' | 'no' | 'unclear'; end: number } {
  const behind = text.slice(end, end + NEAR);
  if (SCORE.test(behind)) return { value: 'unclear', end };
  const no = NO.exec(behind)?.[0];
  if (no === undefined) return { value: 'yes', end };
  return { value: ENDS.test(behind.slice(no.length)) ? 'no' : 'unclear', end: end + no.length };
}

const BEGINS_NONE = /^[^\p{L}\p{N}]*none(?![\p{L}\p{N}])/iu;
const EMPTY_LIST = /^[^\p{L}\p{N}]*\[\s*\][^\p{L}\p{N}]*$/u;
const FENCE = /^```\w*\s*/;

const BEGINNING = 200;

function saysNone(text: string): boolean {
  const beginning = text.trim().slice(0, BEGINNING).replace(FENCE, '');
  const answer = withoutCaption(beginning);
  return BEGINS_NONE.test(beginning) || BEGINS_NONE.test(answer) || EMPTY_LIST.test(answer);
}

/** No words but "and" and "or"; numbers may only number points. */
const JOINS = /^[^\p{L}]*(?:(?:and|or)[^\p{L}]*)?$/iu;
const LONGEST_JOINT = 1_000;

/** How many mentions follow each other without words between. */
function listLength(text: string, mentions: readonly LabelMention[]): number {
  const breaks = mentions.findIndex(({ start }, at) => {
    const end = mentions[at - 1]?.end ?? start;
    return start - end > LONGEST_JOINT || !JOINS.test(text.slice(end, start));
  });
  return breaks < 0 ? mentions.length : breaks;
}

const POINT = /(?:^|\n)[ \t]*[-*+•][ \t][^\n]*$/u;

/** Whether the mention's line is a bullet, which may hold an explanation. */
const isPoint = (text: string, { start }: LabelMention): boolean =>
  POINT.test(text.slice(Math.max(0, start - NEAR), start));
