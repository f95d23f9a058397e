import type { Logger } from 'pino';
import type { RunFlags } from '../config/settings.js';
import { errorText, PromptmillError } from '../errors.js';
import { runOpened } from '../library/run-opened.js';
import { LockedError } from '../lock.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import type { ScheduledRun, ScheduledRunEnd } from '../schedule/scheduler.js';
import { resultOf } from '../schedule/serve-state.js';
import { openJob } from './job.js';

/**
 * Runs a job like `promptmill run --overwrite`, in this process, with messages in the log. Reads the job file
 * and `.env` again.
 */
export async function runScheduled(
  scheduled: ScheduledRun,
  flags: RunFlags,
  log: Logger,
): Promise<ScheduledRunEnd> {
  try {
    const result = await runToEnd(scheduled, flags, log);
    if (result === null) {
      log.warn('not started: the job file has no schedule of this name any more');
      return { run: null, state: 'not started', result: 'its job file has no schedule any more' };
    }
    return endOf(result, log);
  } catch (error) {
    if (scheduled.halt.reason?.kind === 'signal')
      return { run: null, state: 'interrupted', result: 'before it began' };
    return notStarted(error, log);
  }
}

async function runToEnd(
  { job, path, halt, leave, onBegun }: ScheduledRun,
  flags: RunFlags,
  log: Logger,
): Promise<RunResult | null> {
  const opened = openJob(path, { ...flags, overwrite: true, scheduled: true });
  if (opened.job.schedule === undefined || opened.settings.job !== job) return null;
  const world = {
    halt,
    log,
    env: process.env,
    leave,
    stdin: process.stdin,
    stdout: process.stdout,
    onBegun: async (manifest: string | null) => {
      if (manifest !== null) await onBegun(manifest);
    },
  };
  return await runOpened(opened, world, runJob);
}

function endOf({ summary, halted }: RunResult, log: Logger): ScheduledRunEnd {
  const { run } = summary;
  const facts = { run, output: summary.output, ...summary.rejected };
  const result = resultOf(summary);
  if (halted === null) {
    const level = summary.missed !== null ? 'error' : summary.rows.failed > 0 ? 'warn' : 'info';
    const state = summary.rejected ? 'rejected' : 'finished';
    log[level](facts, `${state}: ${result}`);
    return { run, state, result };
  }
  if (halted.kind === 'signal') {
    log.info(facts, `interrupted: ${result}`);
    return { run, state: 'interrupted', result };
  }
  log.error(facts, `stopped early: ${summary.stopped}`);
  return { run, state: 'stopped', result };
}

/** A job that cannot run does not stop other jobs. */
function notStarted(error: unknown, log: Logger): ScheduledRunEnd {
  const message = errorText(error);
  if (error instanceof LockedError) log.warn(`skipped: ${message}`);
  else if (error instanceof PromptmillError)
    log.error(`not started: ${[message, error.hint].join('\n').trimEnd()}`);
  else log.error({ err: error }, 'ended by a defect; please report it');
  return { run: null, state: 'not started', result: message };
}
