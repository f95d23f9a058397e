import type { Logger } from 'pino';
import type { Chunk } from '../queue/chunk.js';
import { type ChunkQueue, MOST_LOSSES } from '../queue/chunk-queue.js';
import { chunkId } from '../queue/names.js';
import type { RunLease } from '../resume/lease.js';
import type { Execution } from '../resume/resume.js';
import { type Ledger, NO_DEATHS, NOTHING } from '../store/ledger.js';
import type { Producer } from './producer.js';
import type { Window, WindowChunk } from './window.js';

/** The oldest chunk is looked after when nothing has come of it for this time, in milliseconds. */
const STUCK_MS = 5_000;
/** The same for a chunk that was taken apart: its rows go into the queue one after the other. */
const APART_MS = 250;
/**
 * An entry without a lock that passes for active is added again after this time, in milliseconds. BullMQ hands out one whose
 * lock ran out before that, where a worker is there; of one whose lock is gone it may never know (fault 109).
 */
const UNLOCKED_MS = 120_000;
/** A store that loses entries again and again is told of no more often than this, in milliseconds. */
const TOLD_EVERY_MS = 60_000;

/**
 * Looks after the oldest chunk when nothing has come of it for a while. The queue is disposable: an entry that
 * is gone (a store that came back empty, a lease that ran out) is added again, and a chunk whose workers
 * crashed again and again is taken apart, so that only the culprit ends `failed` (faults 35 and 44).
 */
export class Rescue {
  /** The oldest chunk, how many of its rows were known, and since when. */
  #oldest = { first: 0, known: 0, since: performance.now(), lookedAt: performance.now() };
  /** The first rows of chunks that were taken apart. */
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

  /**
   * Told of each look at the ledger.
   * @param head the oldest chunk that is not complete
   * @param known how many of its rows have an outcome
   */
  async looked(head: WindowChunk | undefined, known: number): Promise<void> {
    const now = performance.now();
    if (this.deaths.size > 0) {
      for (const { first, isApart } of this.window.all()) if (isApart) this.#apart.add(first);
    }
    const { first } = head ?? { first: 0 };
    if (first !== this.#oldest.first || known !== this.#oldest.known) {
      this.#oldest = { first, known, since: now, lookedAt: now };
    } else if (head !== undefined && now - this.#oldest.lookedAt > this.#patience(head)) {
      await this.#rescue(head);
      this.#oldest.lookedAt = now;
    }
  }

  #patience = ({ first }: WindowChunk): number => (this.#apart.has(first) ? APART_MS : STUCK_MS);

  async #rescue(head: WindowChunk): Promise<void> {
    const chunk = this.producer.again(head);
    if (chunk === null) return;
    if (!this.#apart.has(head.first)) await this.#rescueChunk(chunk);
    if (this.#apart.has(head.first)) await this.#rescueNextRow(chunk);
  }

  async #rescueChunk(chunk: Chunk): Promise<void> {
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

  /** An entry that passes for active and has no lock would have been handed out again by now. */
  get #isUnlocked(): boolean {
    return performance.now() - this.#oldest.since > UNLOCKED_MS;
  }

  /** The chunks of the window that want calls and have no entry, or perhaps one that nobody works on. */
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

  /** One row of a chunk that was taken apart, and only one: beside the culprit, innocents would crash with it. */
  async #rescueNextRow(chunk: Chunk): Promise<void> {
    const { queue, ledger } = this;
    const known = await ledger.outcomes(chunk);
    const row = chunk.rows.find((each) => !known.has(each.row));
    if (row === undefined) return;
    const id = chunkId(chunk.run, chunk.execution, chunk.first, row.row);
    // Tried alone, it has taken a process of the run with it once more.
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
      // An answer that did not fit is more than none.
      const outcome = (await ledger.interim(chunk.run, [row.row])).get(row.row) ?? failed;
      const settled = [{ run: chunk.run, first: chunk.first, row: row.row, call: null, outcome }];
      await ledger.write({ ...NOTHING, settled });
      await queue.remove(id);
    }
  }
}
