import * as z from 'zod';
import { BINS, brierScore, type ConfidenceBin, calibrationError } from './calibration.js';
import { confusionOf, type GoldTally, MOST_LABELS } from './gold-tally.js';
import { type Confusion, cohenKappa, labelScores, macroF1, shareOf } from './score.js';
import { amount, type DeepReadonly, words } from './untrusted.js';

/** Kept between two bounds, whatever a heartbeat says. */
const between = (low: number, high: number) =>
  z.number().transform((value) => Math.min(Math.max(low, value), high));
const share = between(0, 1);

const interval = z.object({ value: share, low: share, high: share });

/** What came of `answer.abstain`. A share is a number from 0 to 1. */
export const abstentionSchema = z.object({
  /** The accuracy that the job asks for. */
  asked: share,
  /** A label with a lower confidence was left out; null where no threshold reaches what is asked, and then none was. */
  threshold: share.nullable(),
  /** Completed rows with gold that have a label: the threshold was found on these. */
  rows: amount,
  /** Of these, the rows with at least this confidence. */
  answered: amount,
  /** The share of them that is right, with its Wilson score interval of 95 %. */
  accuracy: interval.nullable(),
  /** The share of all completed rows that have an answer. */
  coverage: share,
});

/** The part of `summary.json` that a job with `answer.gold` has. A share is a number from 0 to 1. */
export const scoresSchema = z.object({
  /** Completed rows whose right answer is known: the scores are of these. An answer that cannot be used is a wrong one. */
  rows: amount,
  /** Rows whose right answer is known and that have no answer: filtered, failed or skipped. */
  unanswered: amount,
  /** With its Wilson score interval of 95 %; of several labels or properties a row must have all right. */
  accuracy: interval.nullable(),
  /** Rows whose label was left out for want of confidence; each counts as wrong in the other scores. */
  abstained: amount,
  /** Rows that have an answer: neither left out nor invalid. */
  answered: amount,
  /** The accuracy on these; null without any. */
  answered_accuracy: share.nullable(),
  /** The mean of the labels' F1; null without labels. */
  macro_f1: share.nullable(),
  /** Cohen's, where a row has one label; null also where gold and answers are one and the same. */
  kappa: between(-1, 1).nullable(),
  /** The Brier score over all labels, from 0 to 2; null where no row has the probabilities of labels. */
  brier: between(0, 2).nullable(),
  /** The expected calibration error; null where no row has a confidence. */
  ece: share.nullable(),
  /** Why the scores of labels are left out. Only where they are. */
  left_out: z.exactOptional(words),
  /** Those that occur as gold or as an answer. */
  labels: z.record(z.string(), z.object({ precision: share, recall: share, f1: share, support: amount })),
  /** Where a row has one label: right label → answer → rows; what did not occur is left out. `(none)`: the answer is none of the labels. */
  confusion: z.record(z.string(), z.record(z.string(), amount)),
  /** The rows whose confidence lies above `from` and is at most `to`: its mean, and how many of their labels are right. */
  calibration: z.array(
    z.object({ from: share, to: share, rows: amount, confidence: share, accuracy: share }),
  ),
  /** Of answers in JSON: the rows whose gold names a property, and the share of them that has exactly this value. */
  properties: z.record(z.string(), z.object({ rows: amount, exact: share })),
  /** Only of a run with `answer.abstain` that has all rows of its input. */
  abstention: z.exactOptional(abstentionSchema),
});

export type Abstention = DeepReadonly<z.output<typeof abstentionSchema>>;

export type Scores = DeepReadonly<z.output<typeof scoresSchema>>;

/** For what is written every second: the scores of single labels and properties may be long, and are left out. */
export const inShort = (scores: Scores): Scores => ({
  ...scores,
  labels: {},
  confusion: {},
  calibration: [],
  properties: {},
});

/** The scores of rows so far. */
export function scoresOf(tally: GoldTally): Scores {
  const { rows, right, unanswered, abstained = 0, invalid = 0, confusion, properties, calibration } = tally;
  const answered = rows - abstained - invalid;
  const matrix = confusion ? confusionOf(confusion) : NO_LABELS;
  const labels = labelScores(matrix);
  return {
    rows,
    unanswered,
    accuracy: shareOf(right, rows),
    abstained,
    answered,
    answered_accuracy: shareOf(right, answered)?.value ?? null,
    macro_f1: macroF1(labels),
    kappa: cohenKappa(matrix),
    brier: calibration === undefined ? null : brierScore(calibration),
    ece: calibration === undefined ? null : calibrationError(calibration.bins),
    ...(confusion === null && { left_out: TOO_MANY_LABELS }),
    labels: named(matrix.labels, labels),
    confusion: matrix.extra === undefined ? pairsOf(matrix) : {},
    calibration: binsOf(calibration?.bins ?? []),
    properties: Object.fromEntries(
      Object.entries(properties ?? {}).map(([name, count]) => [
        name,
        { rows: count.rows, exact: count.right / count.rows },
      ]),
    ),
  };
}

const NO_LABELS: Confusion = { labels: [], counts: [], none: [] };

const TOO_MANY_LABELS = `more than ${MOST_LABELS} different labels came: only the accuracy is counted`;

/** What an answer is called that is none of the labels. */
const NONE = '(none)';

function pairsOf({ labels, counts, none }: Confusion): Scores['confusion'] {
  const pairs = labels.map((_, right) => {
    const row = [...(counts[right] ?? []), none[right] ?? 0];
    const names = [...labels, labels.includes(NONE) ? `(${NONE})` : NONE];
    return Object.fromEntries(names.flatMap((name, i) => (row[i] ? [[name, row[i]]] : [])));
  });
  return Object.fromEntries(
    Object.entries(named(labels, pairs)).filter(([, row]) => Object.keys(row).length > 0),
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

const named = <T>(names: readonly string[], values: readonly T[]): { [name: string]: T } =>
  Object.fromEntries(values.map((value, i) => [names[i] ?? '', value]));
