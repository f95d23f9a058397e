import { existsSync, readFileSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import type { Logger } from 'pino';
import { type Environment, readEnvironment } from '../config/environment.js';
import { logLevelOf, type RunFlags } from '../config/settings.js';
import { errorText, PromptmillError } from '../core/errors.js';
import { Halt } from '../core/halt.js';
import { LockedError } from '../core/lock.js';
import { packageFile } from '../core/package-file.js';
import { runOpened } from '../library/run-opened.js';
import { scheduleQueue } from '../ops/schedule/schedule.js';
import type { ScheduledRun, ScheduledRunEnd } from '../ops/schedule/scheduler.js';
import { serve } from '../ops/schedule/serve.js';
import { notedProblems, resultOf, serveFolder } from '../ops/schedule/serve-state.js';
import { startWeb } from '../ops/web/web.js';
import { QueueViews } from '../queue/queue-views.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import { isShared, openBoard, openStore, QUEUE_FORMS } from '../store/open.js';
import type { UnderWay } from './exit-message.js';
import { openJob, wholeNumber } from './job.js';
import { createLog } from './log.js';
import { type Exit, haltOnSignals } from './signals.js';

interface Options extends Pick<RunFlags, 'queue' | 'emulate' | 'logLevel'> {
  readonly jobs: number;
  readonly dashboard: boolean;
  readonly host: string;
  readonly port: number;
}

const EXAMPLES = `
Examples:
  $ promptmill serve
      follow the schedules of the job files in jobs/
  $ promptmill serve jobs/nightly.yaml --jobs 1 --no-dashboard
  $ promptmill serve --emulate
      rehearse a night without a bill, into outputs of its own

Runs each job when it is due, once at a time, and once after downtime for all
the times it missed. The output of a scheduled run replaces one of the same
name: {{date}} or {{run}} in output.path keeps them apart. One whose answers are
below answer.require is named .rejected, and the good one stays. SIGTERM and
Ctrl-C halt what runs, and the next serve completes it. The job files are read
every minute, and at once after SIGHUP. The dashboard needs
PROMPTMILL_DASHBOARD_PASSWORD. Exit codes: 0 ended by a signal; 2 did not
start; 3 the queue cannot be used any longer.
`;

export function serveCommand(exit: Exit, underWay: UnderWay): Command {
  return new Command('serve')
    .description('run what the schedule starts, until it is stopped')
    .argument('[paths...]', 'job files, or folders of them (default: jobs)')
    .option('--queue <url>', `${QUEUE_FORMS} (default: embedded)`)
    .option('--jobs <n>', 'jobs that run at the same time', wholeNumber, 2)
    .option('--host <address>', 'where the dashboard listens', '127.0.0.1')
    .option('--port <n>', 'port of the dashboard; 0 is a free one', portNumber, 7300)
    .option('--no-dashboard', 'serve without a dashboard')
    .option('--emulate', 'call an emulator of the service on this machine instead of the service')
    .option('--log-level <level>', 'fatal, error, warn, info, debug, trace or silent (default: info)')
    .addHelpText('after', EXAMPLES)
    .action(async (paths: string[], options: Options) => {
      exit(await serveUntilSignal(paths, options, exit, underWay));
    });
}

async function serveUntilSignal(
  paths: string[],
  options: Options,
  exit: Exit,
  underWay: UnderWay,
): Promise<number> {
  const environment = readEnvironment(process.env);
  // Runs start unattended, so the log must say what was done.
  const level = logLevelOf(options.logLevel ?? environment.variable('PROMPTMILL_LOG_LEVEL') ?? 'info');
  const queue = options.queue ?? environment.queue;
  const { host, port, emulate: emulated = false } = options;
  const flags: RunFlags = { queue, emulate: emulated, logLevel: level };
  const log = createLog(level);
  const folder = serveFolder(environment.stateDir, emulated);
  const problems = (): string[] => notedProblems(folder).map(({ problem }) => problem);
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  const followed = paths.length > 0 ? paths : jobsFolder(log);
  if (!emulated && followed.length > 0) warnOfMissing(environment, log);
  try {
    await serve({
      paths: followed,
      queue,
      stateDir: environment.stateDir,
      emulated,
      jobs: options.jobs,
      run: (scheduled) => {
        underWay.begin('Start it again: it goes on with what ran.');
        return runScheduled(scheduled, flags, log.child({ job: scheduled.job }));
      },
      log,
      dashboard: options.dashboard
        ? () => startDashboard({ environment, queue, emulated, host, port, log, problems })
        : null,
      halt,
      onLookNow: (look) => process.on('SIGHUP', look),
    });
    if (halt.reason?.kind !== 'stop') return 0;
    const { code, message } = halt.reason.problem;
    log.error(`cannot serve any longer: ${code}: ${message}`);
    return 3;
  } catch (error) {
    // Stopped before it served anything.
    if (halt.reason?.kind !== 'signal') throw error;
    return 0;
  } finally {
    release();
  }
}

/** Warns now, not at night when the first job starts. `.env` is read again then, so it can still be set. */
function warnOfMissing({ baseUrl, keys }: Environment, log: Logger): void {
  const missing = [
    ...(baseUrl === undefined ? ['PROMPTMILL_BASE_URL'] : []),
    ...(keys.length === 0 ? ['PROMPTMILL_API_KEY'] : []),
  ];
  if (missing.length > 0)
    log.warn(`${missing.join(' and ')} not set: no job can start. Put it into .env, or use --emulate.`);
}

/** Without a jobs folder, serve only shows what other processes run. */
function jobsFolder(log: Logger): string[] {
  if (existsSync('jobs')) return ['jobs'];
  log.warn('there is no folder jobs here, so nothing is run by the clock');
  return [];
}

function portNumber(value: string): number {
  if (/^\d{1,5}$/.test(value) && Number(value) < 65_536) return Number(value);
  throw new InvalidArgumentError(`must be a port from 0 to 65535, got ${value}`);
}

interface DashboardOptions {
  readonly environment: Environment;
  readonly queue: string;
  readonly emulated: boolean;
  readonly host: string;
  readonly port: number;
  readonly log: Logger;
  readonly problems: () => readonly string[];
}

/**
 * Starts the dashboard of a store. With the embedded store it shows runs and workers only: each queue is
 * inside the process of its run.
 * @throws UsageError without a password, and when the address or the store is not available
 */
export async function startDashboard(options: DashboardOptions): Promise<{ close(): Promise<void> }> {
  const { environment, emulated, host, port, log, problems } = options;
  const { keyValue, queues, close } = await openViews(options);
  try {
    const { dashboardUser: user, dashboardPassword: password } = environment;
    const alsoQueues = [scheduleQueue(emulated)];
    const web = await startWeb({
      keyValue,
      queues,
      alsoQueues,
      login: { user, password },
      host,
      port,
      version: version(),
      problems,
      log,
    });
    log.info({ url: web.url, user }, 'the dashboard listens');
    return {
      close: async () => {
        await web.close();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openViews({ environment, queue, log }: DashboardOptions) {
  const options = { stateDir: environment.stateDir, onWarning: () => {} };
  if (!isShared(queue)) return { ...(await openBoard(queue, options)), queues: null };
  const store = await openStore(queue, options);
  const queues = new QueueViews(store, log);
  return {
    keyValue: store.keyValue,
    queues,
    close: async () => {
      await Promise.all([queues.close(), store.close()]);
    },
  };
}

const version = (): string => JSON.parse(readFileSync(packageFile('package.json'), 'utf8')).version;

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
  const context = {
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
  return await runOpened(opened, context, runJob);
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
