import { recordOptions, type Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { counted } from '../core/figures.js';
import { type OutputRecord, outputAt, readOutput } from '../output/reader.js';
import type { RecordFormat } from '../output/record.js';
import type { Selection } from './selection.js';

export interface ChosenRows {
  readonly numbers: readonly number[];
  /** Null if some of the rows did not fail. */
  readonly failed: FailedRows | null;
}

/** Nothing else is counted of failed rows, so their records need no other columns. */
export interface FailedRows {
  readonly rows: number;
  /** Error code → rows; the code is empty when `output.columns` leaves it out. */
  readonly codes: ReadonlyMap<string, number>;
  readonly copied: number;
  readonly carried: number;
  readonly gold: number;
}

/** @throws UsageError when the output lacks columns for the selection; the reason of the signal */
export async function chooseRows(
  settings: Settings,
  selection: Selection,
  format: RecordFormat,
  signal: AbortSignal,
): Promise<ChosenRows> {
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
