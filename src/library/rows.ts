import { Readable } from 'node:stream';
import { errorText, UsageError } from '../core/errors.js';
import type { InputSpec } from '../source/source.js';

/**
 * Source of rows: the path of a file; objects, each one a row with its members as columns; or, with `format`,
 * the bytes of a file. Node and web streams are async iterables.
 */
export type Rows = string | Iterable<unknown> | AsyncIterable<unknown> | WebStream;

/** A web stream, as from `fetch`; some of its types do not declare that it can be iterated. */
interface WebStream {
  getReader(): unknown;
}

export interface RowSource {
  /** Instead of `input.path`. @default the job's */
  readonly path?: string;
  /** Instead of `input.format`. @default the job's */
  readonly format?: InputSpec['format'];
  /** Replaces standard input. */
  readonly stream: Readable;
  /** Whether the rows were objects; then the job's settings for the text of its input do not apply. */
  readonly objects: boolean;
}

/**
 * @param format as in `input.format`. @default objects, unless the rows are a path
 * @throws UsageError `no_rows`
 */
export function rowSource(rows: Rows | undefined, format: string | undefined, jobPath: string): RowSource {
  if ((rows ?? jobPath) === '-') {
    throw new UsageError(
      'no_rows',
      'no rows: the job names no file in input.path, and a library reads no standard input',
      'Give the rows as the option rows: a path, objects, or a stream with its format.',
    );
  }
  if (rows !== undefined && typeof rows !== 'string' && !isSource(rows)) {
    throw new UsageError(
      'no_rows',
      `rows is ${kindOf(rows)}, which cannot be iterated`,
      'Give a path, an iterable of objects, or a stream with its format.',
    );
  }
  const given = format !== undefined && { format };
  if (rows === undefined || typeof rows === 'string') {
    return { ...(rows !== undefined && { path: rows }), ...given, stream: Readable.from([]), objects: false };
  }
  const objects = format === undefined;
  return { path: '-', format: format ?? 'jsonl', stream: new RowStream(rows, objects), objects };
}

const isSource = (rows: unknown): boolean =>
  typeof rows === 'object' &&
  rows !== null &&
  (Symbol.iterator in rows || Symbol.asyncIterator in rows || 'getReader' in rows);

const PIECE = 64 * 1024;

/**
 * The caller's rows as bytes. When destroyed, it releases the caller's source, even a silent one (fault 111).
 */
class RowStream extends Readable {
  readonly #rows: Exclude<Rows, string>;
  readonly #objects: boolean;
  #iterator: Iterator<unknown> | AsyncIterator<unknown> | null = null;
  #number = 0;

  constructor(rows: Exclude<Rows, string>, objects: boolean) {
    super();
    this.#rows = rows;
    this.#objects = objects;
  }

  override _read(): void {
    this.#pull().catch((error: Error) => this.destroy(error));
  }

  /** @throws UsageError `bad_rows`, `rows_failed` */
  async #pull(): Promise<void> {
    let lines = '';
    while (lines.length < PIECE) {
      const next = await this.#next();
      if (this.destroyed) return;
      if (next.done) {
        if (lines !== '') this.push(lines);
        this.push(null);
        return;
      }
      this.#number++;
      if (!this.#objects) {
        const bytes = bytesOf(next.value, this.#number);
        // A stream does not ask again after a push of nothing.
        if (bytes.length === 0) continue;
        this.push(bytes);
        return;
      }
      lines += `${lineOf(next.value, this.#number)}\n`;
    }
    this.push(lines);
  }

  async #next(): Promise<IteratorResult<unknown>> {
    try {
      this.#iterator ??= iteratorOf(this.#rows);
      const { done = false, value } = await this.#iterator.next();
      if (done) this.#iterator = null;
      return { done, value: await value };
    } catch (cause) {
      this.#iterator = null;
      throw new UsageError('rows_failed', `the rows could not be read: ${errorText(cause)}`, undefined, {
        cause,
      });
    }
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const iterator = this.#iterator;
    this.#iterator = null;
    // Not awaited: a waiting generator returns only afterwards.
    (async () => iterator?.return?.())().catch(() => {});
    done(error);
  }
}

function iteratorOf(rows: Exclude<Rows, string>): Iterator<unknown> | AsyncIterator<unknown> {
  if (Symbol.asyncIterator in rows) return rows[Symbol.asyncIterator]();
  if (Symbol.iterator in rows) return rows[Symbol.iterator]();
  throw new TypeError('they cannot be iterated');
}

function lineOf(row: unknown, number: number): string {
  const isBytes = typeof row === 'string' || row instanceof Uint8Array;
  if (isBytes || typeof row !== 'object' || row === null || Array.isArray(row)) {
    const what = isBytes ? 'text' : Array.isArray(row) ? 'a list' : kindOf(row);
    throw new UsageError(
      'bad_rows',
      `row ${number} is ${what}, and a row is an object`,
      'Give objects, or say with format (csv, tsv or jsonl) that this is the text of a file.',
    );
  }
  try {
    return JSON.stringify(row);
  } catch (cause) {
    const message = `row ${number} cannot be written as JSON: ${errorText(cause)}`;
    throw new UsageError('bad_rows', message, 'Give values that JSON can hold.', { cause });
  }
}

function bytesOf(piece: unknown, number: number): Buffer {
  if (typeof piece === 'string') return Buffer.from(piece);
  if (piece instanceof Uint8Array) return Buffer.from(piece);
  throw new UsageError(
    'bad_rows',
    `piece ${number} of the rows is ${kindOf(piece)}, and with format they are the text of a file`,
    'Leave format out where the rows are objects.',
  );
}

/** `a number`, `an object`, `a promise`, `undefined` */
export const kindOf = (value: unknown): string =>
  value === null || value === undefined
    ? String(value)
    : value instanceof Promise
      ? 'a promise'
      : `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`;
