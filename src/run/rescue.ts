import type { Logger } from 'pino';
import type { Chunk } from '../queue/chunk.js';
import type { ChunkQueue } from '../queue/chunk-queue.js';
import { chunkId } from '../queue/names.js';
import type { RunLease } from '../resume/lease.js';
import { type Ledger, NOTHING } from '../store/ledger.js';
import type { Producer } from './producer.js';
import type { Window, WindowChunk } from './window.js';

/** The oldest chunk is looked after when nothing has come of it for this time, in milliseconds. */
const STUCK_MS = 5_000;
/** The same for a chunk that was taken apart: its rows go into the queue one after the other. */
const APART_MS = 250;

/**
 * Looks after the oldest chunk when nothing has come of it for a while. The queue is disposable: an entry that
 * is gone (a store that came back empty, a lease that ran out) is added again, and a chunk whose workers
 * crashed again and again is taken apart, so that only the culprit ends `failed` (faults 35 and 44).
 */
export class Rescue {
  /** The oldest chunk, how many of its rows were known, and since when. */
  #oldest = { first: 0, known: 0, since: performance.now() };
  /** The first rows of chunks that were taken apart. */
  readonly #apart = new Set<number>();

  constructor(
    private readonly window: Window,
    private readonly producer: Producer,
    private readonly queue: ChunkQueue,
    private readonly ledger: Ledger,
    private readonly lease: RunLease,
    private readonly log: Logger,
  ) {}

  /**
   * Told of each look at the ledger.
   * @param head the oldest chunk that is not complete
   * @param known how many of its rows have an outcome
   */
  async looked(head: WindowChunk | undefined, known: number): Promise<void> {
    const now = performance.now();
    const { first } = head ?? { first: 0 };
    if (first !== this.#oldest.first || known !== this.#oldest.known) {
      this.#oldest = { first, known, since: now };
    } else if (head !== undefined && now - this.#oldest.since > this.#patience(head)) {
      await this.#rescue(head);
      this.#oldest = { first, known, since: now };
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
        'a worker refuses rows, perhaps one of an earlier version: they are added again for others',
      );
      await queue.remove(id);
      await queue.add([chunk]);
    } else if (state === 'missing') {
      log.warn({ chunk: id }, 'the queue lost entries; adding them again');
      await this.lease.renew();
      await queue.add(this.window.all().flatMap((each) => this.producer.again(each) ?? []));
    } else if (state === 'failed') {
      log.warn({ chunk: id }, 'a chunk crashed its workers; trying its rows one by one');
      this.#apart.add(chunk.first);
      await queue.remove(id);
    }
  }

  /** One row of a chunk that was taken apart, and only one: beside the culprit, innocents would crash with it. */
  async #rescueNextRow(chunk: Chunk): Promise<void> {
    const { queue, ledger } = this;
    const known = await ledger.outcomes(chunk);
    const row = chunk.rows.find((each) => !known.has(each.row));
    if (row === undefined) return;
    const id = chunkId(chunk.run, chunk.execution, chunk.first, row.row);
    const state = await queue.state(id);
    if (state === 'missing') {
      await this.lease.renew();
      await queue.add([{ ...chunk, rows: [row] }], () => row.row);
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
