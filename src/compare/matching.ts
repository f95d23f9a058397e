import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { UsageError } from '../core/errors.js';
import { count } from '../core/figures.js';
import { OffsetIndex } from '../core/offset-index.js';
import { type Output, type OutputRecord, type RecordedJob, RecordReader } from '../output/reader.js';
import { keyOf } from '../prompt/reuse-keys.js';

export interface Side {
  readonly output: Pick<Output, 'name' | 'format'>;
  readonly job?: RecordedJob;
  readonly records: AsyncIterable<readonly OutputRecord[]>;
  /** Identifies a row; `null`: its number does. */
  readonly idOf: ((record: OutputRecord) => string) | null;
}

export interface Match {
  readonly a: OutputRecord;
  readonly b: OutputRecord;
}

/** Remembered rows: the index takes up to 100 MB. */
const MOST_ROWS = 3_000_000;

/**
 * Finds the rows of one output in another. Reads both once, in step, while they have the same rows in the
 * same order. From the first difference on, it remembers the rest of `a` by hashes of ids, and reads its
 * records again when `b` has their rows.
 */
export class Matching {
  readonly #a: Cursor;
  readonly #b: Cursor;
  readonly #index: OffsetIndex;
  #onlyInA = 0;
  #onlyInB = 0;

  /**
   * @param plainA gives a plain file with the bytes of `a`; called only if `b` has the rows in another order
   * @param signal ends it, also while rows are remembered. @default none
   */
  constructor(
    private readonly a: Side,
    private readonly b: Side,
    private readonly plainA: () => Promise<string>,
    signal?: AbortSignal,
  ) {
    this.#a = new Cursor(a.records, signal);
    this.#b = new Cursor(b.records, signal);
    this.#index = new OffsetIndex(MOST_ROWS, { offsets: false });
  }

  /** Complete when all matches are. */
  get onlyInA(): number {
    return this.#onlyInA;
  }

  get onlyInB(): number {
    return this.#onlyInB;
  }

  /**
   * Rows in both, in the order of `b`.
   * @throws UsageError for an id of two rows, too many rows, or, without ids, outputs of different length
   * @throws the reason of the signal
   */
  async *matches(): AsyncGenerator<readonly Match[]> {
    try {
      yield* this.#inStep();
      if (this.a.idOf === null || this.b.idOf === null) await this.#assertSameLength();
      else yield* this.#inAnyOrder(this.a.idOf, this.b.idOf);
    } finally {
      await Promise.all([this.#a.close(), this.#b.close()]);
    }
  }

  /** Ends at the end of either, or at the first difference, which is then next in both. */
  async *#inStep(): AsyncGenerator<Match[]> {
    const { idOf } = this.a;
    while ((await this.#a.fill()) && (await this.#b.fill())) {
      const found: Match[] = [];
      for (let { a, b } = this.#next(); a !== null && b !== null; { a, b } = this.#next()) {
        if (idOf !== null) {
          const id = idOf(a);
          if (id !== this.b.idOf?.(b)) {
            yield found;
            return;
          }
          // In step, rows beyond the index's limit can still be compared.
          this.#note(keyOf(id), a.number, id);
        }
        found.push({ a, b });
        this.#a.skip();
        this.#b.skip();
      }
      yield found;
    }
  }

  #next(): { readonly a: OutputRecord | null; readonly b: OutputRecord | null } {
    return { a: this.#a.peek(), b: this.#b.peek() };
  }

  async #assertSameLength(): Promise<void> {
    const [restA, restB] = [await this.#a.rest(), await this.#b.rest()];
    if (restA + restB === 0) return;
    const [longer, shorter] =
      restA > 0 ? [this.a.output.name, this.b.output.name] : [this.b.output.name, this.a.output.name];
    throw new UsageError(
      'compare_needs_id',
      `${longer} has ${count(restA + restB)} more rows than ${shorter}, so their rows cannot be matched by row number`,
      'Name a column of the input that is in both and has another value in each row: --by COLUMN.',
    );
  }

  async *#inAnyOrder(
    idOfA: (r: OutputRecord) => string,
    idOfB: (r: OutputRecord) => string,
  ): AsyncGenerator<Match[]> {
    const places = new RecordOffsets();
    const before = this.#a.read;
    for (let a = await this.#a.take(); a !== null; a = await this.#a.take()) {
      const id = idOfA(a);
      if (!this.#note(keyOf(id), a.number, id)) throw this.#tooMany();
      places.add(a.at);
    }
    const rowsOfA = this.#a.read;
    // Row of `a`, counted from the first that is out of step → its row in `b`.
    const taken = new Uint32Array(places.size + 1);
    let again: RandomAccessRecords | null = null;
    try {
      while (await this.#b.fill()) {
        const found: Match[] = [];
        for (let b = this.#b.peek(); b !== null; b = this.#b.peek()) {
          this.#b.skip();
          const id = idOfB(b);
          const key = keyOf(id);
          const row = this.#index.find(key)?.row ?? null;
          if (row === null) {
            this.#onlyInB += 1;
            if (!this.#note(key, rowsOfA + b.number, id)) throw this.#tooMany();
            continue;
          }
          const place = row - before;
          const earlier = place <= 0 ? row : row > rowsOfA ? row - rowsOfA : (taken[place] ?? 0);
          if (earlier > 0) throw twice(this.b.output.name, id, earlier, b.number);
          taken[place] = b.number;
          again ??= new RandomAccessRecords(await this.plainA(), this.a, this.#a.begins, places);
          found.push({ a: again.record(place, row), b });
        }
        yield found;
      }
    } finally {
      again?.close();
    }
    this.#onlyInA = taken.subarray(1, places.size + 1).filter((row) => row === 0).length;
  }

  /** A row that only `b` has gets a number behind all of `a`. @returns false if there is no room */
  #note(key: string, number: number, id: string): boolean {
    const known = this.#index.find(key);
    if (known !== null) throw twice(this.a.output.name, id, known.row, number);
    return this.#index.add(key, number, null);
  }

  #tooMany(): UsageError {
    return new UsageError(
      'compare_too_large',
      `${this.a.output.name} and ${this.b.output.name} have more than ${count(this.#index.size)} rows between them that are in another order, and no more are remembered`,
      'Bring the inputs into one order, or compare the outputs in parts.',
    );
  }
}

const twice = (name: string, id: string, first: number, second: number): UsageError =>
  new UsageError(
    'compare_id_twice',
    `${name} has the id ${JSON.stringify(id.slice(0, 100))} twice, in rows ${count(first)} and ${count(second)}`,
    'Name a column that has another value in each row: --by COLUMN.',
  );

/** Records one by one, without awaiting each. */
class Cursor {
  readonly #batches: AsyncIterator<readonly OutputRecord[]>;
  #batch: readonly OutputRecord[] = [];
  #at = 0;
  #read = 0;
  #begins: number | null = null;

  constructor(
    records: AsyncIterable<readonly OutputRecord[]>,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.#batches = records[Symbol.asyncIterator]();
  }

  get read(): number {
    return this.#read;
  }

  /** Byte offset of the first record. */
  get begins(): number {
    return this.#begins ?? 0;
  }

  async fill(): Promise<boolean> {
    while (this.#at >= this.#batch.length) {
      const { done, value } = await this.#batches.next();
      this.signal?.throwIfAborted();
      if (done) return false;
      [this.#batch, this.#at] = [value, 0];
      this.#begins ??= value[0]?.at ?? null;
    }
    return true;
  }

  peek(): OutputRecord | null {
    return this.#batch[this.#at] ?? null;
  }

  skip(): void {
    this.#at += 1;
    this.#read += 1;
  }

  async take(): Promise<OutputRecord | null> {
    const record = (await this.fill()) ? this.peek() : null;
    if (record !== null) this.skip();
    return record;
  }

  /** @returns the number of records left */
  async rest(): Promise<number> {
    const before = this.#read;
    while ((await this.take()) !== null);
    return this.#read - before;
  }

  async close(): Promise<void> {
    await this.#batches.return?.();
  }
}

/** Byte offsets of records, eight bytes each. */
class RecordOffsets {
  #at = new Float64Array(2 ** 12);
  size = 0;

  add(at: number): void {
    if (this.size === this.#at.length) {
      const larger = new Float64Array(this.size * 2);
      larger.set(this.#at);
      this.#at = larger;
    }
    this.#at[this.size++] = at;
  }

  /** @param place from 1 */
  of(place: number): number | null {
    return place <= this.size ? (this.#at[place - 1] ?? null) : null;
  }
}

/** Bytes read ahead if records are read in sequence. */
const PIECE = 64 * 1024;

class RandomAccessRecords {
  readonly #file: number;
  readonly #size: number;
  readonly #reader: RecordReader;
  #piece = Buffer.alloc(0);
  #from = 0;
  /** End of the last record read. */
  #to = 0;

  /** @param begins offset of the first record, behind the header */
  constructor(
    path: string,
    { output, job }: Side,
    begins: number,
    private readonly places: RecordOffsets,
  ) {
    this.#file = openSync(path, 'r');
    this.#size = fstatSync(this.#file).size;
    this.#reader = new RecordReader(output, this.#bytes(0, begins), job);
  }

  /** @param place among the remembered ones, from 1 */
  record(place: number, number: number): OutputRecord {
    const at = this.places.of(place) ?? 0;
    const bytes = this.#bytes(at, this.places.of(place + 1) ?? this.#size);
    return this.#reader.record(bytes, number, 0, at);
  }

  close(): void {
    closeSync(this.#file);
  }

  /** Copied: a record must not keep its whole piece in memory. */
  #bytes(from: number, to: number): Buffer {
    if (from < this.#from || to > this.#from + this.#piece.length) {
      const isNext = from === this.#to;
      const piece = Buffer.alloc(isNext ? Math.max(PIECE, to - from) : to - from);
      this.#piece = piece.subarray(0, readSync(this.#file, piece, 0, piece.length, from));
      this.#from = from;
    }
    this.#to = to;
    return Buffer.from(this.#piece.subarray(from - this.#from, to - this.#from));
  }
}
