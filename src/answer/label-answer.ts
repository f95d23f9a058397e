import { UsageError } from '../errors.js';
import type { Answer } from '../model.js';
import { LabelIndex, type Mention } from './label-index.js';
import { composed, excerpt, listed } from './text.js';

/** What the summary counts where the text is none of the labels. */
const NONE = '(none)';

/** Labels after which nothing can make a text name one of them alone, and no more are told in a message. */
const ENOUGH = 5;

/**
 * Reads which of the labels a text names.
 *
 * - A label counts as a whole word, in any case, with any punctuation or markdown around it. White space, `_` and
 *   `-` inside a label stand for each other: `self_harm` is found in "Self harm.".
 * - A label behind a negation ("not positive", "isn't a very positive") does not count: what the opposite of a
 *   label is, only the job's author knows.
 * - Of several labels the first one counts when it stands alone on the first line (a model often goes on with the
 *   next example), or begins the text and an explanation follows ("Positive. Nothing negative in it"). Otherwise
 *   the text is ambiguous and names none: "positive or negative", "positive: 0.2, negative: 0.8".
 *
 * A text takes time by its length, whatever the number of labels (faults 69 and 74).
 *
 * @throws UsageError when two labels are the same in any case
 */
export function labelReader(labels: readonly string[]): (text: string | null) => Answer {
  const index = new LabelIndex(labels.map((label) => composed(label).trim()));
  if (index.clash >= 0) {
    throw new UsageError(
      'labels_not_distinct',
      `answer.labels: ${JSON.stringify(labels[index.clash])} is empty, or the same as another label`,
      'Give labels that differ in more than case, white space, "_" and "-".',
    );
  }
  const negated = negationBefore(index);

  return (text) => {
    const whole = composed(text ?? '');
    const named = distinct(index.mentions(whole), (start) => negated(whole, start));
    const [first, second] = named;
    if (first !== undefined && (second === undefined || decides(whole, first, second))) {
      const label = labels[first.label] ?? '';
      return { values: [label], counted: [label], fault: null };
    }
    const why =
      first === undefined
        ? `is none of the labels ${listed(labels)}`
        : `names more than one label: ${named.map(({ label }) => labels[label]).join(', ')}${named.length === ENOUGH ? ', …' : ''}`;
    return {
      values: [null],
      counted: [NONE],
      fault: { code: 'answer_not_a_label', message: `${excerpt(text)} ${why}` },
    };
  };
}

/** The first mention of each label that is not negated, and not many: of two or more only the first two decide. */
function distinct(mentions: Iterable<Mention>, negated: (start: number) => boolean): readonly Mention[] {
  const found = new Map<number, Mention>();
  for (const mention of mentions) {
    if (found.has(mention.label) || negated(mention.start)) continue;
    found.set(mention.label, mention);
    if (found.size === ENOUGH) break;
  }
  return [...found.values()];
}

/** Characters before a label in which a negation is looked for: the time for each label is bounded. */
const NEAR = 80;

function negationBefore(labels: LabelIndex): (text: string, start: number) => boolean {
  const words = ['not', 'no', 'non', 'never', 'neither', 'nor', 'without'].filter(
    (word) => !labels.has(word),
  );
  // Up to two words stand between, as in "not a very positive".
  const negation = new RegExp(
    `(?:(?<![\\p{L}\\p{N}])(?:${words.join('|')})|n['’]t)(?:[\\s_-]+\\p{L}+){0,2}[\\s_*"'“‘-]*$`,
    'iu',
  );
  return (text, start) => negation.test(text.slice(Math.max(0, start - NEAR), start));
}

const LETTER = /\p{L}/u;
const WORD = /[\p{L}\p{N}]/u;
/** A caption such as "Sentiment:". */
const CAPTION = /^[^\n:]{0,40}:/;
const LINE_ENDS = /^[^\p{L}\p{N}\n,/|]*(?:\n|$)/u;
const EXPLANATION = /^[^\p{L}\p{N}\s,/|]*(?:[.!;]|\s*[-–—](?=\s*\p{L})|\s+(?:because|since|as)\b)/u;

/** Characters behind a label that are read for what they make of it. */
const FOLLOWING = 1_000;

/** Whether the first of several mentions is the answer all the same. */
function decides(text: string, first: Mention, second: Mention): boolean {
  const before = text.slice(0, first.start);
  if (WORD.test(before.slice(CAPTION.exec(before)?.[0].length ?? 0))) return false;
  const rest = text.slice(first.end, first.end + FOLLOWING);
  if (LINE_ENDS.test(rest)) return true;
  // "Positive. Negative." explains nothing.
  return EXPLANATION.test(rest) && LETTER.test(text.slice(first.end, second.start));
}
