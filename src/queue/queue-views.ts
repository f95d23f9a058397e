import { type Job, Queue } from 'bullmq';
import type { Logger } from 'pino';
import { within } from '../core/clock.js';
import { eachOf } from '../core/counters.js';
import type { Store } from '../store/store.js';
import { decodeChunk } from './chunk.js';
import { REFUSED } from './chunk-queue.js';

/** The states of an entry that has not ended, and `failed`: all that Promptmill's queues keep. */
const COUNTED = ['active', 'prioritized', 'waiting', 'delayed', 'failed'] as const;

type QueueDepth = Readonly<Record<(typeof COUNTED)[number], number>>;

/** Each costs a connection, and the names come from heartbeats, which anyone may write. */
const MOST_VIEWS = 20;

/** Failed entries read of each queue, with all their rows. */
const MOST_FAILED = 10;

const CLOSE_MS = 1_000;

/** Names made by `queueName`, and the schedule's. */
const OUR_NAME = /^promptmill-[\w.-]{1,200}$/;

/** Reasons that Promptmill and BullMQ give. Any other is the message of an error, which may quote a prompt. */
const KNOWN_REASON = new RegExp(`^(${REFUSED}|\\d+ of \\d+ rows to be tried again:|job (stalled|started) )`);

export interface FailedEntry {
  readonly id: string;
  /** Null for an entry that is no chunk. */
  readonly rows: readonly [first: number, last: number] | null;
  /** In ms since 1970. */
  readonly at: number | null;
  /** Null when its text may have a prompt in it. */
  readonly reason: string | null;
}

export interface QueueView {
  readonly name: string;
  depth(): Promise<QueueDepth>;
  /** The latest ones, up to ten. */
  failed(): Promise<readonly FailedEntry[]>;
}

interface OpenView extends QueueView {
  close(): Promise<void>;
}

export class QueueViews {
  readonly #open = new Map<string, OpenView>();

  constructor(
    private readonly store: Store,
    private readonly log: Logger,
  ) {}

  /** Closes all other views. Leaves out names that are not Promptmill's, and those after the first 20. */
  views(names: Iterable<string>): readonly QueueView[] {
    const wanted = new Set([...names].filter((name) => OUR_NAME.test(name)).slice(0, MOST_VIEWS));
    for (const [name, view] of this.#open) {
      if (wanted.has(name)) continue;
      this.#open.delete(name);
      view.close().catch(() => {});
    }
    for (const name of wanted) if (!this.#open.has(name)) this.#open.set(name, this.#view(name));
    return [...this.#open.values()];
  }

  #view(name: string): OpenView {
    const connection = this.store.connection;
    // A look must not write, not even the queue's own description.
    const queue = new Queue(name, { connection, skipMetasUpdate: true }, this.store.backendFactory);
    queue.on('error', (error) => this.log.debug({ err: error }, 'queue connection of the dashboard'));
    return {
      name,
      depth: async () => {
        const counts = await queue.getJobCounts(...COUNTED);
        return eachOf(COUNTED, (state) => counts[state] ?? 0);
      },
      failed: async () => {
        const jobs: readonly (Job | undefined)[] = await queue.getFailed(0, MOST_FAILED - 1);
        // An entry may go while the list is read.
        return jobs.flatMap((job) => (job?.id === undefined ? [] : [failedEntry(job, job.id)]));
      },
      close: () => queue.close(),
    };
  }

  async close(): Promise<void> {
    const views = [...this.#open.values()];
    this.#open.clear();
    // A goodbye to a store that is away would wait for its return.
    await within(CLOSE_MS, Promise.allSettled(views.map((view) => view.close()))).catch(() => {});
  }
}

function failedEntry({ data, failedReason = '', finishedOn: at = Number.NaN }: Job, id: string): FailedEntry {
  const chunk = decodeChunk(data);
  return {
    id,
    rows: chunk === null ? null : [chunk.first, chunk.rows.at(-1)?.row ?? chunk.first],
    at: Number.isFinite(new Date(at).getTime()) ? at : null,
    reason: KNOWN_REASON.test(failedReason) ? failedReason : null,
  };
}
