import { PassThrough } from 'node:stream';
import { Halt } from '../core/halt.js';
import type { CheckReport } from '../run/check/check-report.js';
import type { Job } from './job.js';
import { haltOn, type JobOptions, open } from './open.js';
import { assertOptions, CHECKS, inProgram } from './options.js';

/**
 * Reports what a run would take, and which rows are bad: reads the whole input as a run does, renders the
 * prompts, counts tokens, and quotes cost and time. Sends nothing, and needs neither address nor key.
 * @param job a job from {@link defineJob}, or the path of a job file
 * @throws UsageError for what would keep a run from starting: an unusable field, template, column or input
 * @throws the reason of `signal`
 */
export async function check<A>(job: Job<A> | string, options: JobOptions = {}): Promise<CheckReport> {
  assertOptions<JobOptions>('check', CHECKS.check, options);
  const opened = open(job, options);
  const halt = new Halt();
  const release = haltOn(options.signal, halt);
  try {
    const { assertProgram } = await import('../run/on-finish.js');
    assertProgram(opened.job, opened.environment.variable);
    const { checkJob } = await import('../run/check/check-job.js');
    return await checkJob(opened.settings, {
      halt,
      stdin: opened.source.stream,
      stderr: new PassThrough().resume(),
      quiet: true,
    });
  } catch (error) {
    options.signal?.throwIfAborted();
    throw inProgram(error);
  } finally {
    release();
    opened.source.stream.destroy();
  }
}
