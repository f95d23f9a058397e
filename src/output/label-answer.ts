import { UsageError } from '../errors.js';
import type { Answer } from '../model.js';
import { excerpt } from './completion-text.js';

/** What the summary counts where the text is none of the labels. */
const NONE = '(none)';

/** A label found in a text. */
interface Mention {
  readonly label: string;
  readonly start: number;
  readonly end: number;
}

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
 * @throws UsageError when two labels are the same in any case
 */
export function labelReader(labels: readonly string[]): (text: string | null) => Answer {
  const normal = labels.map((label) => label.normalize('NFC').trim());
  const clash = normal.findIndex((label, i) => label === '' || normal.findIndex((l) => same(l, label)) < i);
  if (clash >= 0) {
    throw new UsageError(
      'labels_not_distinct',
      `answer.labels: ${JSON.stringify(labels[clash])} is empty, or the same as another label`,
      'Give labels that differ in more than case, white space, "_" and "-".',
    );
  }
  const mentions = mentionFinder(normal);
  const negated = negationBefore(normal);

  return (text) => {
    const whole = text?.normalize('NFC') ?? '';
    const found = mentions(whole).filter((mention) => !negated(whole.slice(0, mention.start)));
    const distinct = [...new Set(found.map((mention) => mention.label))];
    const label = distinct.length > 1 && !decides(whole, found) ? undefined : distinct[0];
    if (label !== undefined) {
      // In the job's own spelling, which normalisation may have changed.
      const given = labels[normal.indexOf(label)] ?? label;
      return { values: [given], counted: given, fault: null };
    }
    const why =
      distinct.length > 1
        ? `names more than one label: ${distinct.join(', ')}`
        : `is none of the labels ${labels.join(', ')}`;
    return {
      values: [null],
      counted: NONE,
      fault: { code: 'answer_not_a_label', message: `${excerpt(text)} ${why}` },
    };
  };
}

/** Between two letters or digits of a label, all of these mean a space. */
const JOINT = /(?<=[\p{L}\p{N}])[\s_-]+(?=[\p{L}\p{N}])/gu;

const same = (a: string, b: string): boolean =>
  a.replace(JOINT, ' ').toLowerCase() === b.replace(JOINT, ' ').toLowerCase();

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

function mentionFinder(labels: readonly string[]): (text: string) => readonly Mention[] {
  // The longest first: "very positive" is not "positive".
  const ordered = labels.toSorted((a, b) => b.length - a.length);
  const patterns = ordered.map((label) => `(${label.split(JOINT).map(escaped).join('[\\s_-]+')})`);
  // A hyphen or apostrophe joins words ("non-positive"), a point or comma joins digits ("4.5" is neither 4 nor 5).
  const before = "(?<![\\p{L}\\p{N}\\p{M}]|[\\p{L}\\p{N}]['’-]|\\p{N}[.,])(?<!-(?=\\p{N}))";
  const after = "(?!['’-]?[\\p{L}\\p{N}\\p{M}]|[.,]\\p{N})";
  const any = new RegExp(`${before}(?:${patterns.join('|')})${after}`, 'giu');
  return (text) =>
    [...text.matchAll(any)].flatMap((match) => {
      const label = ordered[match.slice(1).findIndex((group) => group !== undefined)];
      return label === undefined ? [] : { label, start: match.index, end: match.index + match[0].length };
    });
}

function negationBefore(labels: readonly string[]): (before: string) => boolean {
  const words = ['not', 'no', 'non', 'never', 'neither', 'nor', 'without'].filter(
    (word) => !labels.some((label) => same(label, word)),
  );
  // Up to two words stand between, as in "not a very positive".
  const negation = new RegExp(
    `(?:(?<![\\p{L}\\p{N}])(?:${words.join('|')})|n['’]t)(?:[\\s_-]+\\p{L}+){0,2}[\\s_*"'“‘-]*$`,
    'iu',
  );
  return (before) => negation.test(before.slice(-80));
}

/** Nothing but punctuation before the label, or a caption such as "Sentiment:". */
const OPENING = /^(?:[^\n:]{0,40}:)?[^\p{L}\p{N}]*$/u;
const LINE_ENDS = /^[^\p{L}\p{N}\n,/|]*(?:\n|$)/u;
const EXPLANATION = /^[^\p{L}\p{N}\s,/|]*(?:[.!;]|\s*[-–—](?=\s*\p{L})|\s+(?:because|since|as)\b)/u;

/** Whether the first of several mentions is the answer all the same. */
function decides(text: string, mentions: readonly Mention[]): boolean {
  const [first] = mentions;
  const second = mentions.find(({ label }) => label !== first?.label);
  if (first === undefined || second === undefined) return false;
  if (!OPENING.test(text.slice(0, first.start))) return false;
  const rest = text.slice(first.end);
  if (LINE_ENDS.test(rest)) return true;
  // "Positive. Negative." explains nothing.
  const between = text.slice(first.end, second.start);
  return EXPLANATION.test(rest) && /\p{L}/u.test(between);
}
