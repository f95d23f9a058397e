import { StopError } from '../errors.js';
import { count } from '../figures.js';
import type { RowCounts } from '../report/tally.js';

/**
 * The first rows of a run, which go ahead of the rest: when all of them fail, the prompt, the parameters or the
 * deployment are wrong, and the rest is not sent.
 */
export class Canary {
  #release: () => void = () => {};
  #refuse: (error: StopError) => void = () => {};
  /** Settles when the first rows are written. Rejects with a StopError when all of them failed. */
  readonly passed: Promise<void>;

  /** Number of the last row that goes ahead; 0 when none does. */
  readonly last: number;

  /**
   * @param rows how many rows go ahead; 0 is none
   * @param written the rows of earlier executions: while all of them failed, a resume begins with a canary again
   */
  constructor(
    private readonly rows: number,
    written: RowCounts,
  ) {
    this.last = rows > 0 && onlyFailed(written) ? written.total + rows : 0;
    this.passed = new Promise((resolve, reject) => {
      this.#release = resolve;
      this.#refuse = reject;
    });
    // Nobody may be waiting for it: the run stopped before.
    this.passed.catch(() => {});
  }

  /** Takes the rows that are written, after each commit. */
  looked(written: RowCounts): void {
    if (written.total < this.last) return;
    if (written.failed === 0 || !onlyFailed(written)) this.#release();
    else
      this.#refuse(
        new StopError(
          'canary_failed',
          `the first ${count(written.total)} rows all failed (limits.canary is ${this.rows}); nothing else was sent.`,
          'See error_message in the part file, mend the job, and start over with --restart.',
        ),
      );
  }

  /** Lets the producer go: the run stops for another reason. */
  close(): void {
    this.#release();
  }
}

const onlyFailed = ({ completed, filtered }: RowCounts): boolean => completed + filtered === 0;
