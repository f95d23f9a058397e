import { type AnswerCounts, missText, type Require, unusableText, usableOf } from '../account/require.js';
import { StopError } from '../core/errors.js';

/**
 * Rows sent ahead of the rest. When none has a usable answer, or too few for `answer.require`, the prompt,
 * the parameters or the deployment are wrong, and the rest is not sent.
 */
export class Canary {
  #release: () => void = () => {};
  #refuse: (error: StopError) => void = () => {};
  /** Settles when the first rows are written; rejects with a StopError when they are not good enough. */
  readonly passed: Promise<void>;

  /** Number of the last row that goes ahead; 0 when none does. */
  readonly last: number;

  /**
   * @param rows 0 for no canary
   * @param written the rows of earlier executions
   * @param before the last row that went ahead in them; undefined when none did
   */
  constructor(
    private readonly rows: number,
    private readonly require: Require | null,
    written: AnswerCounts,
    before: number | undefined,
  ) {
    this.last = rows > 0 ? lastAhead(rows, require, written, before) : 0;
    this.passed = new Promise((resolve, reject) => {
      this.#release = resolve;
      this.#refuse = reject;
    });
    // The run may stop before anything waits for it.
    this.passed.catch(() => {});
  }

  /** Called after each commit. The first call with all rows of the canary decides. */
  looked(written: AnswerCounts): void {
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

  close(): void {
    this.#release();
  }
}

/**
 * A resume has a new canary while no row has a usable answer, or when the last canary failed. A canary cut
 * short by a crash ends at the same row, so that its chunks are the same.
 */
function lastAhead(
  rows: number,
  require: Require | null,
  written: AnswerCounts,
  before: number | undefined,
): number {
  const { total } = written.rows;
  if (before !== undefined && total < before) return before;
  const again = total === before && problemOf(written, require) !== null;
  return again || usableOf(written) === 0 ? total + rows : 0;
}

function problemOf(written: AnswerCounts, require: Require | null): string | null {
  const { total, skipped } = written.rows;
  if (usableOf(written) === 0 && total > skipped) return unusableText(written);
  return missText(written, require);
}
