/**
 * How good answers are where the right ones are known: formulas, and nothing of rows or files. Where a formula divides by
 * zero, precision, recall and F1 are 0, as with scikit-learn's `zero_division=0`.
 */

/** Rows by their right label and the label that they got. */
export interface Confusion {
  readonly labels: readonly string[];
  /** `counts[right][answered]`, by places in `labels`. */
  readonly counts: readonly (readonly number[])[];
  /** By the place of the right label: rows whose answer is none of the labels. */
  readonly none: readonly number[];
  /**
   * Only where a row may have several labels, by the place of a label: rows that got it without being right. A right label
   * that a row did not get then counts in `none`, and `counts` has none but equal pairs.
   */
  readonly extra?: readonly number[];
}

/** A share of rows, and the interval that has the true share in it with 95 %. */
export interface Share {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** How well one label was found. */
export interface LabelScore {
  /** Of the rows that got the label, the share for which it is right. */
  readonly precision: number;
  /** Of the rows for which the label is right, the share that got it. */
  readonly recall: number;
  /** The harmonic mean of both. */
  readonly f1: number;
  /** Rows for which the label is right. */
  readonly support: number;
}

/** The standard normal distribution has 95 % between this and its negative. */
const Z = 1.959963984540054;

/**
 * A share with its Wilson score interval; `null` without rows.
 * E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American Statistical
 * Association 22 (1927), 209–212; without continuity correction, as R. G. Newcombe, Statistics in Medicine 17 (1998), method 3.
 */
export function shareOf(right: number, rows: number): Share | null {
  if (rows === 0) return null;
  const value = right / rows;
  const widened = 1 + Z ** 2 / rows;
  const centre = (value + Z ** 2 / (2 * rows)) / widened;
  const half = (Z / widened) * Math.sqrt((value * (1 - value)) / rows + Z ** 2 / (4 * rows ** 2));
  // At the ends the formula gives exactly 0 and 1, and doubles do not.
  return {
    value,
    low: right === 0 ? 0 : centre - half,
    high: right === rows ? 1 : centre + half,
  };
}

/**
 * Precision, recall, F1 and support of each label, in the order of the labels. A row whose answer is none of the labels
 * counts in the support and not among those that got a label, as with the `labels` of scikit-learn's
 * `precision_recall_fscore_support`.
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

/** The mean of the labels' F1, each label counting the same; `null` without labels. */
export const macroF1 = (scores: readonly LabelScore[]): number | null =>
  scores.length === 0 ? null : sum(scores.map(({ f1 }) => f1)) / scores.length;

/**
 * Cohen's kappa, (pₒ − pₑ) / (1 − pₑ): agreement beyond what two who answer at random with the same frequencies have.
 * J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 (1960), 37–46.
 * No answer is a category of its own, which is never right.
 * @returns `null` where chance alone agrees always, a row may have several labels, or there are no rows
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
  // Both sides times rows², so that whole numbers are compared.
  if (byChance === rows ** 2) return null;
  return (rows * agreed - byChance) / (rows ** 2 - byChance);
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

const ratio = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);
