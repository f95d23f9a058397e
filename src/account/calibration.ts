/**
 * How sure a model is against how often it is right: formulas, and nothing of rows or files.
 */

/** Rows of which the model is about equally sure. */
export interface ConfidenceBin {
  readonly rows: number;
  /** Of these, the rows whose label is right. */
  readonly right: number;
  /** The sum of their confidences. */
  readonly confidence: number;
}

/** How sure a model was, and whether it was right. */
export interface Calibration {
  /** From the lowest confidence to the highest. */
  readonly bins: readonly ConfidenceBin[];
  /** Rows that have the probabilities of labels. */
  readonly forecasts: number;
  /** What these rows add to the Brier score, summed up. */
  readonly squares: number;
}

/** Bins of equal width from 0 to 1, as many as most of the literature has. */
export const BINS = 10;

/** The bin of a confidence, from 0. Its upper end is part of a bin, and 0 is part of the first. */
export const binOf = (confidence: number, bins = BINS): number =>
  // Confidences have six decimals: in whole millionths the ends of bins are exact.
  Math.min(Math.max(0, Math.ceil((Math.round(confidence * 1e6) * bins) / 1e6) - 1), bins - 1);

/**
 * The expected calibration error: how far confidence and accuracy are apart in each bin, weighted by its rows. From 0 to 1;
 * `null` without rows.
 * C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural networks", ICML 2017, equation 3.
 */
export function calibrationError(bins: readonly ConfidenceBin[]): number | null {
  const rows = bins.reduce((sum, bin) => sum + bin.rows, 0);
  if (rows === 0) return null;
  return bins.reduce((sum, { right, confidence }) => sum + Math.abs(right - confidence), 0) / rows;
}

/** The mean of what rows add to it ({@link brierOf}), from 0 to 2; `null` without rows. */
export const brierScore = ({ forecasts, squares }: Calibration): number | null =>
  forecasts === 0 ? null : squares / forecasts;

/**
 * What a row adds to the Brier score: the squares of what the probabilities of the labels are off by, added up. From 0 to 2,
 * also with two labels. A label without a probability has 0. Probability that is not listed belongs to no label: it counts in
 * that the right label has less.
 * G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78 (1950), 1–3; in
 * scikit-learn `brier_score_loss` with `scale_by_half=False`.
 */
export function brierOf(probabilities: ReadonlyMap<string, number>, right: string): number {
  let sum = probabilities.has(right) ? 0 : 1;
  for (const [label, probability] of probabilities) sum += (probability - (label === right ? 1 : 0)) ** 2;
  return sum;
}
