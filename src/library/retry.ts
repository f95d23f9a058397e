import { Halt } from '../core/halt.js';
import type { Outcome } from '../core/model.js';
import { begin, flagsOf, type RunOptions } from './begin.js';
import type { Job } from './job.js';
import { open } from './open.js';
import { assertOptions, assertPath, CHECKS, inProgram } from './options.js';
import { retryOf } from './output-job.js';
import type { RunResult } from './run.js';

/** Rows of an output to call again: those for which one of these is true. Without any, the failed rows. */
export interface RetryOptions extends Omit<RunOptions, 'limit'> {
  /** The current job. @default the job file named in the summary beside the output */
  readonly job?: Job<unknown> | string | undefined;
  /** The row ended with one of these. */
  readonly status?: readonly Outcome['status'][] | undefined;
  /** Its answer is invalid. @default false */
  readonly invalid?: boolean | undefined;
  /** Its label was left out for low confidence. @default false */
  readonly abstained?: boolean | undefined;
  /** Its number is one of these, from 1; as text `17,20-30`. */
  readonly row?: readonly number[] | string | undefined;
  /** Discards an unfinished retry of this output. @default false: it is continued */
  readonly restart?: boolean | undefined;
}

/** Result of a retry. `retried` rows were called again, and the summary is that of the output. */
export type RetryResult = RunResult & { readonly retried: number };

/**
 * Calls rows of a finished output again with the current job, and replaces their records, like `promptmill
 * retry`. The output is unchanged until the new one replaces it; the same call resumes a stopped retry.
 * @param output the output of a finished run, with its summary beside it
 * @param options `rows` must be those of the run. @default the input named in the summary
 * @throws UsageError when it cannot start; then nothing was sent
 * @throws the reason of `signal`, if nothing has begun
 */
export async function retry(output: string, options: RetryOptions = {}): Promise<RetryResult> {
  assertOptions<RetryOptions>('retry', CHECKS.retry, options);
  assertPath('retry', output);
  const { status, invalid, abstained, row, restart } = options;
  const selected = { status: status?.join(','), invalid, abstained, row: row && String(row) };
  const { job, input, flags, work } = found(output, selected, { job: options.job, input: options.rows });
  const opened = open(job, { ...options, rows: input }, { ...flagsOf(options), restart, ...flags });
  const { halted, ...result } = await begin(opened, options, new Halt(), work);
  return result;
}

const found: typeof retryOf = (...given) => {
  try {
    return retryOf(...given);
  } catch (error) {
    throw inProgram(error);
  }
};
