import { Queue } from 'bullmq';
import type { Logger } from 'pino';
import { within } from '../core/clock.js';
import { eachOf } from '../core/counters.js';
import type { Store } from '../store/store.js';
import { decodeChunk } from './chunk.js';

/** The states of an entry that has not ended, and `failed`: all that Promptmill's queues keep. */
const COUNTED = ['active', 'prioritized', 'waiting', 'delayed', 'failed'] as const;

type QueueDepth = Readonly<Record<(typeof COUNTED)[number], number>>;

/** Each costs a connection, and the names come from heartbeats, which anyone may write. */
const MOST_VIEWS = 20;

const CLOSE_MS = 1_000;

/** Names made by `queueName`, and the schedule's. */
const OUR_NAME = /^promptmill-[\w.-]{1,200}$/;

export interface QueueView {
  readonly name: string;
  /** BullMQ's own object, for Bull Board. */
  readonly queue: Queue;
  depth(): Promise<QueueDepth>;
}

export class QueueViews {
  readonly #open = new Map<string, QueueView>();

  constructor(
    private readonly store: Store,
    private readonly log: Logger,
  ) {}

  /** Closes all other views. Leaves out names that are not Promptmill's, and those after the first 20. */
  views(names: Iterable<string>): readonly QueueView[] {
    const wanted = new Set([...names].filter((name) => OUR_NAME.test(name)).slice(0, MOST_VIEWS));
    for (const [name, { queue }] of this.#open) {
      if (wanted.has(name)) continue;
      this.#open.delete(name);
      queue.close().catch(() => {});
    }
    for (const name of wanted) if (!this.#open.has(name)) this.#open.set(name, this.#view(name));
    return [...this.#open.values()];
  }

  #view(name: string): QueueView {
    const connection = this.store.connection;
    // A look must not write, not even the queue's own description.
    const queue = new Queue(name, { connection, skipMetasUpdate: true }, this.store.backendFactory);
    queue.on('error', (error) => this.log.debug({ err: error }, 'queue connection of the dashboard'));
    return {
      name,
      queue,
      depth: async () => {
        const counts = await queue.getJobCounts(...COUNTED);
        return eachOf(COUNTED, (state) => counts[state] ?? 0);
      },
    };
  }

  async close(): Promise<void> {
    const queues = [...this.#open.values()].map(({ queue }) => queue);
    this.#open.clear();
    // A goodbye to a store that is away would wait for its return.
    await within(CLOSE_MS, Promise.allSettled(queues.map((queue) => queue.close()))).catch(() => {});
  }
}

/** What may be shown of an entry: its place and size, and no prompts, which are user data. */
export function withoutPrompts(data: unknown): unknown {
  const chunk = decodeChunk(data);
  if (chunk === null) return 'no chunk of Promptmill, or of another version';
  const { rows, ...rest } = chunk;
  return { ...rest, last: rows.at(-1)?.row ?? chunk.first, rows: rows.length, prompts: 'not shown' };
}
