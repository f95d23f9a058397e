import type { Outcome, Row } from '../core/model.js';
import type { ReuseMatch } from '../resume/reuse.js';

export interface WindowRow {
  readonly row: Row;
  /** Outcome without a call: skipped, failed before sending, or answered elsewhere; null when the row may need a call. */
  readonly settled: Outcome | null;
  /** Key that keeps its outcome for others, or the source of its outcome; null when nothing is reused. */
  readonly looked: ReuseMatch | null;
}

export interface WindowChunk {
  /** Number of the first row; also the chunk's name in the ledger. */
  readonly first: number;
  readonly rows: readonly WindowRow[];
  /** Rows that are sent: the outcomes that the ledger must have before the chunk can be written. */
  readonly sent: number;
  /** Approximate bytes of the rows in memory and in the store. */
  readonly bytes: number;
  /** A row may have crashed processes: the rows are tried one by one, outside the queue. */
  readonly isApart: boolean;
}

/** Rows between queue and output, in input order. Bounds memory and store: the producer waits for room. */
export class Window {
  readonly #chunks: WindowChunk[] = [];
  #rows = 0;
  #sent = 0;
  #bytes = 0;
  #wake: (() => void) | null = null;
  #closed = false;
  #changed = (): void => {};

  constructor(
    private readonly maxRows: number,
    /** A single larger chunk is allowed, alone. */
    private readonly maxBytes: number,
  ) {}

  get rows(): number {
    return this.#rows;
  }

  get sent(): number {
    return this.#sent;
  }

  /** Nothing is added before chunks are released. */
  get isStill(): boolean {
    return this.#closed || this.full;
  }

  get full(): boolean {
    return this.#rows > 0 && (this.#rows >= this.maxRows || this.#bytes >= this.maxBytes);
  }

  get done(): boolean {
    return this.#closed && this.#chunks.length === 0;
  }

  all(): readonly WindowChunk[] {
    return this.#chunks;
  }

  heads(count: number): readonly WindowChunk[] {
    return this.#chunks.slice(0, count);
  }

  /** Resolves when there is room, or when the window is closed. For one waiter, the producer. */
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
    this.#changed();
  }

  release(count: number): void {
    for (const chunk of this.#chunks.splice(0, count)) {
      this.#rows -= chunk.rows.length;
      this.#sent -= chunk.sent;
      this.#bytes -= chunk.bytes;
    }
    this.#wake?.();
  }

  /** Also releases a waiting producer. */
  close(): void {
    this.#closed = true;
    this.#wake?.();
    this.#changed();
  }

  /** For one listener, the collector: a chunk was added, or the window was closed. */
  onChange(listener: () => void): void {
    this.#changed = listener;
  }
}
