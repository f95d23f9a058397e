import { isUtf8 } from 'node:buffer';
import { closeSync, fstatSync, openSync, read, readSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Settings } from '../config/settings.js';
import { errorText, StopError, UsageError } from '../core/errors.js';
import { count, counted } from '../core/figures.js';
import type { CalledOutcome, Row } from '../core/model.js';
import { MOST_KEYS, NOWHERE, OffsetIndex } from '../core/offset-index.js';
import { customIdOf } from '../output/batch.js';
import { csv } from '../output/csv.js';
import { knownFormatOf } from '../output/format.js';
import { jsonl } from '../output/jsonl.js';
import { PIECE } from '../output/packing.js';
import { PlainCopies } from '../output/plain-copies.js';
import { ANY_JOB, isBlank, RecordReader, recordEnd, recordsWithEnds } from '../output/reader.js';
import type { OutputFormat } from '../output/record.js';
import { keyOf } from '../prompt/reuse-keys.js';
import type { RowRequest } from '../prompt/row-request.js';
import { RECORD_LIMIT, recordTooLarge } from '../source/lines.js';
import { isOfOther, type OwnRecord, readOwnRecord } from './own-record.js';
import { outcomeOfLine, parseResultLine, type ResultLine } from './result-line.js';

type DoneJob = Pick<Settings, 'endpoints' | 'parametersByOperation' | 'output'>;

export type SentRequest = Pick<Extract<RowRequest, { kind: 'send' }>, 'prompt' | 'parameters'>;

export interface KnownAnswer {
  readonly outcome: CalledOutcome;
  /** Approximate size in memory. */
  readonly bytes: number;
}

interface DoneFile {
  readonly name: string;
  readonly descriptor: number;
  /** Size and last change, which must stay while the run reads it. */
  readonly state: string;
  readonly format: OutputFormat;
  /** Null before the header of a CSV. */
  reader: RecordReader | null;
  /** Records so far. */
  records: number;
  /** Some answers have no id but the number of their row. */
  hasPlaces: boolean;
  /** Rows of this run whose answers it has. */
  rows: number;
  /** Lines, by why they are not used. */
  readonly unused: { unanswered: number; foreign: number; repeated: number; others: number };
}

type Found = OwnRecord & Pick<ResultLine, 'isNumber'>;

/** For reading an answer before its row is known. */
const ANY: SentRequest = { prompt: '', parameters: null };

/**
 * The answers of `input.done`. Each file is read once at the start, for the places of the answers, and again at such a place
 * when its row comes. In memory a place takes 14 bytes; while the input is surveyed, an answer takes 24.
 */
export class DoneFiles {
  readonly #files: DoneFile[] = [];
  /** Instead of a row, an id has the number of its file; no offset once a row has taken the answer. */
  #index = new OffsetIndex(MOST_KEYS);
  readonly #places = new Places();
  readonly #copies = new PlainCopies();
  #repeatedRows = 0;
  #buffer = Buffer.alloc(16 * 1024);

  private constructor(private readonly job: DoneJob) {}

  /** @throws UsageError when a file cannot be read, or all have more answers than are remembered */
  static async open(paths: readonly string[], job: DoneJob, signal: AbortSignal): Promise<DoneFiles> {
    const done = new DoneFiles(job);
    try {
      for (const path of paths) await done.#scan(path, signal);
      return done;
    } catch (error) {
      done.close();
      throw error;
    } finally {
      // What is open stays readable.
      await done.#copies.remove();
    }
  }

  /** Call for each row of the input, in order, while it is surveyed. */
  offer(row: Row): void {
    if (row.problem !== undefined) return;
    const key = keyOf(customIdOf(row));
    const found = this.#index.find(key);
    if (found === null) return;
    if (found.at === null) {
      this.#repeatedRows++;
      return;
    }
    const file = this.#file(found.row);
    if (file.hasPlaces && isForeign(file, this.#bytesAt(file, found.at), row)) return;
    this.#index.settle(key, NOWHERE);
    this.#places.add(row.number, found.row, found.at);
    file.unused.foreign--;
  }

  /** Call when all rows were offered. @param run how many rows it has, or a sample's numbers: they count from 1 then */
  choose(run: number | readonly number[]): void {
    this.#index = new OffsetIndex(0);
    for (const file of this.#places.choose(run)) this.#file(file).rows++;
  }

  /** `results.jsonl: 400 rows are answered already; 12 lines without an answer, 3 of no row, 1 twice` */
  get texts(): string[] {
    const texts = this.#files.map(({ name, rows, unused }) => {
      const { unanswered, foreign, repeated, others } = unused;
      const parts = [
        ...(unanswered > 0 ? [`${counted(unanswered, 'line')} without an answer`] : []),
        ...(foreign > 0 ? [`${count(foreign)} of no row`] : []),
        ...(repeated > 0 ? [`${count(repeated)} twice`] : []),
        ...(others > 0 ? [`${count(others)} that are no results`] : []),
      ];
      const found = `${name}: ${counted(rows, 'row')} ${rows === 1 ? 'is' : 'are'} answered already`;
      return parts.length === 0 ? found : `${found}; ${parts.join(', ')}`;
    });
    const rows = this.#repeatedRows;
    if (rows > 0)
      texts.push(`${counted(rows, 'row')} with the id of an earlier one ${rows === 1 ? 'is' : 'are'} called`);
    return texts;
  }

  /**
   * Synchronous: mostly cached by the system.
   * @returns null for a row that is called
   * @throws StopError when the file was changed since its first reading
   */
  answerTo(row: Row, request: SentRequest): KnownAnswer | null {
    const place = this.#places.find(row.number);
    if (place === null) return null;
    const file = this.#file(place.file);
    const bytes = this.#bytesAt(file, place.at);
    const outcome = this.#answerIn(file, bytes, request)?.outcome ?? null;
    return outcome && { outcome, bytes: bytes.length };
  }

  close(): void {
    for (const { descriptor } of this.#files.splice(0)) closeSync(descriptor);
  }

  #file(number: number): DoneFile {
    const file = this.#files[number - 1];
    if (file === undefined) throw new Error('an answer is in a file that is not there');
    return file;
  }

  async #scan(path: string, signal: AbortSignal): Promise<void> {
    const file = await this.#open(path, signal);
    let [at, held] = [0, 0];
    for await (const records of recordsWithEnds(piecesOf(file.descriptor), file.format)) {
      signal.throwIfAborted();
      held = records.length > 0 ? 0 : held + PIECE;
      if (held > RECORD_LIMIT) throw recordTooLarge(path, file.records + 1);
      for (const record of records) {
        if (!isBlank(record)) this.#learn(file, record, at);
        at += record.length;
      }
    }
    // All rows would be called and paid for, and only a number would say why.
    if (file.records > 0 && file.unused.others === file.records)
      throw new UsageError(
        'done_unreadable',
        `input.done names ${path}, which has neither results of a batch nor records of an output: ${counted(file.records, 'line')} of something else`,
        'Correct the name in the job file or in --done, or leave it out: then all rows are called.',
      );
  }

  async #open(path: string, signal: AbortSignal): Promise<DoneFile> {
    try {
      // It is read in places, and to open a pipe would wait for its writer.
      if (!statSync(path).isFile()) throw new Error('it is a folder, a pipe or a device');
      const descriptor = openSync(await this.#copies.plain(path, signal), 'r');
      const format = knownFormatOf(path) === csv ? csv : jsonl;
      const unused = { unanswered: 0, foreign: 0, repeated: 0, others: 0 };
      const file: DoneFile = {
        ...{ name: path, descriptor, state: stateOf(descriptor), format, reader: null, records: 0 },
        ...{ hasPlaces: false, rows: 0, unused },
      };
      this.#files.push(file);
      if (isPacked(descriptor)) throw new Error('it is packed, and its name does not end in .gz');
      if (!format.hasHeader) this.#begin(file, Buffer.alloc(0));
      return file;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof UsageError) throw error;
      throw new UsageError(
        'done_unreadable',
        `input.done names ${path}, which cannot be read: ${errorText(error)}`,
        'Correct the name in the job file or in --done, or leave it out: then all rows are called.',
        { cause: error },
      );
    }
  }

  #begin(file: DoneFile, header: Buffer): void {
    file.reader = new RecordReader(file, header, { ...ANY_JOB, formulas: this.job.output.formulas });
  }

  /** @throws UsageError `done_too_large` */
  #learn(file: DoneFile, bytes: Buffer, at: number): void {
    if (file.reader === null) {
      this.#begin(file, bytes);
      return;
    }
    file.records++;
    const { unused } = file;
    const found = this.#answerIn(file, bytes, ANY);
    if (found === null) unused.others++;
    else if (found.outcome === null) unused.unanswered++;
    else {
      if (found.id === null || found.isNumber) file.hasPlaces = true;
      const key = keyOf(found.id ?? String(file.records));
      if (this.#index.find(key) !== null) unused.repeated++;
      else {
        unused.foreign++;
        if (!this.#index.add(key, this.#files.length, at)) throw tooLarge(file.name);
      }
    }
  }

  /** Null for what is no result. */
  #answerIn(file: DoneFile, bytes: Buffer, request: SentRequest): Found | null {
    const line = file.format.hasHeader ? null : parseResultLine(textOf(bytes), isUtf8(bytes));
    if (line === null) {
      const record = recordIn(file, bytes);
      const own = record && readOwnRecord(record);
      return own && { ...own, isNumber: false };
    }
    const { customId: id, isNumber } = line;
    for (const { spec } of this.job.endpoints) {
      const common = this.job.parametersByOperation[spec.operation];
      const outcome = outcomeOfLine(line, spec, request, common, 'done');
      if (outcome !== null) return { id, isNumber, outcome };
    }
    return { id, isNumber, outcome: null };
  }

  /** The record or line at an offset. Valid until the next one is read. */
  #bytesAt({ name, descriptor, state, format }: DoneFile, at: number): Buffer {
    if (stateOf(descriptor) !== state) throw changed(name);
    for (;;) {
      const length = readSync(descriptor, this.#buffer, 0, this.#buffer.length, at);
      const bytes = this.#buffer.subarray(0, length);
      const end = recordEnd(bytes, format);
      if (end !== null) return bytes.subarray(0, end);
      if (length < this.#buffer.length) return bytes;
      this.#buffer = Buffer.alloc(this.#buffer.length * 2);
    }
  }
}

const readPiece = promisify(read);

/** A stream would close the file, which is read again. */
async function* piecesOf(descriptor: number): AsyncGenerator<Buffer> {
  for (let at = 0; ; ) {
    const { bytesRead, buffer } = await readPiece(descriptor, { buffer: Buffer.alloc(PIECE), position: at });
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    at += bytesRead;
  }
}

const recordIn = ({ reader }: DoneFile, bytes: Buffer) => reader?.record(bytes, 0, 0, 0) ?? null;

/** Without an id, the record of another row may have the number of this one, as in the output of a sample. */
function isForeign(file: DoneFile, bytes: Buffer, row: Row): boolean {
  const record = recordIn(file, bytes);
  return record !== null && readOwnRecord(record)?.id === null && isOfOther(record, row);
}

function isPacked(descriptor: number): boolean {
  const first = Buffer.alloc(2);
  return readSync(descriptor, first, 0, 2, 0) === 2 && first.readUInt16BE() === 0x1f8b;
}

/** Without a byte-order mark, which editors put at the beginning. */
const textOf = (bytes: Buffer): string => bytes.toString().replace(/^\ufeff/, '');

function stateOf(descriptor: number): string {
  const { size, mtimeMs } = fstatSync(descriptor);
  return `${size} ${mtimeMs}`;
}

const changed = (path: string): StopError =>
  new StopError(
    'done_changed',
    `${path}, which input.done names, was changed while the run read it.`,
    'Run the same command again: it reads the file as it is then.',
  );

const tooLarge = (path: string): UsageError =>
  new UsageError(
    'done_too_large',
    `with ${path}, the files of input.done have more than ${count(MOST_KEYS)} answers, and so many cannot be remembered`,
    'Divide the input and its results, and run each part.',
  );

/** Where the answers of rows are. */
class Places {
  #rows = new Uint32Array(1024);
  #files = new Uint16Array(1024);
  #offsets = new Float64Array(1024);
  #size = 0;

  /** In the order of the rows. */
  add(row: number, file: number, at: number): void {
    if (this.#size === this.#rows.length) {
      this.#rows = twice(this.#rows, new Uint32Array(this.#size * 2));
      this.#files = twice(this.#files, new Uint16Array(this.#size * 2));
      this.#offsets = twice(this.#offsets, new Float64Array(this.#size * 2));
    }
    this.#put(this.#size++, row, file, at);
  }

  /** @returns the files of those that are left */
  choose(run: number | readonly number[]): Uint16Array {
    const [size, next] = [this.#size, { place: 0 }];
    this.#size = 0;
    for (let i = 0; i < size; i++) {
      const row = this.#rows[i] ?? 0;
      const number = typeof run === 'number' ? (row <= run ? row : 0) : placeOf(row, run, next);
      if (number > 0) this.#put(this.#size++, number, this.#files[i] ?? 0, this.#offsets[i] ?? 0);
    }
    return this.#files.subarray(0, this.#size);
  }

  find(row: number): { readonly file: number; readonly at: number } | null {
    let [low, high] = [0, this.#size];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#rows[middle] ?? 0) < row) low = middle + 1;
      else high = middle;
    }
    if (low === this.#size || this.#rows[low] !== row) return null;
    return { file: this.#files[low] ?? 0, at: this.#offsets[low] ?? 0 };
  }

  #put(place: number, row: number, file: number, at: number): void {
    this.#rows[place] = row;
    this.#files[place] = file;
    this.#offsets[place] = at;
  }
}

/** The place of a row in a sample, from 1; 0 if it has none. Rows and numbers go up. */
function placeOf(row: number, numbers: readonly number[], next: { place: number }): number {
  while ((numbers[next.place] ?? row) < row) next.place++;
  return numbers[next.place] === row ? next.place + 1 : 0;
}

function twice<A extends Uint32Array | Uint16Array | Float64Array>(from: A, to: A): A {
  to.set(from);
  return to;
}
