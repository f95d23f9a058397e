import type { Outcome, Row } from '../model.js';
import type { Looked } from '../reuse/reuse.js';

/** A row on its way through the queue, or past it. */
export interface WindowRow {
  readonly row: Row;
  /** The outcome that it has without a call: skipped, or failed before sending; null where it may need one. */
  readonly settled: Outcome | null;
  /** Under what its outcome is kept for others, or whose it takes over; null where nothing is reused. */
  readonly looked: Looked | null;
}

/** Consecutive rows on their way through the queue. */
export interface WindowChunk {
  /** Number of the first row; also the chunk's name in the ledger. */
  readonly first: number;
  readonly rows: readonly WindowRow[];
  /** How many of them are sent: so many the ledger has to know before the chunk can be written. */
  readonly sent: number;
  /** Bytes that the rows hold in memory and in the store, about. */
  readonly bytes: number;
  /** Processes of the run may have died of one of its rows: they are tried one by one, and the chunk is not in the queue. */
  readonly isApart: boolean;
}

/**
 * The rows that are handed to the queue and not yet written to the output, in input order. It bounds what
 * waits in memory and in the store: the producer waits for room, the collector makes it.
 */
export class Window {
  readonly #chunks: WindowChunk[] = [];
  #rows = 0;
  #sent = 0;
  #bytes = 0;
  #wake: (() => void) | null = null;
  #closed = false;

  constructor(
    /** Most rows in the window. */
    private readonly maxRows: number,
    /** Most bytes in the window; a single chunk may pass it, alone. */
    private readonly maxBytes: number,
  ) {}

  get rows(): number {
    return this.#rows;
  }

  /** Those of the rows that need a call. */
  get sent(): number {
    return this.#sent;
  }

  get full(): boolean {
    return this.#rows > 0 && (this.#rows >= this.maxRows || this.#bytes >= this.maxBytes);
  }

  /** Everything that was added is on disk, and nothing more comes. */
  get done(): boolean {
    return this.#closed && this.#chunks.length === 0;
  }

  all(): readonly WindowChunk[] {
    return this.#chunks;
  }

  /** The oldest chunks, at most `count`. */
  heads(count: number): readonly WindowChunk[] {
    return this.#chunks.slice(0, count);
  }

  /** Resolves when there is room, or when the window is closed. Only the producer waits here. */
  async room(): Promise<void> {
    while (!this.#closed && this.full) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  add(chunk: WindowChunk): void {
    this.#chunks.push(chunk);
    this.#rows += chunk.rows.length;
    this.#sent += chunk.sent;
    this.#bytes += chunk.bytes;
  }

  /** Drops the oldest chunks: they are on disk. */
  release(count: number): void {
    for (const chunk of this.#chunks.splice(0, count)) {
      this.#rows -= chunk.rows.length;
      this.#sent -= chunk.sent;
      this.#bytes -= chunk.bytes;
    }
    this.#wake?.();
  }

  /** Nothing more comes: the input has ended, or the run stops, and then a waiting producer may go. */
  close(): void {
    this.#closed = true;
    this.#wake?.();
  }
}
