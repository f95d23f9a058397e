import { randomBytes } from 'node:crypto';
import type { CalledOutcome } from '../model.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import { type Entry, type InFlight, type Ledger, OWN, type Standing } from '../store/ledger.js';
import type { Request } from './recorder.js';

/** An answer of the ledger is good for this time, in milliseconds; then it is asked again before the next call. */
const FRESH_MS = 2_000;

/** A call that has not ended so long after its deadline is one of a process that is gone, in milliseconds. */
const GONE_MS = 10_000;

/**
 * One worker's stay with one chunk. It knows what the ledger said of the chunk, and keeps asking: a process
 * that was frozen for longer than its lock finds its rows answered by another (faults 31 and 43).
 */
export class ChunkVisit {
  #standing: Standing;
  #askedAt: number;
  #asking: Promise<void> | null = null;
  #dropped = false;

  private constructor(
    private readonly ledger: Ledger,
    /** Name of its calls: who makes them, the execution, and what tells it from other visits. */
    private readonly call: string,
    readonly chunk: Chunk,
    /** Attempts that the rows of the chunk have in all. */
    readonly attempts: number,
    standing: Standing,
    askedAt: number,
  ) {
    this.#standing = standing;
    this.#askedAt = askedAt;
  }

  static async begin(
    ledger: Ledger,
    chunk: Chunk,
    attempts: number,
    /** Whether this process works on the run. */
    isOwn: boolean,
  ): Promise<ChunkVisit> {
    const askedAt = performance.now();
    const call = `${isOwn ? OWN : 'any:'}${chunk.execution}:${randomBytes(6).toString('base64url')}`;
    return new ChunkVisit(ledger, call, chunk, attempts, await standingOf(ledger, chunk), askedAt);
  }

  get wanted(): boolean {
    return this.#standing.wanted && !this.#dropped;
  }

  /** The run was stopped: its rows come again with its next execution. */
  drop(): void {
    this.#dropped = true;
  }

  /** Whether the row has no outcome yet. */
  isOpen(row: ChunkRow): boolean {
    return this.wanted && !this.#standing.known.has(row.row);
  }

  /** Whether the row is still to be called. */
  wants(row: ChunkRow): boolean {
    return this.isOpen(row) && !this.#isHeld(row);
  }

  /** Rows that are not called, because another call for them is in flight, or was when its process ended. */
  heldRows(): ChunkRow[] {
    return this.chunk.rows.filter((row) => this.isOpen(row) && this.#isHeld(row));
  }

  /** Whether the call that holds a row will not be heard of any more: its process is gone, or sleeps. */
  isLost(row: ChunkRow): boolean {
    const other = this.#standing.inFlight.get(row.row);
    if (other === undefined) return false;
    // A run has one process, and this execution means that the one before has ended.
    const execution = Number(other.call.split(':')[1]);
    if (other.call.startsWith(OWN) && execution < this.chunk.execution) return true;
    return other.ageMs > this.chunk.timeoutMs + GONE_MS;
  }

  #isHeld(row: ChunkRow): boolean {
    const other: InFlight | undefined = this.#standing.inFlight.get(row.row);
    return this.chunk.hold && other !== undefined && other.call !== this.call;
  }

  /** A request for rows of the chunk, as the ledger knows it. */
  request(rows: readonly ChunkRow[]): Request {
    const { run, execution, first, hold } = this.chunk;
    return { run, execution, first, hold, call: this.call, rows: rows.map(({ row }) => row) };
  }

  unknownRows(): ChunkRow[] {
    return this.chunk.rows.filter((row) => this.wants(row));
  }

  /** Asks the ledger again when its last answer is old; all rows of the chunk share the question. */
  async refresh(freshMs = FRESH_MS): Promise<void> {
    if (performance.now() - this.#askedAt < freshMs) return;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    await this.#asking;
  }

  async #ask(): Promise<void> {
    const askedAt = performance.now();
    this.#standing = await standingOf(this.ledger, this.chunk);
    this.#askedAt = askedAt;
  }

  /** @param ends whether the row's call is settled with it, in the same write */
  entry({ row }: ChunkRow, outcome: CalledOutcome, ends: boolean): Entry {
    const { run, first } = this.chunk;
    return { run, first, row, outcome, ...(ends && { call: this.call }) };
  }
}

const standingOf = (ledger: Ledger, chunk: Chunk): Promise<Standing> =>
  ledger.standing(chunk, chunk.execution, chunk.hold ? chunk.rows.map(({ row }) => row) : []);
