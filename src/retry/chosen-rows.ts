import { failedCodes } from '../account/retry-command.js';
import { type StoredSummary, tallyOf } from '../account/summary.js';
import { type Ended, emptyTally, fold, type Tally } from '../account/tally.js';
import { namesOf } from '../account/tally-sum.js';
import { ABSTAINED } from '../answer/answer.js';
import { type Gold, goldCell } from '../answer/gold.js';
import { recordOptions } from '../config/record-options.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { counted } from '../figures.js';
import { isObject, valueText } from '../json.js';
import type { Answer, Completion, Outcome, Row } from '../model.js';
import { outputBytes } from '../output/output-bytes.js';
import { inputColumn, isAnswerInvalid, isUnreadable, outcomeOf } from '../output/read-back.js';
import { RESULTS } from '../output/result-columns.js';
import { type StandingRecord, standingRecords } from '../output/rewrite.js';
import { recordedAnswers } from '../score/recorded-answer.js';
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
 * @param header of the output, as the job writes it
 * @param before the summary of the output
 * @param signal ends it
 * @param isChanged whether the job reads answers in another way than it did
 * @throws UsageError when the columns of the output leave out what is needed
 * @throws the reason of the signal
 */
export async function chooseRows(
  settings: Settings,
  selection: Selection,
  header: string,
  before: StoredSummary,
  signal: AbortSignal,
  isChanged = false,
): Promise<Chosen> {
  const { path, format } = settings.output;
  const numbers: number[] = [];
  let records = 0;
  const abstains = recordOptions(settings).answer.abstains ?? false;
  const wants = wanting(selection);

  async function* chosenRecords(): AsyncGenerator<Buffer> {
    yield Buffer.from(header);
    for await (const batch of standingRecords(outputBytes(path), format, path)) {
      signal.throwIfAborted();
      const pieces: Buffer[] = [];
      for (const record of batch) {
        records++;
        if (records === 1) assertColumns(record, selection, settings.output, abstains);
        if (!wants(record)) continue;
        numbers.push(record.number);
        pieces.push(record.bytes);
      }
      if (pieces.length > 0) yield Buffer.concat(pieces);
    }
  }

  const recorded = recordedRow(settings, before.merged_review !== undefined, isChanged);
  // Names that the output has no count of are in its `(other)`.
  let tally: Tally = { ...emptyTally(), ...namesOf(tallyOf(before)) };
  for await (const rows of format.readBack(chosenRecords(), path)) {
    tally = fold(
      tally,
      rows.map((row) => recorded.ended(row, numbers[row.number - 1] ?? 0)),
    );
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
  return { numbers, tally, hasGold: recorded.hasGold() };
}

function wanting({ statuses, invalid, abstained, rows }: Selection): (record: StandingRecord) => boolean {
  let range = 0;
  return ({ number, fields }) => {
    while ((rows[range]?.[1] ?? number) < number) range++;
    if (number >= (rows[range]?.[0] ?? Number.POSITIVE_INFINITY)) return true;
    const status = fields.get('status');
    if (statuses.some((wanted) => wanted === status)) return true;
    if (status !== 'completed') return false;
    if (abstained && String(fields.get('abstained')) === 'true') return true;
    return invalid && isAnswerInvalid(fields);
  };
}

/** What the records lack by which rows are chosen is told before anything else. */
function assertColumns(
  { fields }: StandingRecord,
  { invalid, abstained }: Selection,
  { path, format }: Settings['output'],
  abstains: boolean,
): void {
  const lacking = [
    ...(fields.has('status') ? [] : ['status']),
    ...(invalid && !fields.has(format.hasHeader ? 'error_code' : 'error') ? ['error_code'] : []),
    // Of a job that does not abstain, a column of this name is the input's.
    ...(abstained && !(abstains && fields.has('abstained')) ? ['abstained'] : []),
  ];
  if (lacking.length > 0) throw columnsMissing(path, lacking);
}

/** Columns of a result by which nothing is counted. */
const UNCOUNTED = new Set([
  'prompt_filtered',
  'completion_filtered',
  'model',
  'completion_id',
  'created',
  'attempts',
  'error_message',
]);
const COUNTED = RESULTS.filter(({ name }) => !UNCOUNTED.has(name));

/** Reads back what the tally has counted of a row, out of its record. */
function recordedRow(settings: Settings, isMerged: boolean, isChanged: boolean) {
  const { output, gold: column, answer: spec } = settings;
  const options = recordOptions(settings);
  const { answer: reader } = options;
  const answers = recordedAnswers(spec, options);
  const asked = [...options.origins, ...(options.answerSource ? (['answer_source'] as const) : [])];
  const readGold = goldCell(spec);
  const goldIn = column === null ? null : inputColumn(column, options);
  // What is counted of a text that is no answer.
  const noAnswer = reader.read({ text: '', finish_reason: null }).counted;
  let hasGold = true;
  const abstainBelow = spec.kind === 'labels' ? spec.abstainBelow : undefined;
  // All records of CSV have the same columns.
  let lacking: readonly string[] | null = null;
  const lackingIn = (row: Row): readonly string[] => {
    if (lacking === null || row.source !== undefined) lacking = answers.lacks(row).needed;
    return lacking;
  };

  const goldOf = (row: Row, code: string): Gold | null => {
    if (goldIn === null || isUnreadable(code)) return null;
    const cell = goldIn(row);
    if (cell === undefined) hasGold = false;
    const gold = cell === undefined ? null : readGold(cell);
    return typeof gold === 'string' ? null : gold;
  };

  /** As the run has counted the row, out of its text: the answer may be that of a person by now. */
  const readAgain = (row: Row, completion: Completion, { confidence }: Answer, number: number): Answer => {
    if (isChanged) throw answerChanged(output.path, number);
    if (abstainBelow !== undefined && !answers.hasConfidence(row))
      throw columnsMissing(output.path, ['confidence']);
    const { label, abstained: _, confidence: __, ...read } = reader.read(completion);
    if (read.fault !== null) return { ...read, fault: { code: read.fault.code, message: '' } };
    const said = label === undefined ? read : { ...read, values: [label], counted: [label] };
    const sure = answers.hasConfidence(row) && confidence !== undefined ? { ...said, confidence } : said;
    if (abstainBelow === undefined || (confidence?.value ?? 0) >= abstainBelow) return sure;
    const [left] = said.counted;
    return { ...sure, values: [null], counted: [ABSTAINED], abstained: true, ...(left && { label: left }) };
  };

  const answerOf = (
    row: Row,
    outcome: Outcome,
    gold: Gold | null,
    code: string,
    number: number,
  ): Answer | null => {
    if (outcome.status === 'filtered' && outcome.completion !== null)
      return { values: [], counted: noAnswer, fault: null };
    if (outcome.status !== 'completed') return null;
    const needed = lackingIn(row);
    if (needed.length > 0) throw columnsMissing(output.path, needed);
    if (spec.kind === 'text') return { values: [], counted: [], fault: null };
    const { confidence, ...read } = answers.answerOf(row, gold ?? { kind: 'label', label: '' });
    const isRepaired = options.answerSource && valueText(row.fields.get('answer_source')) === 'repaired';
    const [value] = read.values;
    const answer: Answer = {
      ...read,
      ...(isRepaired && { repaired: true }),
      ...(answers.hasConfidence(row) && confidence !== undefined && { confidence }),
      fault: read.fault && { code, message: '' },
    };
    if (answer.fault !== null) return { ...answer, counted: noAnswer };
    if (answer.abstained) {
      const said = answers.saidOf(row, answer);
      const { label = said.values[0] } = said;
      return { ...answer, counted: [ABSTAINED], ...(typeof label === 'string' && { label }) };
    }
    // People give answers to rows that had none, or another: then nothing says any more that there is none.
    if (isMerged) return readAgain(row, outcome.completion, answer, number);
    if (spec.kind === 'json') return { ...answer, counted: ['valid'] };
    const said = Array.isArray(value) ? value.map(String) : [valueText(value)];
    return { ...answer, counted: said.length > 0 ? said : reader.read(NOTHING_APPLIES).counted };
  };

  return {
    hasGold: () => hasGold,
    /** @param number of the row, for messages */
    ended(row: Row, number: number): Ended {
      if (row.fault !== undefined) throw unreadable(output.path, number, row.fault.message);
      const code = codeOf(row);
      // Of a row that failed no more is looked at than is counted: there may be many.
      const failed = failedOf(row, code);
      const outcome =
        (asked.length === 0 ? failed : null) ?? outcomeOf(row, asked, output.formulas) ?? failed;
      if (outcome === null) {
        const lacking = lackingOf(row, asked);
        if (lacking.length === 0) throw unreadable(output.path, number, 'its values do not go together');
        throw columnsMissing(output.path, lacking);
      }
      const gold = goldOf(row, code);
      return { outcome, answer: answerOf(row, outcome, gold, code, number), gold };
    },
  };
}

/** Of a row that failed nothing is counted but that, and its error; the code is empty where `output.columns` leaves it out. */
function failedOf({ fields, source }: Row, code: string): Outcome | null {
  if (valueText(fields.get('status')) !== 'failed') return null;
  if (code === '' && fields.has(source === undefined ? 'error_code' : 'error')) return null;
  return { status: 'failed', error: { code, message: '' }, attempts: 1, latency_ms: null };
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

function codeOf({ fields }: Row): string {
  const error = fields.get('error');
  return valueText(isObject(error) ? error['code'] : fields.get('error_code'));
}

function lackingOf({ fields, source }: Row, asked: readonly string[]): string[] {
  const names =
    source === undefined
      ? COUNTED.map(({ name }) => name)
      : [...new Set(COUNTED.map(({ part }) => part as string))];
  return [...names, ...asked].filter((name) => !fields.has(name));
}

const NOTHING_APPLIES = { text: 'none', finish_reason: null };

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
