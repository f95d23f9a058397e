/** Where a formula divides by zero, precision, recall and F1 are 0 (scikit-learn's `zero_division=0`). */

export interface Confusion {
  readonly labels: readonly string[];
  /** `counts[right][answered]`, by index in `labels`. */
  readonly counts: readonly (readonly number[])[];
  /** By index of the right label: rows whose answer is none of the labels. */
  readonly none: readonly number[];
  /**
   * Only if a row may have several labels, by index: rows that got a wrong label. A missed right label then
   * counts in `none`, and `counts` has only its diagonal.
   */
  readonly extra?: readonly number[];
}

/** With its 95 % interval. */
export interface Share {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export interface LabelScore {
  /** Share of the rows with this answer that are right. */
  readonly precision: number;
  /** Share of the rows with this right label that got it. */
  readonly recall: number;
  readonly f1: number;
  /** Rows with this right label. */
  readonly support: number;
}

/** 97.5 % quantile of the standard normal distribution. */
const Z = 1.959963984540054;

/**
 * A share with its Wilson score interval; `null` without rows. E. B. Wilson, "Probable inference, the law of
 * succession, and statistical inference", Journal of the American Statistical Association 22 (1927), 209–212;
 * without continuity correction, as R. G. Newcombe, Statistics in Medicine 17 (1998), method 3.
 */
export function shareOf(right: number, rows: number): Share | null {
  if (rows === 0) return null;
  const value = right / rows;
  const widened = 1 + Z ** 2 / rows;
  const centre = (value + Z ** 2 / (2 * rows)) / widened;
  const half = (Z / widened) * Math.sqrt((value * (1 - value)) / rows + Z ** 2 / (4 * rows ** 2));
  // At the ends the formula is exactly 0 and 1; floating point is not.
  return {
    value,
    low: right === 0 ? 0 : centre - half,
    high: right === rows ? 1 : centre + half,
  };
}

/**
 * In the order of the labels. A row whose answer is none of the labels counts only in the support, as with
 * the `labels` of scikit-learn's `precision_recall_fscore_support`.
 */
export function labelScores({ labels, counts, none, extra = [] }: Confusion): LabelScore[] {
  return labels.map((_, place) => {
    const support = sum(counts[place] ?? []) + (none[place] ?? 0);
    const answered = sum(counts.map((row) => row[place] ?? 0)) + (extra[place] ?? 0);
    const right = counts[place]?.[place] ?? 0;
    return {
      precision: ratio(right, answered),
      recall: ratio(right, support),
      f1: ratio(2 * right, answered + support),
      support,
    };
  });
}

/** Of always giving the most frequent right label, the first of equals; `null` if a row may have several. */
export function majorityOf({ labels, extra }: Confusion, scores: readonly LabelScore[]) {
  const supports = scores.map(({ support }) => support);
  const most = Math.max(0, ...supports);
  const label = labels[supports.indexOf(most)];
  if (extra !== undefined || label === undefined) return null;
  return { label, accuracy: ratio(most, sum(supports)) };
}

/** Unweighted mean; `null` without labels. */
export const macroF1 = (scores: readonly LabelScore[]): number | null =>
  scores.length === 0 ? null : sum(scores.map(({ f1 }) => f1)) / scores.length;

/**
 * Cohen's kappa, (pₒ − pₑ) / (1 − pₑ): agreement beyond chance. No answer is a category that is never right.
 * J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20
 * (1960), 37–46.
 * @returns `null` if chance alone always agrees, a row may have several labels, or there are no rows
 */
export function cohenKappa({ labels, counts, none, extra }: Confusion): number | null {
  if (extra !== undefined) return null;
  const rows = sum(counts.map(sum)) + sum(none);
  const agreed = sum(labels.map((_, place) => counts[place]?.[place] ?? 0));
  const byChance = sum(
    labels.map((_, place) => {
      const support = sum(counts[place] ?? []) + (none[place] ?? 0);
      return support * sum(counts.map((row) => row[place] ?? 0));
    }),
  );
  // Both sides times rows², to compare whole numbers.
  if (byChance === rows ** 2) return null;
  return (rows * agreed - byChance) / (rows ** 2 - byChance);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

const ratio = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);

export interface ConfidenceBin {
  readonly rows: number;
  /** Rows whose label is right. */
  readonly right: number;
  /** Sum of their confidences. */
  readonly confidence: number;
}

export interface Calibration {
  /** From low to high confidence. */
  readonly bins: readonly ConfidenceBin[];
  /** Rows with probabilities of labels. */
  readonly forecasts: number;
  /** Sum of their {@link brierOf}. */
  readonly squares: number;
}

/** Equal width from 0 to 1; 10 is the usual number in the literature. */
export const BINS = 10;

/** From 0. A bin includes its upper end; the first includes 0. */
export const binOf = (confidence: number, bins = BINS): number =>
  // Confidences have six decimals: in whole millionths the bin ends are exact.
  Math.min(Math.max(0, Math.ceil((Math.round(confidence * 1e6) * bins) / 1e6) - 1), bins - 1);

/**
 * The expected calibration error: |confidence - accuracy| per bin, weighted by rows. From 0 to 1; `null`
 * without rows. C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural networks",
 * ICML 2017, equation 3.
 */
export function calibrationError(bins: readonly ConfidenceBin[]): number | null {
  const rows = bins.reduce((sum, bin) => sum + bin.rows, 0);
  if (rows === 0) return null;
  return bins.reduce((sum, { right, confidence }) => sum + Math.abs(right - confidence), 0) / rows;
}

/** The mean of {@link brierOf}, from 0 to 2; `null` without rows. */
export const brierScore = ({ forecasts, squares }: Calibration): number | null =>
  forecasts === 0 ? null : squares / forecasts;

/**
 * A row's part of the Brier score: the sum of squared errors of the labels' probabilities. From 0 to 2, also
 * with two labels. A label without a probability has 0. Unlisted probability counts only as missing from the
 * right label. G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather
 * Review 78 (1950), 1–3; in scikit-learn `brier_score_loss` with `scale_by_half=False`.
 */
export function brierOf(probabilities: ReadonlyMap<string, number>, right: string): number {
  let sum = probabilities.has(right) ? 0 : 1;
  for (const [label, probability] of probabilities) sum += (probability - (label === right ? 1 : 0)) ** 2;
  return sum;
}
