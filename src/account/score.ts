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
