import { join } from 'node:path';
import { nextTimes } from '../../config/cron.js';
import { within } from '../../core/clock.js';
import { errorText, UsageError } from '../../core/errors.js';
import { makePrivateFolder, prepareStateDir, unwritable } from '../../core/folder.js';
import type { Halt } from '../../core/halt.js';
import { acquireLock } from '../../core/lock.js';
import { silenceOf } from '../../store/store.js';
import { type Found, findScheduledJobs, type ScheduledJob } from './job-files.js';
import { listenForTicks, openScheduleStore, Schedule } from './schedule.js';
import { Scheduler, type SchedulerOptions } from './scheduler.js';
import { JobStates, noteSchedule, serveFolder } from './serve-state.js';

interface ServeOptions extends Pick<SchedulerOptions, 'jobs' | 'run' | 'log'> {
  readonly paths: readonly string[];
  readonly queue: string;
  readonly stateDir: string;
  /** A rehearsal: its schedule and notes are kept apart from real ones. */
  readonly emulated: boolean;
  /** Starts the dashboard, once this process is sure to be the one that serves; null for none. */
  readonly dashboard: (() => Promise<{ close(): Promise<void> }>) | null;
  readonly halt: Halt;
  /** Registers a callback for when the job files should be looked at now. */
  readonly onLookNow: (look: () => void) => void;
}

const LOOK_MS = 60_000;
const LEAVE_MS = 5_000;

/**
 * Completes interrupted runs, catches up once with what was missed, and runs what is due, until halted.
 * @throws UsageError when the paths, the state directory or the store cannot be used, or another `serve` runs
 */
export async function serve(options: ServeOptions): Promise<void> {
  const { stateDir, emulated, dashboard } = options;
  const found = findScheduledJobs(options.paths);
  const folder = serveFolder(stateDir, emulated);
  prepareStateDir(stateDir);
  makePrivateFolder(folder);
  const lock = await acquireLock(join(folder, 'lock'), { purpose: 'promptmill serve' }).catch((error) => {
    throw error instanceof UsageError ? error : unwritable(stateDir, error);
  });
  try {
    const shown = await dashboard?.();
    try {
      await follow(found, folder, options);
    } finally {
      await shown?.close();
    }
  } finally {
    lock.release();
  }
}

async function follow(found: Found, folder: string, options: ServeOptions): Promise<void> {
  const { queue, stateDir, emulated, jobs, run, log, halt } = options;
  if (emulated) log.warn('a rehearsal: an emulator answers, and outputs have .emulated before their endings');
  const store = await openScheduleStore({ queue, stateDir, onWarning: (message) => log.warn(message) });
  const onError = (error: Error): void => log.debug({ err: error }, 'schedule connection');
  const schedule = new Schedule(store, emulated, onError);
  const over = new AbortController();
  // Container engines give ten seconds, whatever state the store is in (fault 82).
  const away = halt.requested.then(() => silenceOf(store, over.signal));
  store.health.onProblem((problem) => halt.request({ kind: 'stop', problem }));
  try {
    const startedAt = new Date();
    const files = new JobFiles(options, schedule, folder);
    await halt.orHalted(files.sync(found)).catch((error) => {
      throw store.health.usageErrorFor(error);
    });
    const states = new JobStates(folder);
    const follows = (path: string): boolean => files.follows(path);
    const scheduler = new Scheduler({ states, jobs, run, log, follows, startedAt });
    await scheduler.resume();
    const ticks = listenForTicks({ store, emulated, onTick: (tick) => scheduler.ticked(tick), onError });
    const stopLooking = files.watch();
    log.info({ queue: store.describe(), jobs }, 'serving the schedule');

    await halt.requested;
    stopLooking();
    const { running } = scheduler;
    log.info(
      { running },
      running.length === 0 ? 'leaving' : 'leaving: what runs goes on with the next serve',
    );
    // Takes no more ticks; those that wait for their turn go back.
    const deaf = ticks.close();
    await scheduler.leave(
      halt.reason?.kind === 'signal' && halt.reason.signal === 'SIGINT' ? 'SIGINT' : 'SIGTERM',
    );
    await Promise.race([within(LEAVE_MS, deaf), away]).catch(() => {});
  } finally {
    await Promise.race([within(LEAVE_MS, schedule.close()), away]).catch(() => {});
    over.abort();
    await store.close();
  }
}

/** Keeps the schedulers equal to the job files while `serve` runs. */
class JobFiles {
  #seen = '';
  #follows: Found['covers'] = () => false;
  #looking: Promise<void> = Promise.resolve();

  constructor(
    private readonly options: ServeOptions,
    private readonly schedule: Schedule,
    private readonly folder: string,
  ) {}

  follows(path: string): boolean {
    return this.#follows(path);
  }

  async sync(found: Found): Promise<void> {
    const { log } = this.options;
    this.#follows = found.covers;
    for (const { path, error } of found.broken)
      log.error({ path, advice: error.hint }, `${error.message}; its schedule stays as it was`);
    const { put, kept, removed } = await this.schedule.sync(found);
    for (const job of put) log.info(lineOf(job), 'scheduled');
    for (const job of kept) log.info(lineOf(job), 'still scheduled');
    for (const { name } of removed) log.info({ job: name }, 'not scheduled any more');
    const jobs = await this.schedule.jobs();
    if (jobs.length === 0) log.warn({ paths: this.options.paths }, 'no job file has a schedule');
    await noteSchedule(this.folder, jobs, found.broken);
    this.#seen = sight(found);
  }

  /** @returns a function that stops it */
  watch(): () => void {
    const look = (): void => {
      this.#looking = this.#looking.then(() => this.#look());
    };
    const timer = setInterval(look, LOOK_MS);
    timer.unref();
    this.options.onLookNow(look);
    return () => clearInterval(timer);
  }

  /** A schedule removed by hand stays removed until a job file changes. */
  async #look(): Promise<void> {
    const { paths, log, halt } = this.options;
    if (halt.reason !== null) return;
    try {
      const found = findScheduledJobs(paths);
      if (sight(found) !== this.#seen) await this.sync(found);
    } catch (error) {
      log.error(`cannot follow the job files: ${errorText(error)}`);
    }
  }
}

const sight = ({ jobs, broken }: Found): string =>
  JSON.stringify([jobs, broken.map(({ path, error }) => [path, error.message])]);

const lineOf = (job: ScheduledJob) => ({
  job: job.name,
  cron: job.cron,
  timezone: job.timezone,
  next: nextTimes(job, new Date(), 1)[0],
});
