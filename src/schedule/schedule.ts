import { type JobSchedulerJson, Queue } from 'bullmq';
import { z } from 'zod';
import { machineTimezone } from '../config/cron.js';
import type { Store } from '../store/store.js';
import { type Found, JOB_NAME, type ScheduledJob } from './scheduled-jobs.js';
import { planSync, type SyncPlan } from './sync.js';

/**
 * What a scheduler hands to each of its iterations: where the job is, and nothing of what it says. Who can write to the store
 * can forge it (fault 58), so it is looked at again where it is used.
 */
export const fireData = z.strictObject({ job: z.string().regex(JOB_NAME), path: z.string().min(1) });
export type FireData = z.output<typeof fireData>;

/** Schedulers that a queue has at most; more would be a defect, and the list must have an end. */
const MOST = 10_000;

/** Name of the queue of the schedule. A rehearsal has one of its own, so that it takes no fire from a real `serve`. */
export const scheduleQueue = (emulated: boolean): string =>
  emulated ? 'promptmill-schedule-emulated' : 'promptmill-schedule';

/** The job schedulers in a store, one for each job with a schedule. */
export class Schedule {
  readonly #queue: Queue<FireData>;

  constructor(store: Store, emulated: boolean, onError: (error: Error) => void = () => {}) {
    this.#queue = new Queue(
      scheduleQueue(emulated),
      { connection: store.connectionFor('queue') },
      store.backendFactory,
    );
    // Without a listener a lost connection would end the process; it is made again by itself.
    this.#queue.on('error', onError);
  }

  /** Everything that is scheduled, by name. */
  async jobs(): Promise<ScheduledJob[]> {
    const schedulers = await this.#queue.getJobSchedulers(0, MOST, true);
    return schedulers
      .flatMap((scheduler) => scheduledJob(scheduler) ?? [])
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Makes the schedulers match the job files; the same again changes nothing. */
  async sync(found: Found): Promise<SyncPlan> {
    const plan = planSync(await this.jobs(), found);
    for (const job of plan.put) await this.#put(job);
    for (const { name } of plan.removed) await this.remove(name);
    return plan;
  }

  /** @returns false when nothing is scheduled under this name */
  async remove(name: string): Promise<boolean> {
    return this.#queue.removeJobScheduler(name);
  }

  async #put({ name, path, cron, timezone }: ScheduledJob): Promise<void> {
    await this.#queue.upsertJobScheduler(
      name,
      { pattern: cron, tz: timezone },
      { name: 'fire', data: { job: name, path }, opts: { removeOnComplete: true, removeOnFail: true } },
    );
  }

  async close(): Promise<void> {
    await this.#queue.close();
  }
}

function scheduledJob({ key, pattern, tz, template }: JobSchedulerJson): ScheduledJob | null {
  const data = fireData.safeParse(template?.data);
  if (!data.success || pattern === undefined) return null;
  return { name: key, path: data.data.path, cron: pattern, timezone: tz ?? machineTimezone() };
}
