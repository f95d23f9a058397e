import { type AnswerCounts, invalidOf, unusableText } from '../account/require.js';
import { count, counted, duration } from '../core/figures.js';
import type { Problem } from '../core/model.js';

interface RunLimits {
  /** Rows that may be without an answer: a count (1 or more), or a fraction of the rows so far (below 1). */
  readonly stopAfterFailures: {
    /** Failed rows and rows with an invalid answer. @default no limit */
    readonly failures?: number | undefined;
    /** Rows that abstained. @default no limit */
    readonly abstained?: number | undefined;
  };
  /** Longest time since the start of this process, in milliseconds; `null` for no limit. */
  readonly deadlineMs: number | null;
}

/** A fraction of fewer rows than this is not significant. */
const FEWEST_ROWS = 20;

/**
 * @param written includes the rows of earlier executions
 * @param ms how long this execution has worked
 */
export function reachedLimit(limits: RunLimits, written: AnswerCounts, ms: number): Problem | null {
  const { stopAfterFailures: most, deadlineMs } = limits;
  const { rows, abstained = 0 } = written;
  if (tooMany(rows.failed + invalidOf(written), rows.total, most.failures)) {
    return {
      code: 'too_many_failures',
      message:
        `${unusableText(written)}, where limits.stop_after_failures is ${most.failures}. ` +
        'Mend what makes them fail, or raise the limit.',
    };
  }
  if (tooMany(abstained, rows.total, most.abstained)) {
    return {
      code: 'too_many_abstained',
      message:
        `${count(abstained)} of ${counted(rows.total, 'row')} abstained, where limits.stop_after_failures.abstained is ` +
        `${most.abstained}. Raise the limit, or correct the prompt and start over with --restart.`,
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

function tooMany(rows: number, total: number, most = Number.POSITIVE_INFINITY): boolean {
  return most >= 1 ? rows >= most : total >= FEWEST_ROWS && rows / total > most;
}
