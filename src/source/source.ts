import { StopError, UsageError } from '../core/errors.js';
import type { Row } from '../core/model.js';
import { formatOf } from './format.js';
import { type FindingsListener, type InputFormat, type InputSpec, nameOf } from './input.js';
import { readBeginning, refuseBinary } from './kind.js';
import { type BlockDigests, InputFile } from './open.js';

export { formatOf } from './format.js';
export { type InputSpec, nameOf } from './input.js';
export { spoolStandardInput, sweepSpools } from './spool.js';

export interface Survey {
  readonly format: InputFormat;
  /** Records, bad ones included. */
  readonly rows: number;
  /** Unusable records: ragged, or not JSON. */
  readonly badRows: number;
  /** Hex SHA-256 of the file itself, compressed or not. */
  readonly sha256: string;
  readonly bytes: number;
  /** For the second reading to recognize the bytes. */
  readonly digests: BlockDigests;
  /** The header; without one, every key of the records in order of appearance. */
  readonly columns: readonly string[];
  /** For people; absent if the file is read as its name says. */
  readonly note?: string;
}

interface SurveyOptions {
  /** At most every {@link PROGRESS_MS}, and once at the end. */
  readonly onProgress?: (bytesRead: number, totalBytes: number, rows: number) => void;
  readonly signal?: AbortSignal;
  /** What it throws ends the survey. */
  readonly onRow?: (row: Row) => unknown;
}

/** Distinct keys of an input without a header: each becomes a column of the output. */
const MAX_KEYS = 2_000;

const PROGRESS_MS = 100;

/**
 * Reads the whole input once, streaming, before anything is sent: a broken file costs nothing. A header
 * without a record, and an empty JSONL, have no rows: that is no fault.
 * @throws UsageError `unknown_format`, `input_missing`, `input_is_directory`, `input_not_a_file`,
 *   `input_unreadable`, `input_changed`, `input_is_…` for a file that is not what it is read as, `bad_gzip`,
 *   `unknown_encoding`, `invalid_encoding`, `bad_delimiter`, `ambiguous_delimiter`, `bad_quote`,
 *   `duplicate_column`, `too_many_columns`, `record_too_large`, `empty_input`
 * @throws the signal's reason
 */
export async function survey(
  spec: InputSpec,
  { onProgress, signal, onRow }: SurveyOptions = {},
): Promise<Survey> {
  const file = await InputFile.open(spec.path, nameOf(spec));
  const found = new Findings(spec);
  let rows = 0;
  let badRows = 0;
  let reported = performance.now();
  for await (const batch of batches(file, spec, found)) {
    signal?.throwIfAborted();
    for (const row of batch) {
      rows++;
      if (row.problem !== undefined) badRows++;
      found.add(row);
      onRow?.(row);
    }
    if (performance.now() - reported < PROGRESS_MS) continue;
    reported = performance.now();
    onProgress?.(file.bytesRead, file.size, rows);
  }
  const columns = found.columns();
  onProgress?.(file.bytesRead, file.size, rows);
  const { size: bytes, digests } = file;
  const { format, note } = found;
  return {
    format,
    rows,
    badRows,
    sha256: file.digest(),
    bytes,
    digests,
    columns,
    ...(note !== null && { note }),
  };
}

export interface Beginning extends Pick<Survey, 'format' | 'columns'> {
  readonly rows: readonly Row[];
}

/**
 * Reads only the first rows.
 * @param most rows; without a header, their keys are the columns
 * @throws UsageError as {@link survey}, for what the first rows show
 */
export async function firstRows(spec: InputSpec, most: number): Promise<Beginning> {
  const file = await InputFile.open(spec.path, nameOf(spec));
  const found = new Findings(spec);
  const { format } = found;
  const rows: Row[] = [];
  for await (const batch of batches(file, spec, found)) {
    for (const row of batch.slice(0, most - rows.length)) {
      found.add(row);
      rows.push(row);
    }
    if (rows.length >= most) break;
  }
  return { format, columns: found.columns(), rows };
}

export interface RowsOptions {
  /** Once, after the last row, if the file grew after the survey; the new bytes are no rows of this run. */
  readonly onGrown?: (bytes: number) => void;
}

/**
 * The rows of a surveyed input, streaming with backpressure, made only of bytes that the survey has seen.
 * @throws StopError `input_changed` before a row is made of changed bytes
 */
export async function* rows(
  spec: InputSpec,
  { bytes, digests }: Survey,
  { onGrown }: RowsOptions = {},
): AsyncGenerator<Row> {
  try {
    const known = { bytes, digests, ...(onGrown && { onGrown }) };
    const file = await InputFile.open(spec.path, nameOf(spec), known);
    for await (const batch of batches(file, spec)) for (const row of batch) yield row;
  } catch (error) {
    throw error instanceof UsageError ? changed(spec, error) : error;
  }
}

const NOBODY: FindingsListener = { onNote: () => {}, onColumns: () => {} };

async function* batches(
  file: InputFile,
  spec: InputSpec,
  listener: FindingsListener = NOBODY,
): AsyncGenerator<Row[]> {
  const content = await readBeginning(file.content());
  try {
    refuseBinary(content.head, nameOf(spec));
    yield* formatOf(spec).read(content.from(0), spec, listener);
  } finally {
    await content.close();
  }
}

/** What a reading finds of an input besides its rows. */
class Findings implements FindingsListener {
  note: string | null = null;
  #columns = new Set<string>();
  #format: InputFormat | null = null;

  constructor(private readonly spec: InputSpec) {}

  /** Found late, so that a binary file is refused as such. */
  get format(): InputFormat {
    this.#format ??= formatOf(this.spec);
    return this.#format;
  }

  onNote(note: string): void {
    this.note = note;
  }

  onColumns(header: readonly string[]): void {
    this.#columns = new Set(header);
  }

  /** Without a header every key is a column. */
  add({ fields, line }: Row): void {
    if (this.format.hasHeader) return;
    for (const key of fields.keys()) this.#columns.add(key);
    if (this.#columns.size <= MAX_KEYS) return;
    throw new UsageError(
      'too_many_columns',
      `${nameOf(this.spec)}, line ${line}: the records up to here have more than ${MAX_KEYS} different keys.`,
      'Put keys that vary from record to record into one nested object.',
    );
  }

  /** @throws UsageError `empty_input` */
  columns(): readonly string[] {
    if (this.format.hasHeader && this.#columns.size === 0) throw empty(this.spec);
    return [...this.#columns];
  }
}

function empty(spec: InputSpec): UsageError {
  return new UsageError(
    'empty_input',
    `${nameOf(spec)} is empty: it has no header.`,
    'Check that the file was written completely. A file without rows still needs its header.',
  );
}

/** The survey could read it, and now it cannot be read. */
function changed(spec: InputSpec, cause: UsageError): StopError {
  return new StopError(
    'input_changed',
    `${nameOf(spec)} was changed while the run went on: ${cause.message}`,
    'Put the file back as it was and run the same command, or start over with --restart.',
    { cause },
  );
}
