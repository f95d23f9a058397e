import { recordOptions } from '../config/record-options.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { counted } from '../figures.js';
import type { Outcome } from '../model.js';
import { isUnreadable, type OutputRecord, outputAt, readOutput } from '../output/reader.js';
import { failedCodes } from '../report/retry-command.js';
import { type StoredSummary, tallyOf } from '../report/summary.js';
import { type Ended, emptyTally, fold, type Tally } from '../report/tally.js';
import { namesOf } from '../report/tally-sum.js';
import type { Selection } from './selection.js';

/** The rows of an output that are called again. */
export interface Chosen {
  /** Their numbers, in order. */
  readonly numbers: readonly number[];
  /** What their records count in the tally of the output. */
  readonly tally: Tally;
  /** Whether the records have the right answers, by which the rows are scored; true for a job without gold. */
  readonly hasGold: boolean;
}

/**
 * Finds the rows in one pass over the output, and what their records count.
 * @param before the summary of the output
 * @param signal ends it
 * @param isChanged whether the job reads answers in another way than it did
 * @throws UsageError when the columns of the output leave out what is needed
 * @throws the reason of the signal
 */
export async function chooseRows(
  settings: Settings,
  selection: Selection,
  before: StoredSummary,
  signal: AbortSignal,
  isChanged = false,
): Promise<Chosen> {
  const { gold, output } = settings;
  const { path } = output;
  const numbers: number[] = [];
  let records = 0;
  const wants = wanting(selection);
  const job = recordOptions(settings);
  let hasGold = true;
  // Names that the output has no count of are in its `(other)`.
  let tally: Tally = { ...emptyTally(), ...namesOf(tallyOf(before)) };
  const isMerged = before.merged_review !== undefined;
  for await (const batch of readOutput(outputAt(path), job)) {
    signal.throwIfAborted();
    const ended: Ended[] = [];
    for (const record of batch) {
      records++;
      if (records === 1) assertColumns(record, selection, output, job.answer.abstains ?? false);
      if (!wants(record)) continue;
      numbers.push(record.number);
      if (gold !== null && record.gold(gold) === undefined) hasGold = false;
      ended.push(endedOf(record, settings, isMerged, isChanged));
    }
    if (ended.length > 0) tally = fold(tally, ended);
  }
  tally = withCodes(tally, before, settings);
  const last = selection.rows.at(-1)?.[1] ?? 0;
  if (last > records) {
    throw new UsageError(
      'no_such_row',
      `--row ${last}: ${path} has ${counted(records, 'row')}`,
      'Rows are numbered from 1, in the order of the input.',
    );
  }
  return { numbers, tally, hasGold };
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
  record: OutputRecord,
  { invalid, abstained }: Selection,
  { path, format }: Settings['output'],
  abstains: boolean,
): void {
  const lacking = [
    ...(record.has('status') ? [] : ['status']),
    ...(invalid && !record.has(format.hasHeader ? 'error_code' : 'error') ? ['error_code'] : []),
    // Of a job that does not abstain, a column of this name is the input's.
    ...(abstained && !(abstains && record.has('abstained')) ? ['abstained'] : []),
  ];
  if (lacking.length > 0) throw columnsMissing(path, lacking);
}

function endedOf(
  record: OutputRecord,
  { output, gold }: Settings,
  isMerged: boolean,
  isChanged: boolean,
): Ended {
  // Of a row that failed no more is looked at than is counted: there may be many, and records may have no more.
  const lacksCode = !record.has(output.format.hasHeader ? 'error_code' : 'error');
  if (record.status === 'failed' && (record.errorCode !== '' || lacksCode)) {
    const right = gold === null ? null : record.gold(gold);
    const error = { code: record.errorCode, message: '' };
    const { origin } = record;
    const outcome: Outcome = {
      status: 'failed',
      error,
      attempts: 1,
      latency_ms: null,
      ...(origin && { origin }),
    };
    return { outcome, answer: null, gold: typeof right === 'object' ? right : null };
  }
  const lacking = record.lacksForTally(null);
  if (lacking.length > 0) throw columnsMissing(output.path, lacking);
  const ended = record.ended(gold, isMerged);
  if (ended === null) throw unreadable(output.path, record.number, 'its values do not go together');
  if (isMerged && isChanged && ended.answer?.fault === null && !ended.answer.abstained)
    throw answerChanged(output.path, record.number);
  return ended;
}

/**
 * The tally with the errors of failed rows whose records leave them out: all of them together are those that the summary counts.
 * @throws UsageError where the summary does not tell them apart
 */
function withCodes(tally: Tally, before: StoredSummary, { gold, output }: Settings): Tally {
  const { '': untold = 0, ...errors } = tally.errors;
  if (untold === 0) return tally;
  const codes = failedCodes(before);
  const names = Object.keys(codes ?? {});
  const isAll = untold === before.rows.failed;
  // The right answer of a row that could not be read is not counted.
  if (codes === null || (!isAll && names.length > 1) || (gold !== null && names.some(isUnreadable)))
    throw columnsMissing(output.path, ['error_code']);
  const told = names.map((code) => [code, (errors[code] ?? 0) + (isAll ? (codes[code] ?? 0) : untold)]);
  return { ...tally, errors: { ...errors, ...Object.fromEntries(told) } };
}

const columnsMissing = (output: string, names: readonly string[]): UsageError =>
  new UsageError(
    'output_column_missing',
    `${output} has no ${names.join(', ')}, by which rows are chosen and taken out of the figures`,
    'Choose other rows (failed ones need status, and error_code where not all of them are meant), or run the job again with these among output.columns.',
  );

const answerChanged = (output: string, number: number): UsageError =>
  new UsageError(
    'answer_changed',
    `the answer of row ${number} of ${output} may be that of a person (merge-review), and the summary counts what the model said; the job reads answers in another way now, so that cannot be taken out of the figures`,
    'Choose other rows, or put answer back as it was.',
  );

const unreadable = (output: string, number: number, why: string): UsageError =>
  new UsageError(
    'output_edited',
    `row ${number} of ${output} cannot be read back: ${why}`,
    'Choose other rows, or run the job again with --overwrite.',
  );
