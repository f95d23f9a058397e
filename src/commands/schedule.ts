import { Command } from 'commander';
import { type Environment, readEnvironment } from '../config/environment.js';
import { UsageError } from '../core/errors.js';
import { readRuns, type SeenRun } from '../ops/heartbeat.js';
import { findScheduledJobs, type ScheduledJob } from '../ops/schedule/job-files.js';
import { isNeverMade, openScheduleStore, Schedule, ScheduleInUseError } from '../ops/schedule/schedule.js';
import { listed, renderSchedule, timesOf } from '../ops/schedule/schedule-list.js';
import { notedSchedule, readJobStates, serveFolder, standingProblems } from '../ops/schedule/serve-state.js';
import { terminalText } from '../render/terminal-text.js';
import { openBoard, QUEUE_FORMS } from '../store/open.js';
import type { Exit } from './signals.js';

interface Options {
  readonly queue?: string;
  readonly json?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill schedule sync
      the job files in jobs/ that have a schedule
  $ promptmill schedule sync jobs/nightly.yaml
  $ promptmill schedule list
  $ promptmill schedule remove nightly-topics
      until the next sync finds its job file

The schedule is in the store of --queue; promptmill serve follows it, and syncs
by itself when it starts. Exit codes: 0 done; 2 refused or failed.
`;

export function scheduleCommand(exit: Exit): Command {
  const command = new Command('schedule')
    .description('make the schedule match the job files, and show it')
    .addHelpText('after', EXAMPLES);
  const add = (name: string, description: string): Command =>
    command
      .command(name)
      .description(description)
      .option('--queue <url>', `${QUEUE_FORMS} (default: embedded)`)
      .exitOverride();
  add('sync', 'schedule the job files that have a schedule; drop those that are gone or have none')
    .argument('[paths...]', 'job files, or folders of them (default: jobs)')
    .action(async (paths: string[], options: Options) => {
      await sync(paths.length === 0 ? ['jobs'] : paths, options);
      exit(0);
    });
  add('list', 'show what is scheduled, its next five times, and how the last run ended')
    .option('--json', 'print it as JSON')
    .action(async (options: Options) => {
      await list(options);
      exit(0);
    });
  add('remove', 'drop the schedule of a job')
    .argument('<job>', 'name of the job')
    .action(async (name: string, options: Options) => {
      await remove(name, options);
      exit(0);
    });
  return command;
}

const say = (line: string): void => {
  process.stderr.write(`${terminalText(line)}\n`);
};

async function withSchedule<T>(
  options: Options,
  environment: Environment,
  work: (schedule: Schedule) => Promise<T>,
): Promise<T> {
  const store = await openScheduleStore({
    queue: options.queue ?? environment.queue,
    stateDir: environment.stateDir,
    onWarning: (message) => say(`warning: ${message}`),
  });
  const schedule = new Schedule(store, false);
  try {
    return await work(schedule);
  } finally {
    await schedule.close();
    await store.close();
  }
}

async function sync(paths: readonly string[], options: Options): Promise<void> {
  const found = findScheduledJobs(paths);
  const [broken] = found.broken;
  if (broken !== undefined) throw broken.error;
  const { put, kept, removed } = await withSchedule(options, readEnvironment(process.env), (schedule) =>
    schedule.sync(found),
  );
  const tell = (what: string, jobs: readonly ScheduledJob[]): void => {
    for (const job of jobs)
      say(`${what}: ${job.name} (${job.cron}, ${job.timezone}), next ${timesOf(job, new Date(), 1)[0]}`);
  };
  tell('scheduled', put);
  tell('unchanged', kept);
  for (const { name } of removed) say(`removed: ${name}`);
  if (put.length + kept.length === 0) say(`no job file in ${paths.join(', ')} has a schedule`);
}

async function list(options: Options): Promise<void> {
  const environment = readEnvironment(process.env);
  const jobs = await scheduled(options, environment);
  const now = new Date();
  const folder = serveFolder(environment.stateDir);
  const states = readJobStates(folder);
  const entries = listed(jobs, { states, runs: await lastBeats(options, environment) }, now);
  const problems = standingProblems(folder, jobs);
  if (options.json) process.stdout.write(`${JSON.stringify([...entries, ...problems], null, 2)}\n`);
  else if (entries.length === 0) say('nothing is scheduled; promptmill schedule sync looks at the job files');
  else process.stdout.write(renderSchedule(entries, now));
  if (options.json) return;
  for (const { problem } of problems) say(`not usable: ${problem.replaceAll('\n', '\n  ')}`);
}

async function scheduled(options: Options, environment: Environment): Promise<ScheduledJob[]> {
  const { stateDir } = environment;
  if (isNeverMade({ queue: options.queue ?? environment.queue, stateDir })) return [];
  try {
    return await withSchedule(options, environment, (schedule) => schedule.jobs());
  } catch (error) {
    // The embedded store has one user at a time; when that is serve, read the schedule serve has noted.
    if (error instanceof ScheduleInUseError) return notedSchedule(serveFolder(stateDir));
    throw error;
  }
}

async function lastBeats({ queue }: Options, environment: Environment): Promise<SeenRun[]> {
  const opened = await openBoard(queue ?? environment.queue, {
    stateDir: environment.stateDir,
    onWarning: () => {},
  });
  try {
    return readRuns(await opened.keyValue.list('run'));
  } finally {
    await opened.close();
  }
}

async function remove(name: string, options: Options): Promise<void> {
  const environment = readEnvironment(process.env);
  if (await withSchedule(options, environment, (schedule) => schedule.remove(name))) {
    say(`removed: ${name}`);
    return;
  }
  throw new UsageError(
    'not_scheduled',
    `nothing is scheduled under the name ${name}`,
    'promptmill schedule list shows all that are.',
  );
}
