/** How often two outputs, `a` and `b`, are right on the same rows. */
export interface Paired {
  /** Rows with gold that are completed in both. */
  readonly rows: number;
  /** Rows that only `b` has right, and rows that only `a` has right. */
  readonly better: number;
  readonly worse: number;
  /** Chance of a difference at least as large if both were equally good, from 0 to 1. @see mcNemar */
  readonly p: number;
  /** The better one; `even`: the difference may be chance. */
  readonly says: 'a' | 'b' | 'even';
  /** Rows needed to tell a difference of this size from chance; `null` if these are enough, or there is none. */
  readonly needed: number | null;
}

const ALPHA = 0.05;
/** Quantiles of the standard normal distribution: of `ALPHA`, two-sided, and of a power of 80 %. */
const Z_ALPHA = 1.959963984540054;
const Z_POWER = 0.8416212335729143;

export function paired(rows: number, better: number, worse: number): Paired {
  const p = mcNemar(better, worse);
  if (p < ALPHA) return { rows, better, worse, p, says: better > worse ? 'b' : 'a', needed: null };
  return { rows, better, worse, p, says: 'even', needed: rowsNeeded(rows, better, worse) };
}

/**
 * McNemar's exact test, two-sided: the rows that only one has right are tosses of a coin if both are equally
 * good. Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
 * percentages", Psychometrika 12 (1947), 153–157.
 */
export function mcNemar(better: number, worse: number): number {
  const all = better + worse;
  const fewer = Math.min(better, worse);
  let sum = 0;
  // Binomial chances of 0, 1, … of `all`, as logarithms: 2^-all is 0 beyond 1,074 rows.
  let log = -all * Math.LN2;
  for (let k = 0; k <= fewer; k++) {
    sum += Math.exp(log);
    log += Math.log((all - k) / (k + 1));
  }
  return Math.min(1, 2 * sum);
}

/**
 * For 80 % power at 5 %. R. J. Connor, "Sample size for testing differences in proportions for the
 * paired-sample design", Biometrics 43 (1987), 207–211.
 */
function rowsNeeded(rows: number, better: number, worse: number): number | null {
  if (better === worse) return null;
  const difference = (better - worse) / rows;
  const discordant = (better + worse) / rows;
  const deviations = Z_ALPHA * Math.sqrt(discordant) + Z_POWER * Math.sqrt(discordant - difference ** 2);
  return Math.ceil((deviations / difference) ** 2);
}
