import { StopError, UsageError } from '../errors.js';
import type { Row } from '../model.js';
import { readCsv } from './csv.js';
import { toUtf8 } from './encoding.js';
import { type Format, formatOf, type InputSpec, nameOf } from './format.js';
import { readJsonl } from './jsonl.js';
import { InputFile } from './open.js';

export type { InputSpec } from './format.js';
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
  /** CSV: the header. JSONL: every key of the records, in the order first seen. */
  readonly columns: readonly string[];
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
 * @throws UsageError `unknown_format`, `input_missing`, `input_is_directory`, `input_not_a_file`,
 * `input_unreadable`, `input_changed`, `bad_gzip`, `unknown_encoding`, `invalid_encoding`, `bad_delimiter`,
 * `bad_quote`, `duplicate_column`, `too_many_columns`, `record_too_large`, `empty_input`, `no_rows`
 * @throws the signal's reason
 */
export async function survey(spec: InputSpec, { onProgress, signal }: SurveyOptions = {}): Promise<Survey> {
  const format = formatOf(spec);
  const file = await InputFile.open(spec.path, nameOf(spec));
  let columns = new Set<string>();
  let rows = 0;
  let badRows = 0;
  let reported = performance.now();
  for await (const batch of batches(file, spec, (header) => {
    columns = new Set(header);
  })) {
    signal?.throwIfAborted();
    for (const row of batch) {
      rows++;
      if (row.fault !== undefined) badRows++;
      if (format === 'jsonl') addKeys(columns, row, spec);
    }
    if (performance.now() - reported < PROGRESS_MS) continue;
    reported = performance.now();
    onProgress?.(file.bytesRead, file.size, rows);
  }
  if (rows === 0) throw noRows(spec, columns.size);
  onProgress?.(file.bytesRead, file.size, rows);
  return { format, rows, badRows, sha256: file.digest(), bytes: file.size, columns: [...columns] };
}

/**
 * The rows of a surveyed input, streaming, no faster than they are taken.
 *
 * @throws StopError `input_changed` when the file is no longer the one that was surveyed; rows read by then may
 * have been sent
 */
export async function* rows(spec: InputSpec, surveyed: Survey): AsyncGenerator<Row> {
  try {
    const file = await InputFile.open(spec.path, nameOf(spec));
    if (file.size !== surveyed.bytes) throw changed(spec);
    for await (const batch of batches(file, spec)) for (const row of batch) yield row;
    if (file.digest() !== surveyed.sha256) throw changed(spec);
  } catch (error) {
    throw error instanceof UsageError ? changed(spec, error) : error;
  }
}

/** The path of the bytes: file, text, rows. */
function batches(
  file: InputFile,
  spec: InputSpec,
  onColumns: (columns: readonly string[]) => void = () => {},
): AsyncGenerator<Row[]> {
  const name = nameOf(spec);
  const text = toUtf8(file.content(), name, spec.encoding);
  const format = formatOf(spec);
  if (format === 'jsonl') return readJsonl(text, name);
  return readCsv(text, { name, delimiter: spec.delimiter ?? (format === 'tsv' ? '\t' : ','), onColumns });
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

function noRows(spec: InputSpec, columns: number): UsageError {
  const name = nameOf(spec);
  if (columns === 0) {
    return new UsageError('empty_input', `${name} is empty.`, 'Check that the file was written completely.');
  }
  return new UsageError(
    'no_rows',
    `${name} has a header of ${columns} columns, and no record after it.`,
    'Check that the file was written completely, and that its first line is the header.',
  );
}

function changed(spec: InputSpec, cause?: UsageError): StopError {
  return new StopError(
    'input_changed',
    `${nameOf(spec)} changed while the run was reading it${cause === undefined ? '.' : `: ${cause.message}`}`,
    'Put the file back as it was and run the same command, or begin again with --restart.',
    { cause },
  );
}
