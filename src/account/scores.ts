import * as z from 'zod';
import {
  confusionOf,
  confusionsOf,
  type GoldTally,
  MOST_LABELS,
  MOST_VALUES,
  noneNameFor,
} from './gold-tally.js';
import {
  BINS,
  brierScore,
  type ConfidenceBin,
  type Confusion,
  calibrationError,
  cohenKappa,
  labelScores,
  macroF1,
  majorityOf,
  shareOf,
} from './score.js';
import { amount, type DeepReadonly, named, words } from './untrusted.js';

/** Clamps, whatever a heartbeat says. */
const between = (low: number, high: number) =>
  z.number().transform((value) => Math.min(Math.max(low, value), high));
const share = between(0, 1);

const interval = z.object({ value: share, low: share, high: share });

/** Result of `answer.abstain`. Shares are from 0 to 1. */
export const abstentionSchema = z.object({
  /** Accuracy that the job asks for. */
  asked: share,
  /** Labels below this confidence were left out; null if no threshold reaches `asked`: then none were. */
  threshold: share.nullable(),
  /** Completed rows with gold and a label, which the threshold was found on. */
  rows: amount,
  /** Of these, rows at or above the threshold. */
  answered: amount,
  /** Share of `answered` that is right, with its 95 % Wilson interval. */
  accuracy: interval.nullable(),
  /** Share of all completed rows that have an answer. */
  coverage: share,
});

/** Scores of labels, or of a property of JSON with few values; empty or null if there are none. */
const ofLabelsSchema = z.object({
  /** The most frequent right label, and the accuracy of always giving it; null if a row has no or several labels. */
  majority: z.object({ label: words, accuracy: share }).nullable(),
  /** Mean F1 of the labels; null without labels. */
  macro_f1: share.nullable(),
  /** Cohen's, if a row has one label; null also if all gold and all answers are one label. */
  kappa: between(-1, 1).nullable(),
  /** Why the scores of labels are missing; absent if they are not. */
  left_out: z.exactOptional(words),
  /** Those that occur as gold or as an answer. */
  labels: named(z.object({ precision: share, recall: share, f1: share, support: amount })),
  /** If a row has one label: right label → answer → rows, no zeros. `(none)`: none of the labels. */
  confusion: named(named(amount)),
  /** The most frequent pairs that differ, five at most; `examples`: their first rows, by number in the output. */
  confusions: z.array(z.object({ gold: words, answer: words, rows: amount, examples: z.array(amount) })),
});

/** In `summary.json` of a job with `answer.gold`. Shares are from 0 to 1. */
export const scoresSchema = ofLabelsSchema.extend({
  /** Completed rows with gold, which the scores cover. An unusable answer is a wrong one. */
  rows: amount,
  /** Rows with gold but no answer: filtered, failed or skipped. */
  unanswered: amount,
  /** With its 95 % Wilson interval; of several labels or properties all must be right. */
  accuracy: interval.nullable(),
  /** Rows whose label was left out for low confidence; each counts as wrong in the other scores. */
  abstained: amount,
  /** Rows with an answer: neither abstained nor invalid. */
  answered: amount,
  /** Accuracy on `answered`; null if none. */
  answered_accuracy: share.nullable(),
  /** Brier score over all labels, from 0 to 2; null if no row has probabilities of labels. */
  brier: between(0, 2).nullable(),
  /** Expected calibration error; null if no row has a confidence. */
  ece: share.nullable(),
  /** Rows with a confidence above `from` and up to `to`: their mean confidence and their accuracy. */
  calibration: z.array(
    z.object({ from: share, to: share, rows: amount, confidence: share, accuracy: share }),
  ),
  /** Answers in JSON: rows whose gold names the property, and the share with exactly this value. */
  properties: named(ofLabelsSchema.extend({ rows: amount, exact: share, accuracy: interval.nullable() })),
  /** Only of a run with `answer.abstain` that has all rows of its input. */
  abstention: z.exactOptional(abstentionSchema),
});

export type Abstention = DeepReadonly<z.output<typeof abstentionSchema>>;

export type Scores = DeepReadonly<z.output<typeof scoresSchema>>;

/** Without the scores of single labels and properties: they may be long, and it is written every second. */
export const inShort = (scores: Scores): Scores => ({
  ...scores,
  labels: {},
  confusion: {},
  confusions: [],
  calibration: [],
  properties: {},
});

export type LabelScores = DeepReadonly<z.output<typeof ofLabelsSchema>>;

export function scoresOf(tally: GoldTally): Scores {
  const { rows, right, unanswered, abstained = 0, invalid = 0, confusion, properties, calibration } = tally;
  const answered = rows - abstained - invalid;
  return {
    rows,
    unanswered,
    accuracy: shareOf(right, rows),
    abstained,
    answered,
    answered_accuracy: shareOf(right, answered)?.value ?? null,
    ...scoresOfLabels(confusion, MOST_LABELS),
    brier: calibration === undefined ? null : brierScore(calibration),
    ece: calibration === undefined ? null : calibrationError(calibration.bins),
    calibration: binsOf(calibration?.bins ?? []),
    properties: Object.fromEntries(
      Object.entries(properties ?? {}).map(([name, { rows, right, confusion }]) => [
        name,
        {
          ...{ rows, exact: right / rows, accuracy: shareOf(right, rows) },
          ...scoresOfLabels(confusion, MOST_VALUES),
        },
      ]),
    ),
  };
}

/** @param pairs `null`: more labels than `most` came */
function scoresOfLabels(pairs: GoldTally['confusion'], most: number): LabelScores {
  const matrix = pairs ? confusionOf(pairs) : NO_LABELS;
  const labels = labelScores(matrix);
  return {
    majority: majorityOf(matrix, labels),
    macro_f1: macroF1(labels),
    kappa: cohenKappa(matrix),
    ...(pairs === null && {
      left_out: `more than ${most} different labels came: only the accuracy is counted`,
    }),
    labels: byLabel(matrix.labels, labels),
    confusion: matrix.extra === undefined ? pairsOf(matrix) : {},
    confusions: pairs ? confusionsOf(pairs) : [],
  };
}

const NO_LABELS: Confusion = { labels: [], counts: [], none: [] };

function pairsOf({ labels, counts, none }: Confusion): Scores['confusion'] {
  const pairs = labels.map((_, right) => {
    const row = [...(counts[right] ?? []), none[right] ?? 0];
    const names = [...labels, noneNameFor(labels)];
    return Object.fromEntries(names.flatMap((name, i) => (row[i] ? [[name, row[i]]] : [])));
  });
  return Object.fromEntries(
    Object.entries(byLabel(labels, pairs)).filter(([, row]) => Object.keys(row).length > 0),
  );
}

const binsOf = (bins: readonly ConfidenceBin[]): Scores['calibration'] =>
  bins.flatMap(({ rows, right, confidence }, place) =>
    rows === 0
      ? []
      : [
          {
            from: place / BINS,
            to: (place + 1) / BINS,
            rows,
            confidence: confidence / rows,
            accuracy: right / rows,
          },
        ],
  );

const byLabel = <T>(names: readonly string[], values: readonly T[]): { [name: string]: T } =>
  Object.fromEntries(values.map((value, i) => [names[i] ?? '', value]));
