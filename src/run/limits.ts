import { count, duration } from '../figures.js';
import type { Fault } from '../model.js';
import type { RowCounts } from '../report/tally.js';

/** Limits of a job that end its run early, resumably. */
interface RunLimits {
  /** Rows that may fail (1 or more), or the fraction of the rows so far (below 1); `null` is no limit. */
  readonly stopAfterFailures: number | null;
  /** Longest time from the start of this process on, in milliseconds; `null` is no limit. */
  readonly deadlineMs: number | null;
}

/** A fraction of fewer rows than these says nothing. */
const FEWEST_ROWS = 20;

/**
 * The limit that a run has reached; null while it may go on.
 * @param rows the rows that are written, those of earlier executions included
 * @param ms how long this execution has worked
 */
export function reachedLimit(limits: RunLimits, rows: RowCounts, ms: number): Fault | null {
  const { stopAfterFailures: most, deadlineMs } = limits;
  if (most !== null && tooMany(rows, most)) {
    return {
      code: 'too_many_failures',
      message:
        `${count(rows.failed)} of ${count(rows.total)} rows failed, where limits.stop_after_failures is ${most}. ` +
        'Mend what makes them fail, or raise the limit.',
    };
  }
  if (deadlineMs !== null && ms >= deadlineMs) {
    return {
      code: 'deadline',
      message: `the run reached limits.deadline, ${duration(deadlineMs / 1000)}`,
    };
  }
  return null;
}

const tooMany = ({ failed, total }: RowCounts, most: number): boolean =>
  most >= 1 ? failed >= most : total >= FEWEST_ROWS && failed / total > most;
