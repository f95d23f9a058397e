import { type Share, shareOf } from './score.js';

/** A confidence has six decimals, in columns and here. */
const STEPS = 1_000_000;

/** A threshold of confidence, and what it does to the rows whose right answer is known. */
export interface Threshold {
  /** A label with less confidence is no answer; from 0 to 1. */
  readonly threshold: number;
  /** Rows that have an answer. */
  readonly answered: number;
  /** Their share of the completed rows with gold, from 0 to 1. */
  readonly coverage: number;
  /** The share of them that is right, with its Wilson score interval of 95 %; null where no row is answered. */
  readonly accuracy: Share | null;
}

/**
 * How sure and how right labels are: what any threshold of confidence would do to them. It is exact, and takes 8 MB for any
 * number of rows.
 *
 * R. El-Yaniv and Y. Wiener, "On the foundations of noise-free selective classification", Journal of Machine Learning
 * Research 11 (2010), 1605–1641: the curve of accuracy over coverage.
 */
export class ConfidenceCurve {
  /** Rows, and right ones, by their confidence in millionths. */
  readonly #rows = new Uint32Array(STEPS + 1);
  readonly #right = new Uint32Array(STEPS + 1);
  #all = 0;

  /**
   * Counts a completed row with gold.
   * @param confidence in the label that the model said, also where it was left out; 0 where it is not known, `null` where
   *   the text is no label: such a row has no answer at any threshold
   * @param right whether this label is right
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
   * The lowest confidence as a threshold with which this share of the answered rows is right: the one that leaves most
   * answers.
   * @param accuracy from 0 to 1; the share itself has to reach it, and not the low end of its interval
   * @param least answered rows, with fewer of which a threshold does not count
   * @returns `null` where no threshold reaches it
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
