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
