import type { Logger } from 'pino';
import type { Chunk } from '../queue/chunk.js';
import { type ChunkQueue, MOST_LOSSES } from '../queue/chunk-queue.js';
import { chunkId } from '../queue/names.js';
import type { RunLease } from '../resume/lease.js';
import type { Execution } from '../resume/resume.js';
import { type Ledger, NO_DEATHS, NOTHING } from '../store/ledger.js';
import type { Producer } from './producer.js';
import type { Window, WindowChunk } from './window.js';

/** Milliseconds without progress after which the oldest chunk is requeued. */
const STUCK_MS = 5_000;
/** The same for a chunk that was taken apart: its rows are queued one at a time. */
const APART_MS = 250;
/**
 * Milliseconds after which an active entry without a lock is added again. BullMQ hands out an entry whose
 * lock expired sooner, if there is a worker; it may never notice a lock that is gone (fault 109).
 */
const UNLOCKED_MS = 120_000;
/** Shortest time between two reports of lost entries, in milliseconds. */
const TOLD_EVERY_MS = 60_000;

/**
 * Requeues the oldest chunk when it makes no progress. The queue is disposable: a lost entry (an empty store,
 * an expired lease) is added again, and a chunk that crashed its workers repeatedly is taken apart, so that
 * only the culprit ends `failed` (faults 35 and 44).
 */
export class Requeuer {
  /** The oldest chunk, its number of known rows, and since when. */
  #oldest = { first: 0, known: 0, since: performance.now(), lookedAt: performance.now() };
  readonly #apart = new Set<number>();
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly window: Window,
    private readonly producer: Producer,
    private readonly queue: ChunkQueue,
    private readonly ledger: Ledger,
    private readonly lease: RunLease,
    private readonly log: Logger,
    private readonly deaths: Execution['deaths'] = NO_DEATHS,
  ) {}

  /** @param known rows of the head that have an outcome */
  async onProgress(head: WindowChunk | undefined, known: number): Promise<void> {
    const now = performance.now();
    if (this.deaths.size > 0) {
      for (const { first, isApart } of this.window.all()) if (isApart) this.#apart.add(first);
    }
    const { first } = head ?? { first: 0 };
    if (first !== this.#oldest.first || known !== this.#oldest.known) {
      this.#oldest = { first, known, since: now, lookedAt: now };
    } else if (head !== undefined && now - this.#oldest.lookedAt > this.#patience(head)) {
      await this.#requeue(head);
      this.#oldest.lookedAt = now;
    }
  }

  #patience = ({ first }: WindowChunk): number => (this.#apart.has(first) ? APART_MS : STUCK_MS);

  async #requeue(head: WindowChunk): Promise<void> {
    const chunk = this.producer.again(head);
    if (chunk === null) return;
    if (!this.#apart.has(head.first)) await this.#requeueChunk(chunk);
    if (this.#apart.has(head.first)) await this.#tryNextRow(chunk);
  }

  async #requeueChunk(chunk: Chunk): Promise<void> {
    const { queue, log } = this;
    const id = chunkId(chunk.run, chunk.execution, chunk.first);
    const state = await queue.state(id);
    if (state === 'refused') {
      log.warn(
        { chunk: id },
        'a worker refuses rows, perhaps one of another version: they are added again for others',
      );
      await queue.remove(id);
      await queue.add([chunk]);
    } else if (state === 'missing' || (state === 'active' && this.#isUnlocked)) {
      await this.lease.renew();
      this.#tell(await queue.addAgain(await this.#lost(chunk)));
    } else if (state === 'failed') {
      log.warn({ chunk: id }, 'a chunk crashed its workers; trying its rows one by one');
      this.#apart.add(chunk.first);
      await queue.remove(id);
    }
  }

  /** By now an active entry without a lock would have been handed out again. */
  get #isUnlocked(): boolean {
    return performance.now() - this.#oldest.since > UNLOCKED_MS;
  }

  async #lost({ run, execution }: Chunk): Promise<readonly Chunk[]> {
    const { window, queue, ledger, producer } = this;
    const queued = window.all().filter(({ first, sent }) => sent > 0 && !this.#apart.has(first));
    const states = await Promise.all(queued.map(({ first }) => queue.state(chunkId(run, execution, first))));
    const missing = queued.filter(
      (_, i) => states[i] === 'missing' || (states[i] === 'active' && this.#isUnlocked),
    );
    // After the queue: an entry whose rows are all known is gone because it was done.
    const { counts } = await ledger.progress(
      run,
      missing.map(({ first }) => first),
    );
    return missing
      .filter(({ sent }, i) => (counts[i] ?? 0) < sent)
      .flatMap((each) => producer.again(each) ?? []);
  }

  #tell(entries: number): void {
    const now = performance.now();
    if (entries === 0) return;
    const level = now - this.#toldAt < TOLD_EVERY_MS ? 'debug' : 'warn';
    if (level === 'warn') this.#toldAt = now;
    this.log[level]({ entries }, 'the queue lost entries; they are added again');
  }

  /** Tries one row of the chunk at a time: beside the culprit, innocent rows would crash too. */
  async #tryNextRow(chunk: Chunk): Promise<void> {
    const { queue, ledger } = this;
    const known = await ledger.outcomes(chunk);
    const row = chunk.rows.find((each) => !known.has(each.row));
    if (row === undefined) return;
    const id = chunkId(chunk.run, chunk.execution, chunk.first, row.row);
    // Tried alone, it crashed a process of the run again.
    const isCulprit = (this.deaths.get(row.row) ?? 0) > MOST_LOSSES;
    const state = isCulprit ? 'failed' : await queue.state(id);
    if (state === 'missing') {
      await this.lease.renew();
      await queue.addAgain([{ ...chunk, rows: [row] }], () => row.row);
    } else if (state === 'failed') {
      const error = {
        code: 'worker_crashed',
        message: 'every worker that called this row ended before it answered',
      };
      const failed = { status: 'failed', error, attempts: 1, latency_ms: null } as const;
      // An answer that is invalid is better than none.
      const outcome = (await ledger.interim(chunk.run, [row.row])).get(row.row) ?? failed;
      const settled = [{ run: chunk.run, first: chunk.first, row: row.row, call: null, outcome }];
      await ledger.write({ ...NOTHING, settled });
      await queue.remove(id);
    }
  }
}
