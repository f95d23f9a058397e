import type { Answer, Fault } from '../model.js';
import type { AnswerSpec } from './answer-spec.js';
import { LabelIndex, type LabelMention, type Names } from './label-index.js';
import { distinct, ENOUGH, endsLine, isExplained, isFirst, negationBefore } from './mention.js';
import { severalReader } from './several-labels.js';
import { composed, excerpt, listed } from './text.js';

const NONE = '(none)';

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
      return { values: [label], counted: [label], fault: null };
    }
    const why =
      first === undefined
        ? `is none of the labels ${listed(labels)}`
        : `names more than one label: ${named.map(({ label }) => labels[label]).join(', ')}${named.length === ENOUGH ? ', …' : ''}`;
    const fault: Fault = { code: 'answer_not_a_label', message: `${excerpt(text)} ${why}` };
    return { values: [null], counted: [NONE], fault };
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
