import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ErrorCode, type Job, type JobSchedulerJson, Queue, WaitingError, Worker } from 'bullmq';
import * as z from 'zod';
import { machineTimezone } from '../../config/cron.js';
import { UsageError } from '../../core/errors.js';
import { isShared, openStore } from '../../store/open.js';
import type { Store } from '../../store/store.js';
import { type Found, JOB_NAME, readSchedule, type ScheduledJob } from './job-files.js';

interface ScheduleStoreOptions {
  /** Value of `--queue`. */
  readonly queue: string;
  readonly stateDir: string;
  readonly onWarning: (message: string) => void;
}

/** Nothing can be scheduled: the embedded store of the schedule was never made. */
export const isNeverMade = ({ queue, stateDir }: Pick<ScheduleStoreOptions, 'queue' | 'stateDir'>): boolean =>
  !isShared(queue) && !existsSync(join(stateDir, 'schedule'));

/** Another process, usually `promptmill serve` for hours and days, has the embedded schedule store open. */
export class ScheduleInUseError extends UsageError {
  constructor(directory: string, cause: UsageError) {
    super(
      'schedule_in_use',
      `another process has the schedule in ${directory} open, most likely promptmill serve`,
      'serve looks at the job files itself, every minute, and at once when it gets SIGHUP. ' +
        'For any other change stop it first.',
      { cause },
    );
  }
}

/**
 * An embedded store is one beside those of the runs, so that it never blocks one.
 * @throws ScheduleInUseError when the embedded one is open elsewhere
 * @throws UsageError when the store cannot be used
 */
export async function openScheduleStore({
  queue,
  stateDir,
  onWarning,
}: ScheduleStoreOptions): Promise<Store> {
  const directory = join(stateDir, 'schedule');
  try {
    return await openStore(queue, { stateDir: directory, preferred: 'store', onWarning });
  } catch (error) {
    if (error instanceof UsageError && error.code === 'store_in_use')
      throw new ScheduleInUseError(directory, error);
    throw error;
  }
}

/**
 * Holds none of the job file's content. Anyone who can write to the store can forge it (fault 58), so it is
 * checked again where it is used.
 */
const tickData = z.strictObject({ job: z.string().regex(JOB_NAME), path: z.string().min(1) });
type TickData = z.output<typeof tickData>;

/** More schedulers would be a defect, and the list must have an end. */
const MOST = 10_000;

/** A rehearsal has its own queue, so that it takes no tick from a real `serve`. */
export const scheduleQueue = (emulated: boolean): string =>
  emulated ? 'promptmill-schedule-emulated' : 'promptmill-schedule';

interface SyncPlan {
  /** New jobs, and those whose job file has changed. */
  readonly put: readonly ScheduledJob[];
  readonly kept: readonly ScheduledJob[];
  /** Jobs that were looked at and whose job file or schedule is gone. */
  readonly removed: readonly ScheduledJob[];
}

export class Schedule {
  readonly #queue: Queue<TickData>;

  constructor(store: Store, emulated: boolean, onError: (error: Error) => void = () => {}) {
    this.#queue = new Queue(scheduleQueue(emulated), { connection: store.connection }, store.backendFactory);
    // Without a listener a lost connection would end the process; BullMQ reconnects by itself.
    this.#queue.on('error', onError);
  }

  async jobs(): Promise<ScheduledJob[]> {
    const schedulers = await this.#queue.getJobSchedulers(0, MOST, true);
    return schedulers
      .flatMap((scheduler) => scheduledJob(scheduler) ?? [])
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Repeating it changes nothing. */
  async sync(found: Found): Promise<SyncPlan> {
    const plan = planSync(await this.jobs(), found);
    for (const job of plan.put) await this.#put(job);
    for (const { name } of plan.removed) await this.remove(name);
    return plan;
  }

  /** @returns false when nothing is scheduled under this name */
  async remove(name: string): Promise<boolean> {
    const isRemoved = await this.#queue.removeJobScheduler(name);
    // BullMQ leaves an entry that is due and that nobody has.
    for (const { id = '', repeatJobKey } of await this.#queue.getJobs(['waiting', 'prioritized', 'delayed']))
      if (repeatJobKey === name) await this.#queue.remove(id).catch(unlessRefused);
    return isRemoved;
  }

  async #put({ name, path, cron, timezone }: ScheduledJob): Promise<void> {
    await this.#queue.upsertJobScheduler(
      name,
      { pattern: cron, tz: timezone },
      { name: 'tick', data: { job: name, path }, opts: { removeOnComplete: true, removeOnFail: true } },
    );
  }

  async close(): Promise<void> {
    await this.#queue.close();
  }
}

function scheduledJob({ key, pattern, tz, template }: JobSchedulerJson): ScheduledJob | null {
  const data = tickData.safeParse(template?.data);
  if (!data.success || pattern === undefined) return null;
  return { name: key, path: data.data.path, cron: pattern, timezone: tz ?? machineTimezone() };
}

/**
 * Leaves an unchanged schedule alone: putting it again would drop an iteration that is due, the one that
 * catches up after downtime (fault 47).
 * @throws UsageError when a job file elsewhere has a schedule under the same name
 */
export function planSync(known: readonly ScheduledJob[], found: Found): SyncPlan {
  const before = new Map(known.map((job) => [job.name, job]));
  for (const job of found.jobs) assertOwn(job, before.get(job.name), found);
  const isKept = (job: ScheduledJob): boolean => {
    const old = before.get(job.name);
    return (
      old !== undefined && old.path === job.path && old.cron === job.cron && old.timezone === job.timezone
    );
  };
  const names = new Set(found.jobs.map(({ name }) => name));
  const broken = new Set(found.broken.map(({ path }) => path));
  return {
    put: found.jobs.filter((job) => !isKept(job)),
    kept: found.jobs.filter(isKept),
    removed: known.filter(({ name, path }) => found.covers(path) && !names.has(name) && !broken.has(path)),
  };
}

/** A moved file takes its schedule along; a second file with the same name does not take the first one's. */
function assertOwn(job: ScheduledJob, old: ScheduledJob | undefined, found: Found): void {
  if (old === undefined || old.path === job.path || found.covers(old.path) || !claims(old)) return;
  throw new UsageError(
    'job_name_twice',
    `${old.path} has a schedule under the name ${job.name} already, and ${job.path} has the same name`,
    `Give one of them another name in the job file, or remove the first with: promptmill schedule remove ${job.name}`,
  );
}

function claims({ path, name }: ScheduledJob): boolean {
  if (!existsSync(path)) return false;
  try {
    return readSchedule(path)?.name === name;
  } catch {
    // A file that cannot be read now may be repaired tomorrow.
    return true;
  }
}

export interface Tick {
  /** Unique, and the same when the tick is handed out twice. */
  readonly entry: string;
  readonly job: string;
  /** Absolute path of the job file. */
  readonly path: string;
  readonly due: Date;
}

/** `taken`: its run has safely begun, or is not wanted. `left`: it goes back for the next `serve`. */
export type TickEnd = 'taken' | 'left';

interface TickOptions {
  readonly store: Store;
  readonly emulated: boolean;
  /** Resolves when the tick is taken or left; until then it stays with this process. */
  readonly onTick: (tick: Tick) => Promise<TickEnd>;
  readonly onError: (error: Error) => void;
}

/** Ticks handled together: those that wait for their turn must not hold back others. */
const AT_ONCE = 1_000;
/** Times that a tick may lose its process before it is given up. */
const MAX_STALLED = 3;

/** Each tick makes the next one of its job, so downtime leaves one late tick. */
export function listenForTicks({ store, emulated, onTick, onError }: TickOptions): {
  close(): Promise<void>;
} {
  const worker = new Worker<TickData>(
    scheduleQueue(emulated),
    async (entry, token) => {
      const tick = tickOf(entry);
      // A foreign entry in the queue; there is nothing to run for it.
      if (tick === null) return;
      if ((await onTick(tick)) === 'taken') return;
      await entry.moveToWait(token ?? '');
      throw new WaitingError();
    },
    {
      connection: store.connection,
      concurrency: AT_ONCE,
      maxStalledCount: MAX_STALLED,
    },
    store.backendFactory,
  );
  worker.on('error', onError);
  return worker;
}

function tickOf(entry: Job<TickData>): Tick | null {
  const data = tickData.safeParse(entry.data);
  // BullMQ's id of an iteration ends with its time.
  const due = /:(\d+)$/.exec(entry.id ?? '')?.[1];
  if (!data.success || entry.id === undefined || due === undefined) return null;
  return { entry: entry.id, ...data.data, due: new Date(Number(due)) };
}

/** Another process may have scheduled the job again: then the entry is the one that it waits for. */
function unlessRefused(error: unknown): void {
  if ((error as { readonly code?: unknown }).code !== ErrorCode.JobBelongsToJobScheduler) throw error;
}
