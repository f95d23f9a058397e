import { recordOptions } from '../config/record-options.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { counted } from '../figures.js';
import { type OutputRecord, outputAt, readOutput } from '../output/reader.js';
import type { RecordFormat } from '../output/record.js';
import type { Selection } from './selection.js';

/** The rows of an output that are called again. */
export interface Chosen {
  /** Their numbers, in order. */
  readonly numbers: readonly number[];
  /** What is counted of them where all of them failed; null where some did not. */
  readonly failed: FailedRows | null;
}

/** Nothing more is counted of rows that failed, so their records need not have more. */
export interface FailedRows {
  readonly rows: number;
  /** Error code → rows; the code is empty where `output.columns` leaves it out. */
  readonly codes: ReadonlyMap<string, number>;
  readonly copied: number;
  readonly carried: number;
  /** Those whose right answer is known. */
  readonly gold: number;
}

/**
 * Finds the rows in one pass over the output.
 * @param format as the job writes it, and the output has it
 * @param signal ends it
 * @throws UsageError when the columns of the output leave out by what rows are chosen
 * @throws the reason of the signal
 */
export async function chooseRows(
  settings: Settings,
  selection: Selection,
  format: RecordFormat,
  signal: AbortSignal,
): Promise<Chosen> {
  const { gold, output } = settings;
  assertColumns(format, selection, settings);
  const wants = wanting(selection);
  const numbers: number[] = [];
  const codes = new Map<string, number>();
  const all = { rows: 0, codes, copied: 0, carried: 0, gold: 0 };
  let records = 0;
  const job = { ...recordOptions(settings), inputs: format.inputs };
  for await (const batch of readOutput(outputAt(output.path), job)) {
    signal.throwIfAborted();
    records += batch.length;
    for (const record of batch) {
      if (!wants(record)) continue;
      numbers.push(record.number);
      if (record.status !== 'failed') continue;
      const { errorCode: code, origin } = record;
      all.rows++;
      codes.set(code, (codes.get(code) ?? 0) + 1);
      if (origin !== null) all['copied_from' in origin ? 'copied' : 'carried']++;
      const right = gold === null ? null : record.gold(gold);
      if (right !== null && typeof right === 'object') all.gold++;
    }
  }
  const last = selection.rows.at(-1)?.[1] ?? 0;
  if (last > records) {
    throw new UsageError(
      'no_such_row',
      `--row ${last}: ${output.path} has ${counted(records, 'row')}`,
      'Rows are numbered from 1, in the order of the input.',
    );
  }
  return { numbers, failed: all.rows === numbers.length ? all : null };
}

function wanting({ statuses, invalid, abstained, rows }: Selection): (record: OutputRecord) => boolean {
  let range = 0;
  return (record) => {
    const { number, status } = record;
    while ((rows[range]?.[1] ?? number) < number) range++;
    if (number >= (rows[range]?.[0] ?? Number.POSITIVE_INFINITY)) return true;
    if (statuses.some((wanted) => wanted === status)) return true;
    if (status !== 'completed') return false;
    return (abstained && record.isAbstained) || (invalid && record.isInvalid);
  };
}

/** What the records lack by which rows are chosen is told before anything else. */
function assertColumns(
  { names, parts }: RecordFormat,
  { invalid, abstained }: Selection,
  { output: { path, format } }: Settings,
): void {
  const lacking = [
    ...(parts.has('status') ? [] : ['status']),
    ...(invalid && !names.includes(format.hasHeader ? 'error_code' : 'error') ? ['error_code'] : []),
    ...(abstained && !parts.has('abstained') ? ['abstained'] : []),
  ];
  if (lacking.length > 0) throw columnsMissing(path, lacking);
}

export const columnsMissing = (output: string, names: readonly string[]): UsageError =>
  new UsageError(
    'output_column_missing',
    `${output} has no ${names.join(', ')}, by which rows are chosen and taken out of the figures`,
    'Choose other rows (failed ones need status, and error_code where not all of them are meant), or run the job again with these among output.columns.',
  );
