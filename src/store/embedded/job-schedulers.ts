import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import type { JobJson, JobsOptions } from 'bullmq';
import * as z from 'zod';
import { errorCode, errorText, UsageError } from '../../core/errors.js';
import { parseJson } from '../../core/json.js';
import type { Entry, JobScheduler, QueueState } from './queue-state.js';

const options = z.custom<JobsOptions>((value) => typeof value === 'object' && value !== null);

const jobScheduler = z.strictObject({
  ...{ name: z.string(), next: z.number(), pattern: z.string(), tz: z.string().nullable() },
  ...{ iterations: z.int(), data: z.string(), opts: options },
});

const fileSchema = z.strictObject({
  v: z.literal(1),
  queues: z.record(
    z.string(),
    z.strictObject({
      schedulers: z.record(z.string(), jobScheduler),
      /** Entries that have not ended. */
      entries: z.array(
        z.strictObject({
          ...{ id: z.string(), scheduler: z.string(), name: z.string(), data: z.string(), opts: options },
          ...{ timestamp: z.number(), due: z.number() },
        }),
      ),
    }),
  ),
});
type Content = z.output<typeof fileSchema>;

type SchedulerSpec = Pick<JobScheduler, 'name' | 'next' | 'pattern' | 'tz' | 'data' | 'opts'>;

/** Entry id, as BullMQ forms it. */
const entryId = (scheduler: string, time: number): string => `repeat:${scheduler}:${time}`;

/** The new entry replaces one not taken yet. @returns null when a worker has the entry for this time */
export function putScheduler(
  queue: QueueState,
  id: string,
  wanted: SchedulerSpec,
  opts: JobsOptions,
): JobJson | null {
  const before = queue.schedulers.get(id);
  const last = before && queue.get(entryId(id, before.next));
  if (last?.state === 'delayed' || last?.state === 'waiting') queue.remove(last);
  if (queue.get(entryId(id, wanted.next)) !== undefined) return null;
  const scheduler = { ...wanted, iterations: before?.iterations ?? 1 };
  queue.schedulers.set(id, scheduler);
  return addEntry(queue, id, scheduler, opts);
}

/**
 * @param producer id of the taken entry, which makes one other, however often it is handed out
 * @returns null when there is none to make
 */
export function advanceScheduler(
  queue: QueueState,
  id: string,
  next: number,
  opts: JobsOptions,
  producer: string | undefined,
): JobJson | null {
  const before = queue.schedulers.get(id);
  if (before === undefined || producer !== entryId(id, before.next)) return null;
  if (queue.get(entryId(id, next)) !== undefined) return null;
  const scheduler = { ...before, next, iterations: before.iterations + 1 };
  queue.schedulers.set(id, scheduler);
  return addEntry(queue, id, scheduler, opts);
}

/** @returns false when there is no such scheduler */
export function removeScheduler(queue: QueueState, id: string): boolean {
  const next = queue.schedulers.get(id)?.next;
  const entry = next === undefined ? undefined : queue.get(entryId(id, next));
  if (entry?.state === 'delayed') queue.remove(entry);
  return queue.schedulers.delete(id);
}

/** BullMQ reads all of it as text. */
export function schedulerFields(scheduler: JobScheduler | undefined): Record<string, string> {
  if (scheduler === undefined) return {};
  const { name, iterations, pattern, tz, data, opts } = scheduler;
  return {
    name,
    ic: String(iterations),
    pattern,
    ...(tz !== null && { tz }),
    data,
    opts: JSON.stringify(opts),
  };
}

/** A scheduler makes no other entry while its next one exists. */
export const isNextOfScheduler = (queue: QueueState, { id, json }: Entry): boolean => {
  const scheduler = queue.schedulers.get(json.repeatJobKey ?? '');
  return scheduler !== undefined && id === entryId(json.repeatJobKey ?? '', scheduler.next);
};

function addEntry(
  queue: QueueState,
  id: string,
  { name, data, next }: JobScheduler,
  opts: JobsOptions,
): JobJson {
  const now = queue.clock.now();
  const delay = Math.max(0, next - now);
  const json = newEntry({
    ...{ id: entryId(id, next), name, data, timestamp: now, scheduler: id },
    opts: { ...opts, jobId: entryId(id, next), delay },
  });
  queue.add(json, next);
  return json;
}

const newEntry = ({
  scheduler,
  ...entry
}: Pick<JobJson, 'id' | 'name' | 'data' | 'opts' | 'timestamp'> & { scheduler: string }): JobJson => ({
  ...entry,
  repeatJobKey: scheduler,
  ...{ delay: entry.opts.delay ?? 0, priority: entry.opts.priority ?? 0, progress: 0 },
  ...{ attemptsMade: 0, attemptsStarted: 0, stalledCounter: 0, failedReason: '', returnvalue: 'null' },
});

/**
 * Job schedulers and their entries, on disk. The rest of a queue may die with the process, because the run
 * adds it again; nobody would add a schedule again, so times that pass while nothing serves are kept here.
 */
export class SchedulerFile {
  /** @param path created with the first scheduler */
  constructor(private readonly path: string) {}

  /** Loads the file into the queues. @throws UsageError when it is damaged, or of another version */
  read(queueOf: (name: string) => QueueState): void {
    for (const [name, { schedulers, entries }] of Object.entries(this.#content().queues)) {
      const queue = queueOf(name);
      for (const [id, scheduler] of Object.entries(schedulers)) queue.schedulers.set(id, scheduler);
      for (const { due, ...entry } of entries) queue.add(newEntry(entry), due);
    }
  }

  #content(): Content {
    let text: string;
    try {
      text = readFileSync(this.path, 'utf8');
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return { v: 1, queues: {} };
      throw error;
    }
    const content = fileSchema.safeParse(parseJson(text));
    if (content.success) return content.data;
    throw new UsageError(
      'bad_state_dir',
      `cannot read the schedule in ${this.path}: it is damaged, or of another version of Promptmill`,
      'Remove it, and schedule the job files again: promptmill schedule sync. What was due meanwhile is not caught up with.',
    );
  }

  /** @throws the file system's error; then the file stays as it was */
  write(queues: ReadonlyMap<string, QueueState>): void {
    const scheduled = [...queues].filter(
      ([, queue]) => queue.schedulers.size > 0 || ofSchedulers(queue).length > 0,
    );
    const content: Content = {
      v: 1,
      queues: Object.fromEntries(
        scheduled.map(([name, queue]) => [
          name,
          {
            schedulers: Object.fromEntries(queue.schedulers),
            entries: ofSchedulers(queue).map(({ state, rank, json }) => ({
              ...{ id: json.id, scheduler: json.repeatJobKey ?? '', name: json.name, data: json.data },
              ...{ opts: json.opts, timestamp: json.timestamp, due: state === 'delayed' ? rank : 0 },
            })),
          },
        ]),
      ),
    };
    const draft = `${this.path}.new`;
    const file = openSync(draft, 'w', 0o600);
    try {
      const bytes = Buffer.from(`${JSON.stringify(content)}\n`);
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(draft, this.path);
  }

  why(error: unknown): string {
    return `cannot note the schedule in ${this.path}: ${errorText(error)}`;
  }
}

const ofSchedulers = (queue: QueueState): Entry[] =>
  [...queue.entries].filter(
    ({ json, state }) => json.repeatJobKey !== undefined && state !== 'completed' && state !== 'failed',
  );
