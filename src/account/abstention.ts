import { type Share, shareOf } from './score.js';

/** Confidences have six decimals. */
const STEPS = 1_000_000;

export interface Threshold {
  /** From 0 to 1; a label with less confidence is no answer. */
  readonly threshold: number;
  readonly answered: number;
  /** `answered` as a share of the completed rows with gold, from 0 to 1. */
  readonly coverage: number;
  /** Share of `answered` that is right, with its 95 % Wilson interval; null if no row is answered. */
  readonly accuracy: Share | null;
}

/**
 * Exact for any threshold, and takes 8 MB for any number of rows. The curve of accuracy over coverage: R.
 * El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification", Journal of Machine
 * Learning Research 11 (2010), 1605–1641.
 */
export class ConfidenceCurve {
  /** By confidence in millionths. */
  readonly #rows = new Uint32Array(STEPS + 1);
  readonly #right = new Uint32Array(STEPS + 1);
  #all = 0;

  /**
   * Counts a completed row with gold.
   * @param confidence in the model's label, even if it was left out; 0 if unknown, `null` if the text is no
   *   label: then the row has no answer at any threshold
   * @param right whether the model's label is right
   */
  add(confidence: number | null, right: boolean): void {
    this.#all += 1;
    if (confidence === null) return;
    const step = stepOf(confidence);
    this.#rows[step] = (this.#rows[step] ?? 0) + 1;
    if (right) this.#right[step] = (this.#right[step] ?? 0) + 1;
  }

  /** @param threshold from 0 to 1 */
  at(threshold: number): Threshold {
    let [answered, right] = [0, 0];
    for (let step = stepOf(threshold); step <= STEPS; step++) {
      answered += this.#rows[step] ?? 0;
      right += this.#right[step] ?? 0;
    }
    const coverage = this.#all === 0 ? 0 : answered / this.#all;
    return { threshold, answered, coverage, accuracy: shareOf(right, answered) };
  }

  /**
   * The lowest threshold at which this share of the answered rows is right: the one that keeps most answers.
   * @param accuracy from 0 to 1; compared with the share itself, not with the low end of its interval
   * @param least fewer answered rows do not count
   * @returns `null` if no threshold reaches it
   */
  lowest(accuracy: number, least: number): Threshold | null {
    let [answered, right] = [0, 0];
    let lowest: number | null = null;
    for (let step = STEPS; step >= 0; step--) {
      const rows = this.#rows[step] ?? 0;
      if (rows === 0) continue;
      answered += rows;
      right += this.#right[step] ?? 0;
      if (answered >= least && right / answered >= accuracy) lowest = step;
    }
    return lowest === null ? null : this.at(lowest / STEPS);
  }
}

const stepOf = (confidence: number): number => Math.round(Math.min(Math.max(0, confidence), 1) * STEPS);
