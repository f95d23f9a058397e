import { existsSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import type { Logger } from 'pino';
import { type Environment, readEnvironment } from '../config/environment.js';
import { logLevelOf, type RunFlags } from '../config/settings.js';
import { Halt } from '../halt.js';
import { serve } from '../schedule/serve.js';
import { notedProblems, serveFolder } from '../schedule/serve-state.js';
import { QUEUE_FORMS } from '../store/open.js';
import { startDashboard } from './dashboard.js';
import { wholeNumber } from './job.js';
import type { UnderWay } from './last-words.js';
import { createLog } from './log.js';
import { runScheduled } from './scheduled-run.js';
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
    const { code, message } = halt.reason.fault;
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
