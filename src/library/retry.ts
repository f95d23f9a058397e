import { readSummary } from '../account/read-summary.js';
import { UsageError } from '../errors.js';
import { Halt } from '../halt.js';
import type { Outcome } from '../model.js';
import { finishedOutput } from '../resume/finished-output.js';
import { outputFiles } from '../resume/output-files.js';
import { retryOutput } from '../retry/retry.js';
import { readSelection, selectionText } from '../retry/selection.js';
import { begin, flagsOf, type RunOptions } from './begin.js';
import type { Job } from './job.js';
import { open } from './open.js';
import type { RunResult } from './run.js';

/** Which rows of an output are called again: all for which one of these is true. Without any it is the failed ones. */
export interface RetryOptions extends Omit<RunOptions, 'limit'> {
  /** The job, as it is now. @default the job file that the summary beside the output names */
  readonly job?: Job<unknown> | string | undefined;
  /** The row ended with one of these. */
  readonly status?: readonly Outcome['status'][] | undefined;
  /** Its answer is invalid. @default false */
  readonly invalid?: boolean | undefined;
  /** Its label was left out for want of confidence. @default false */
  readonly abstained?: boolean | undefined;
  /** Its number is one of these, from 1; in words `17,20-30`. */
  readonly row?: readonly number[] | string | undefined;
  /** Discards an unfinished retry of this output. @default false: it is continued */
  readonly restart?: boolean | undefined;
}

/** What came of a retry. `retried` rows were called again, and the summary is that of the output. */
export type RetryResult = RunResult & { readonly retried: number };

/**
 * Calls rows of a finished output again, with the job as it is now, and puts their records in the places of the old ones, as
 * `promptmill retry` does. The output stays as it is until the new one takes its name; the same call goes on with a retry that was
 * stopped.
 * @param output the output of a finished run, with its summary beside it
 * @param options `rows` must be those of the run. @default where the summary says that they were
 * @throws UsageError when it cannot start; then nothing was sent
 * @throws the reason of `signal`, where nothing has begun
 */
export async function retry(output: string, options: RetryOptions = {}): Promise<RetryResult> {
  const { status, invalid, abstained, row, restart } = options;
  const selection = readSelection({
    ...{ status: status?.join(','), invalid, abstained },
    row: row === undefined ? undefined : String(row),
  });
  finishedOutput(output);
  const { job_file: file, input } = readSummary(outputFiles(output).summary);
  const { job = file, rows = input.path } = options;
  if (job === undefined) {
    throw new UsageError(
      'job_unknown',
      `the summary beside ${output} names no job file`,
      'Give the job as the option job: it says what is called.',
    );
  }
  const flags = { ...flagsOf(options), output, restart, retry: selectionText(selection) };
  const opened = open(job, { ...options, rows }, flags);
  const { halted, ...result } = await begin(opened, options, new Halt(), (settings, world) =>
    retryOutput(settings, selection, world),
  );
  return result;
}
