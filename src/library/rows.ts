import { Readable } from 'node:stream';
import { errorText, UsageError } from '../errors.js';
import type { InputSpec } from '../source/source.js';

/**
 * Where rows come from: the path of a file, or objects, each of which is a row with its members as columns; or, where `format`
 * says what they are, the bytes of a file. Node's streams and those of the web are async iterables.
 */
export type Rows = string | Iterable<unknown> | AsyncIterable<unknown> | WebStream;

/** A stream of the web, as `fetch` has it; some of its types do not say that it can be iterated. */
interface WebStream {
  getReader(): unknown;
}

/** How the rows of a call are read. */
export interface RowSource {
  /** In place of `input.path`. @default the job's */
  readonly path?: string;
  /** In place of `input.format`. @default the job's */
  readonly format?: InputSpec['format'];
  /** What is read in place of standard input. */
  readonly stream: Readable;
  /** The rows were objects, so what the job says of the text of its input does not apply. */
  readonly objects: boolean;
}

/**
 * @param format as a job has it in `input.format`. @default rows that are no path are objects
 * @throws UsageError `no_rows`
 */
export function rowSource(rows: Rows | undefined, format: string | undefined, jobPath: string): RowSource {
  if ((rows ?? jobPath) === '-') {
    throw new UsageError(
      'no_rows',
      'the job names no file in input.path, and a library reads no standard input',
      'Give the rows as the option rows: a path, objects, or a stream with its format.',
    );
  }
  const given = format !== undefined && { format };
  if (rows === undefined || typeof rows === 'string') {
    return { ...(rows !== undefined && { path: rows }), ...given, stream: Readable.from([]), objects: false };
  }
  const objects = format === undefined;
  const bytes = piecesOf(rows, objects);
  return {
    path: '-',
    format: format ?? 'jsonl',
    stream: Readable.from(bytes, { objectMode: false }),
    objects,
  };
}

/** Characters of rows that are handed on at a time. */
const PIECE = 64 * 1024;

/** The rows as bytes of a file. @throws UsageError `bad_rows`, `rows_failed` */
async function* piecesOf(rows: Exclude<Rows, string>, objects: boolean): AsyncGenerator<Buffer> {
  let number = 0;
  let lines = '';
  for await (const each of told(rows)) {
    number++;
    if (objects) lines += `${lineOf(each, number)}\n`;
    else yield bytesOf(each, number);
    if (lines.length < PIECE) continue;
    yield Buffer.from(lines);
    lines = '';
  }
  if (lines !== '') yield Buffer.from(lines);
}

/** What the caller's own source throws, told as what it is. */
async function* told(rows: Exclude<Rows, string>): AsyncGenerator<unknown> {
  try {
    if (Symbol.asyncIterator in rows || Symbol.iterator in rows) yield* rows;
    else throw new TypeError('they can not be iterated');
  } catch (cause) {
    throw new UsageError('rows_failed', `the rows could not be read: ${errorText(cause)}`, undefined, {
      cause,
    });
  }
}

function lineOf(row: unknown, number: number): string {
  const isBytes = typeof row === 'string' || row instanceof Uint8Array;
  if (isBytes || typeof row !== 'object' || row === null || Array.isArray(row)) {
    const what = isBytes ? 'text' : row === null ? 'null' : Array.isArray(row) ? 'a list' : `a ${typeof row}`;
    throw new UsageError(
      'bad_rows',
      `row ${number} is ${what}, and a row is an object`,
      'Give objects, or say with format (csv, tsv or jsonl) that this is the text of a file.',
    );
  }
  try {
    return JSON.stringify(row);
  } catch (cause) {
    const message = `row ${number} cannot be said as JSON: ${errorText(cause)}`;
    throw new UsageError('bad_rows', message, 'Give values that JSON has.', { cause });
  }
}

function bytesOf(piece: unknown, number: number): Buffer {
  if (typeof piece === 'string') return Buffer.from(piece);
  if (piece instanceof Uint8Array) return Buffer.from(piece);
  throw new UsageError(
    'bad_rows',
    `piece ${number} of the rows is a ${typeof piece}, and with format they are the text of a file`,
    'Leave format out where the rows are objects.',
  );
}
