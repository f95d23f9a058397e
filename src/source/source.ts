import { StopError, UsageError } from '../errors.js';
import type { Row } from '../model.js';
import { readCsv } from './csv.js';
import { type Dialect, dialectOf } from './dialect.js';
import { toUtf8 } from './encoding.js';
import { type Format, formatOf, type InputSpec, nameOf } from './format.js';
import { readJsonl } from './jsonl.js';
import { refuseBinary, refuseOtherText } from './kind.js';
import { InputFile, type Marks } from './open.js';

export { formatOf, type InputSpec, nameOf } from './format.js';
export { spoolStandardInput, sweepSpools } from './spool.js';

/** What is known of an input after it was read once. */
export interface Survey {
  readonly format: Format;
  /** Records, bad ones included. */
  readonly rows: number;
  /** Records that cannot be used: ragged, or not JSON. */
  readonly badRows: number;
  /** SHA-256 of the file's own bytes, compressed or not, in hexadecimal. */
  readonly sha256: string;
  /** Size of the file, in bytes. */
  readonly bytes: number;
  /** By which the second reading knows the bytes again. */
  readonly marks: Marks;
  /** CSV: the header. JSONL: every key of the records, in the order first seen. */
  readonly columns: readonly string[];
  /** What a person should know of how the file is read; not there where it is read as its name says. */
  readonly note?: string;
}

interface SurveyOptions {
  /** Called at most every {@link PROGRESS_MS}, and once at the end. */
  readonly onProgress?: (bytesRead: number, totalBytes: number, rows: number) => void;
  readonly signal?: AbortSignal;
}

/** Different keys that the records of a JSONL input may have together: each becomes a column of the output. */
const MAX_JSONL_COLUMNS = 2_000;

const PROGRESS_MS = 100;

/**
 * Reads the whole input once, streaming, before anything is sent: a broken file costs nothing.
 *
 * A CSV with a header and no record has no rows, and so has a JSONL without a line: nothing came, which is no fault.
 *
 * @throws UsageError `unknown_format`, `input_missing`, `input_is_directory`, `input_not_a_file`,
 * `input_unreadable`, `input_changed`, `input_is_…` for a file that is not what it is read as, `bad_gzip`,
 * `unknown_encoding`, `invalid_encoding`, `bad_delimiter`, `ambiguous_delimiter`, `bad_quote`, `duplicate_column`,
 * `too_many_columns`, `record_too_large`, `empty_input`
 * @throws the signal's reason
 */
export async function survey(spec: InputSpec, { onProgress, signal }: SurveyOptions = {}): Promise<Survey> {
  const file = await InputFile.open(spec.path, nameOf(spec));
  const found: { format: Format; note: string | null } = { format: 'csv', note: null };
  let columns = new Set<string>();
  let rows = 0;
  let badRows = 0;
  let reported = performance.now();
  const told: Told = {
    onFormat: (format, dialect) => {
      found.format = format;
      found.note = dialect?.note ?? null;
    },
    onColumns: (header) => {
      columns = new Set(header);
    },
  };
  for await (const batch of batches(file, spec, told)) {
    signal?.throwIfAborted();
    for (const row of batch) {
      rows++;
      if (row.fault !== undefined) badRows++;
      if (found.format === 'jsonl') addKeys(columns, row, spec);
    }
    if (performance.now() - reported < PROGRESS_MS) continue;
    reported = performance.now();
    onProgress?.(file.bytesRead, file.size, rows);
  }
  if (found.format !== 'jsonl' && columns.size === 0) throw empty(spec);
  onProgress?.(file.bytesRead, file.size, rows);
  const { size: bytes, marks } = file;
  const { format, note } = found;
  return {
    format,
    rows,
    badRows,
    sha256: file.digest(),
    bytes,
    marks,
    columns: [...columns],
    ...(note !== null && { note }),
  };
}

interface RowsOptions {
  /** Told once, after the last row, when bytes were added to the file since it was surveyed; they are no rows of this run. */
  readonly onGrown?: (bytes: number) => void;
}

/**
 * The rows of a surveyed input, streaming, no faster than they are taken. Each is made of bytes that the survey has
 * seen, whatever becomes of the file meanwhile.
 *
 * @throws StopError `input_changed` where the file is no longer the one that was surveyed, before a row is made of it
 */
export async function* rows(
  spec: InputSpec,
  { bytes, marks }: Survey,
  { onGrown }: RowsOptions = {},
): AsyncGenerator<Row> {
  try {
    const known = { bytes, marks, ...(onGrown && { onGrown }) };
    const file = await InputFile.open(spec.path, nameOf(spec), known);
    for await (const batch of batches(file, spec)) for (const row of batch) yield row;
  } catch (error) {
    throw error instanceof UsageError ? changed(spec, error) : error;
  }
}

/** Who is told what is found out about an input on the way. */
interface Told {
  readonly onFormat: (format: Format, dialect: Dialect | null) => void;
  readonly onColumns: (columns: readonly string[]) => void;
}

const NOBODY: Told = { onFormat: () => {}, onColumns: () => {} };

/** The path of the bytes: file, text, rows. Their beginning is held against what they are read as. */
async function* batches(file: InputFile, spec: InputSpec, told: Told = NOBODY): AsyncGenerator<Row[]> {
  const name = nameOf(spec);
  const content = lookedAt(file.content(), (head) => {
    refuseBinary(head, name);
    return 0;
  });
  const found: { format?: Format; dialect?: Dialect } = {};
  const text = lookedAt(toUtf8(content, name, spec.encoding), (head, isAll) => {
    const format = formatOf(spec);
    found.format = format;
    refuseOtherText(head, isAll, format, name);
    if (format === 'jsonl') return 0;
    const usual = format === 'tsv' ? '\t' : ',';
    found.dialect = dialectOf(head, isAll, { usual, given: spec.delimiter, name });
    return found.dialect.skippedBytes;
  });
  try {
    const first = await text.next();
    told.onFormat(found.format ?? formatOf(spec), found.dialect ?? null);
    const all = followed(first.done ? [] : [first.value], text);
    if (found.dialect === undefined) {
      yield* readJsonl(all, name);
    } else {
      const { delimiter, skippedBytes } = found.dialect;
      const skippedLines = skippedBytes > 0 ? 1 : 0;
      yield* readCsv(all, { name, delimiter, skippedLines, onColumns: told.onColumns });
    }
  } finally {
    await text.return(undefined);
  }
}

async function* followed(first: Iterable<Buffer>, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* first;
  yield* rest;
}

function addKeys(columns: Set<string>, row: Row, spec: InputSpec): void {
  for (const key of row.fields.keys()) columns.add(key);
  if (columns.size <= MAX_JSONL_COLUMNS) return;
  throw new UsageError(
    'too_many_columns',
    `${nameOf(spec)}, line ${row.line}: the records up to here have more than ${MAX_JSONL_COLUMNS} different keys.`,
    'Put keys that vary from record to record into one nested object.',
  );
}

function empty(spec: InputSpec): UsageError {
  return new UsageError(
    'empty_input',
    `${nameOf(spec)} is empty: it has no header.`,
    'Check that the file was written completely. A file of no rows has its header.',
  );
}

/** The survey read it, and now it cannot be read. */
function changed(spec: InputSpec, cause: UsageError): StopError {
  return new StopError(
    'input_changed',
    `${nameOf(spec)} was changed while the run went on: ${cause.message}`,
    'Put the file back as it was and run the same command, or begin again with --restart.',
    { cause },
  );
}

/** Bytes that are looked at before the rest is read. */
const HEAD_BYTES = 64 * 1024;

/**
 * Passes bytes on, once their beginning was looked at.
 * @param look gets the beginning, and whether it is all there is; answers how many bytes of it to leave out
 */
async function* lookedAt(
  chunks: AsyncIterable<Buffer>,
  look: (head: Buffer, isAll: boolean) => number,
): AsyncGenerator<Buffer> {
  let head: Buffer | null = Buffer.alloc(0);
  for await (const chunk of chunks) {
    if (head === null) {
      yield chunk;
      continue;
    }
    head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
    if (head.length < HEAD_BYTES) continue;
    yield head.subarray(look(head, false));
    head = null;
  }
  if (head !== null) yield head.subarray(look(head, true));
}
