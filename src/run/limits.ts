import { duration } from '../figures.js';
import type { Fault } from '../model.js';
import { invalidOf, type Judged, unusableText } from '../report/require.js';

/** Limits of a job that end its run early, resumably. */
interface RunLimits {
  /** Rows that may fail or have an invalid answer (1 or more), or the fraction of the rows so far (below 1); `null` is no limit. */
  readonly stopAfterFailures: number | null;
  /** Longest time from the start of this process on, in milliseconds; `null` is no limit. */
  readonly deadlineMs: number | null;
}

/** A fraction of fewer rows than these says nothing. */
const FEWEST_ROWS = 20;

/**
 * The limit that a run has reached; null while it may go on.
 * @param written the rows that are written, those of earlier executions included
 * @param ms how long this execution has worked
 */
export function reachedLimit(limits: RunLimits, written: Judged, ms: number): Fault | null {
  const { stopAfterFailures: most, deadlineMs } = limits;
  if (most !== null && tooMany(written, most)) {
    return {
      code: 'too_many_failures',
      message:
        `${unusableText(written)}, where limits.stop_after_failures is ${most}. ` +
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

function tooMany(written: Judged, most: number): boolean {
  const { failed, total } = written.rows;
  const unusable = failed + invalidOf(written);
  return most >= 1 ? unusable >= most : total >= FEWEST_ROWS && unusable / total > most;
}
