import { setTimeout as sleep } from 'node:timers/promises';
import { type Job, type JobType, Queue } from 'bullmq';
import type { Logger } from 'pino';
import { errorText } from '../core/errors.js';
import type { Store } from '../store/store.js';
import { type Chunk, type ChunkData, decodeChunk, encodeChunk } from './chunk.js';
import { chunkId, isEntryOf } from './names.js';

const AGAIN_MS = 1_000;
/** The user hears of refused entries no more often than this. */
const TOLD_EVERY_MS = 60_000;

const ASKED_EVERY_MS = 1_000;
/** More than one, because one may have come back from a retry, which goes before all others. */
const ASKED = 3;

/** Workers that a chunk may lose before it is given up (fault 44); 1 would give it up at the second crash. */
export const MOST_LOSSES = 3;

/** Seconds and entries. They tell the producer that a chunk crashed its workers; it removes those. */
export const KEEP_FAILED = { age: 24 * 3600, count: 1000 };

/**
 * `queue.rateLimit` pauses only workers with a limiter, by counting more than `max` entries as taken. This
 * one never triggers by itself: no worker takes so many entries in a second.
 */
export const ENTRY_LIMIT = { max: 1_000_000_000, duration: 1_000 } as const;

const NO_TOKEN = '0';

/** Prefix of a worker's reason to refuse an entry; the same in every version, as fleets change one by one. */
export const REFUSED = 'refused:';

/**
 * `missing`: never added, lost by the store in full or in part, or done, as finished chunks are not kept.
 * `refused`: a worker of another version does not know what the entry asks for.
 */
type ChunkState = 'queued' | 'active' | 'failed' | 'refused' | 'missing';

/** The producer's side of a deployment's queue. */
export class ChunkQueue {
  readonly #queue: Queue<ChunkData>;
  #left = false;
  #toldAt = Number.NEGATIVE_INFINITY;
  #askedAt = Number.NEGATIVE_INFINITY;
  readonly #order = new FairOrder();
  /** Entry → workers lost while they held it. */
  readonly #losses = new Map<string, number>();
  readonly #givenUp = new Set<string>();

  /** @param attempts calls for one row before it ends failed; BullMQ is the only owner of retries */
  constructor(
    store: Store,
    readonly name: string,
    private readonly attempts: number,
    private readonly log: Logger,
  ) {
    this.#queue = new Queue(name, { connection: store.connection }, store.backendFactory);
    // Without a listener a lost connection would end the process; ioredis reconnects by itself.
    this.#queue.on('error', (error) => log.debug({ err: error }, 'queue connection'));
  }

  /**
   * Safe to repeat: an id that is there keeps its old entry (fault 36).
   * @param alone the only row of each chunk, when rows of a failed chunk are tried one by one
   */
  async add(chunks: readonly Chunk[], alone?: (chunk: Chunk) => number): Promise<void> {
    while (!this.#left) {
      try {
        await this.#addOnce(chunks, alone);
        return;
      } catch (error) {
        // A full or read-only store accepts entries again when workers have made room (fault 34).
        this.#tell(error);
        await sleep(AGAIN_MS);
      }
    }
  }

  #tell(error: unknown): void {
    const now = performance.now();
    const level = now - this.#toldAt < TOLD_EVERY_MS ? 'debug' : 'warn';
    if (level === 'warn') this.#toldAt = now;
    const reason = errorText(error);
    this.log[level]({ reason }, 'the queue refuses entries; they wait until it takes them');
  }

  async #addOnce(chunks: readonly Chunk[], alone?: (chunk: Chunk) => number): Promise<void> {
    const next = chunks.find(({ first }) => this.#order.isNew(first));
    if (next !== undefined && performance.now() - this.#askedAt >= ASKED_EVERY_MS) {
      this.#order.begin(next.first, await this.#reached());
      this.#askedAt = performance.now();
    }
    await this.#queue.addBulk(
      chunks.map((chunk) => ({
        name: 'chunk',
        data: encodeChunk(chunk),
        opts: {
          jobId: idOf(chunk, alone),
          attempts: this.attempts,
          priority: this.#order.priorityOf(chunk.first),
          backoff: { type: 'custom' },
          // Nothing reads finished entries: the outcomes are in the ledger.
          removeOnComplete: true,
          removeOnFail: KEEP_FAILED,
          stackTraceLimit: 1,
        },
      })),
    );
  }

  /** Progress of the queue: the priority of the last entry taken, else of the next one. */
  async #reached(): Promise<number | null> {
    const active = await this.#queue.getJobs(['active'], 0, ASKED - 1);
    const [first] = active.length > 0 ? active : await this.#next();
    if (first === undefined) return null;
    // Anyone who can write to the store may add an entry without a priority.
    return Math.max(1, ...[first, ...active].map((job) => job.priority || 1));
  }

  async #next(): Promise<Job<ChunkData>[]> {
    const waiting = await this.#queue.getJobs(['prioritized'], 0, 0, true);
    return waiting.length > 0 ? waiting : this.#queue.getJobs(['delayed'], 0, 0, true);
  }

  async state(id: string): Promise<ChunkState> {
    if (this.#givenUp.has(id)) return 'failed';
    const state = await this.#queue.getJobState(id);
    if (state === 'active') return state;
    if (state === 'prioritized' || state === 'waiting' || state === 'delayed') return 'queued';
    if (state !== 'failed') return 'missing';
    const job = await this.#queue.getJob(id);
    const { failedReason = '' } = job ?? {};
    // BullMQ gives a reason for everything it fails.
    if (failedReason === '') return 'missing';
    if (!failedReason.startsWith(REFUSED)) return 'failed';
    return decodeChunk(job?.data) === null ? 'missing' : 'refused';
  }

  /**
   * Adds chunks again whose entries the store lost, in part or in full. Removes the rest of them first,
   * because BullMQ treats an id as present while anything of it is left. A locked entry stays until its lock
   * ends; one that was active and is no longer locked has lost its worker, and may be `failed` after that.
   * @returns how many entries were missing and are there now
   */
  async addAgain(chunks: readonly Chunk[], alone?: (chunk: Chunk) => number): Promise<number> {
    const ids = chunks.map((chunk) => idOf(chunk, alone));
    await Promise.all(ids.map((id) => this.#clear(id)));
    const gone = await this.#missing(ids);
    await this.add(
      chunks.filter((chunk) => !this.#givenUp.has(idOf(chunk, alone))),
      alone,
    );
    return gone - (await this.#missing(ids));
  }

  async #clear(id: string): Promise<void> {
    const wasActive = (await this.state(id)) === 'active';
    const isRemoved = (await this.#queue.remove(id)) === 1;
    if (!wasActive || !isRemoved) return;
    const losses = (this.#losses.get(id) ?? 0) + 1;
    this.#losses.set(id, losses);
    if (losses > MOST_LOSSES) this.#givenUp.add(id);
  }

  async #missing(ids: readonly string[]): Promise<number> {
    const states = await Promise.all(ids.map((id) => this.state(id)));
    return states.filter((state) => state === 'missing').length;
  }

  async remove(id: string): Promise<void> {
    this.#givenUp.delete(id);
    await this.#queue.remove(id);
  }

  /**
   * Requeues what lost workers hold, before the locks expire; after too many losses an entry is `failed`, as
   * if BullMQ had counted them. Only the process of the run does this. Each entry is read once more: its
   * worker, awake again, or BullMQ may have requeued it and another worker taken it.
   */
  async requeueHeldBy(run: string, workers: ReadonlySet<string>): Promise<void> {
    const active = await this.#queue.getJobs(['active']);
    const held = active.filter((job) => job?.data?.run === run && workers.has(job.processedBy ?? ''));
    let moved = 0;
    for (const job of held) {
      const id = job.id ?? '';
      const now = await this.#queue.getJob(id);
      if (now?.attemptsStarted !== job.attemptsStarted) continue;
      const losses = (this.#losses.get(id) ?? 0) + 1;
      if (losses + job.stalledCounter <= MOST_LOSSES) await job.moveToWait(NO_TOKEN);
      else {
        // BullMQ would keep a failed entry from being removed until the lock of the lost worker ends.
        await job.moveToCompleted(null, NO_TOKEN, false);
        this.#givenUp.add(id);
      }
      this.#losses.set(id, losses);
      moved++;
    }
    if (moved > 0)
      this.log.warn({ workers: [...workers], chunks: moved }, 'workers are silent; others get their chunks');
  }

  /** Removes a run's entries, except those that a worker holds: those find that they are not wanted. */
  async withdraw(run: string): Promise<void> {
    const types: JobType[] = ['waiting', 'prioritized', 'delayed', 'failed'];
    const ids: string[] = [];
    for (let start = 0; ; start += 100) {
      const jobs = await this.#queue.getJobs(types, start, start + 99);
      for (const job of jobs) if (job?.id !== undefined && isEntryOf(run, job.id)) ids.push(job.id);
      if (jobs.length === 0) break;
    }
    for (const id of ids) await this.#queue.remove(id);
  }

  async close(): Promise<void> {
    this.#left = true;
    await this.#queue.close();
  }
}

const idOf = (chunk: Chunk, alone?: (chunk: Chunk) => number): string =>
  chunkId(chunk.run, chunk.execution, chunk.first, alone?.(chunk));

/** BullMQ's last priority; 1 is the first. */
const LAST = 2 ** 21 - 1;
/** Rows that share a priority, so that there is room for the order of a hundred million rows. */
const ROWS_PER_PRIORITY = 50;

/**
 * Priorities of one run's chunks among those of other runs of its queue: start-time fair queueing (Goyal, Vin
 * and Cheng, SIGCOMM 1996). A run begins where the queue is and advances by its own rows. So runs that began
 * at different times take turns, row for row, and none waits for the others to end.
 *
 * Within a run earlier rows go first, also after a retry or a wait. Without a priority they would queue
 * behind the whole window, and the output would stand still until all of it is called.
 *
 * Beyond the last priority, after a hundred million rows during which the queue was never empty, entries go
 * in the order they were added.
 */
export class FairOrder {
  /** Priority of row 0, if there were one; null before the first chunk. */
  #offset: number | null = null;
  #last = 0;

  /** Whether the queue has not had this chunk before. */
  isNew(first: number): boolean {
    return first > this.#last;
  }

  /**
   * A run that added nothing for a while begins at the queue's progress again: it does not get unused turns
   * later, at the cost of the others.
   * @param reached priority of an entry being worked on or next; null in an empty queue
   */
  begin(first: number, reached: number | null): void {
    const own = stepOf(first);
    if (this.#offset === null) this.#offset = (reached ?? 1) - own;
    else if (reached !== null) this.#offset = Math.max(this.#offset, reached - own);
    this.#last = first;
  }

  priorityOf(first: number): number {
    this.#last = Math.max(this.#last, first);
    return Math.min(LAST, Math.max(1, (this.#offset ?? 1) + stepOf(first)));
  }
}

const stepOf = (first: number): number => Math.floor(first / ROWS_PER_PRIORITY);
