import { type Judged, missText, type Require, unusableText, usableOf } from '../account/require.js';
import { StopError } from '../errors.js';

/**
 * The first rows of a run, which go ahead of the rest: when none of them has a usable answer, or fewer than
 * `answer.require` asks for, the prompt, the parameters or the deployment are wrong, and the rest is not sent.
 */
export class Canary {
  #release: () => void = () => {};
  #refuse: (error: StopError) => void = () => {};
  /** Settles when the first rows are written. Rejects with a StopError when they are not good enough. */
  readonly passed: Promise<void>;

  /** Number of the last row that goes ahead; 0 when none does. */
  readonly last: number;

  /**
   * @param rows how many rows go ahead; 0 is none
   * @param require what is asked of the answers; null is nothing
   * @param written the rows of earlier executions
   * @param before the last row that went ahead in them; undefined when none did
   */
  constructor(
    private readonly rows: number,
    private readonly require: Require | null,
    written: Judged,
    before: number | undefined,
  ) {
    this.last = rows > 0 ? lastAhead(rows, require, written, before) : 0;
    this.passed = new Promise((resolve, reject) => {
      this.#release = resolve;
      this.#refuse = reject;
    });
    // Nobody may be waiting for it: the run stopped before.
    this.passed.catch(() => {});
  }

  /** Takes the rows that are written, after each commit. The first look at all that go ahead decides. */
  looked(written: Judged): void {
    if (written.rows.total < this.last) return;
    const problem = problemOf(written, this.require);
    if (problem === null) this.#release();
    else
      this.#refuse(
        new StopError(
          'canary_failed',
          `the first rows are not good enough (limits.canary is ${this.rows}): ${problem}. Nothing else was sent.`,
          'See error_message in the part file, correct the job, and start over with --restart. ' +
            'With the job as it is, or with less in answer.require, the same command goes on.',
        ),
      );
  }

  /** Lets the producer go: the run stops for another reason. */
  close(): void {
    this.#release();
  }
}

/**
 * A resume begins with a canary again while no row has a usable answer, and when the last one was not passed. One that a
 * kill has cut short ends at the same row, so that its chunks are the same.
 */
function lastAhead(
  rows: number,
  require: Require | null,
  written: Judged,
  before: number | undefined,
): number {
  const { total } = written.rows;
  if (before !== undefined && total < before) return before;
  const again = total === before && problemOf(written, require) !== null;
  return again || usableOf(written) === 0 ? total + rows : 0;
}

/** What is wrong with rows that went ahead, in words; null when the rest may follow. */
function problemOf(written: Judged, require: Require | null): string | null {
  const { total, skipped } = written.rows;
  if (usableOf(written) === 0 && total > skipped) return unusableText(written);
  return missText(written, require);
}
