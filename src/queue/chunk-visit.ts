import type { Entry, Ledger, Standing } from '../ledger/ledger.js';
import type { CalledOutcome } from '../model.js';
import type { Chunk, ChunkRow } from './chunk.js';

/** An answer of the ledger is good for this time, in milliseconds; then it is asked again before the next call. */
const FRESH_MS = 2_000;

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
    readonly chunk: Chunk,
    /** Attempts that the rows of the chunk have in all. */
    readonly attempts: number,
    standing: Standing,
    askedAt: number,
  ) {
    this.#standing = standing;
    this.#askedAt = askedAt;
  }

  static async begin(ledger: Ledger, chunk: Chunk, attempts: number): Promise<ChunkVisit> {
    const askedAt = performance.now();
    return new ChunkVisit(ledger, chunk, attempts, await ledger.standing(chunk, chunk.execution), askedAt);
  }

  get wanted(): boolean {
    return this.#standing.wanted && !this.#dropped;
  }

  /** The run was stopped: its rows come again with its next execution. */
  drop(): void {
    this.#dropped = true;
  }

  /** Whether the row is still to be called. */
  wants(row: ChunkRow): boolean {
    return this.wanted && !this.#standing.known.has(row.row);
  }

  unknownRows(): ChunkRow[] {
    return this.chunk.rows.filter((row) => this.wants(row));
  }

  /** Asks the ledger again when its last answer is old; all rows of the chunk share the question. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#askedAt < FRESH_MS) return;
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    await this.#asking;
  }

  async #ask(): Promise<void> {
    const askedAt = performance.now();
    this.#standing = await this.ledger.standing(this.chunk, this.chunk.execution);
    this.#askedAt = askedAt;
  }

  entry(row: ChunkRow, outcome: CalledOutcome): Entry {
    return { run: this.chunk.run, first: this.chunk.first, row: row.row, outcome };
  }
}
