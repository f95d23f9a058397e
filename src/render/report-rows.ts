import type { StoredSummary, Summary } from '../account/summary.js';
import { sumOf } from '../account/tally.js';
import { REFUSED } from '../answer/answer.js';
import { type Gold, goldText, saysRight } from '../answer/gold.js';
import { labelsCell, SEPARATOR } from '../answer/label-answer.js';
import { clipped } from '../core/figures.js';
import { isObject, valueText } from '../core/json.js';
import type { Json } from '../core/model.js';
import { randomFrom } from '../core/random.js';
import { Reservoir, shared } from '../core/reservoir.js';
import { ANY_JOB, type OutputRecord, outputAt, type RecordedJob, readOutput } from '../output/reader.js';
import {
  ABSTAINED,
  ANSWER_SOURCE,
  CONFIDENCE,
  LOGPROBS,
  ORIGINS,
  PARTS,
  RESULTS,
  STATUS,
  TOLD,
} from '../output/result-columns.js';
import { columnsInTags } from '../prompt/template.js';
import { escaped } from './markup.js';

/** Rows that need a look, all that fit, and a sample of the others, in row order. */
export interface ReportTable {
  readonly columns: readonly ReportColumn[];
  readonly rows: readonly ReportRow[];
  /** Of the output, as are the counts: by outcome, those that need a look first, and by answer. No zeros. */
  readonly records: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly answers: Readonly<Record<string, number>>;
}

/** In this order: parts of the answer, columns that the prompt has, what came with the answer, all others. */
const GROUPS = ['answer', 'confidence', 'prompt', 'came', 'row'] as const;

interface ReportColumn {
  readonly name: string;
  readonly of: (typeof GROUPS)[number];
}

interface ReportRow {
  /** From 1. */
  readonly row: number;
  readonly outcome: RowOutcome;
  /** The right answer; empty if unknown. */
  readonly gold: string;
  /** Clipped. Texts of rows and models: never markup. */
  readonly cells: readonly string[];
}

export const TO_LOOK_AT = ['wrong', 'invalid', 'refused', 'abstained', 'failed', 'filtered'] as const;
/** `right` and `wrong` where the right answer is known, else `answered`. */
const OUTCOMES = [...TO_LOOK_AT, 'right', 'answered', 'skipped'] as const;
type RowOutcome = (typeof OUTCOMES)[number];

export const isToLookAt = ({ outcome }: Pick<ReportRow, 'outcome'>): boolean =>
  TO_LOOK_AT.some((name) => name === outcome);

/** Of a table; and how many of these are reserved for the sample, if there are other rows. */
const MOST_ROWS = 2_000;
const SAMPLE = 500;
/** Results first, then the first input columns. */
const MOST_COLUMNS = 16;
/** Characters of a cell: the first that makes the table small enough. Labels stay whole: readers choose rows by them. */
const CLIPS = [300, 200, 120, 80, 50, 30] as const;
/** Of a column that the prompt has: it must be read. */
const LEAST_ASKED = 120;
/** Bytes of all rows on a page, with room for the rest; and overhead of a row and of a cell. */
const MOST_BYTES = 4_000_000;
const AROUND_ROW = 400;
const AROUND_CELL = 40;

/** Other result columns are only in the output. */
const SHOWN: ReadonlyMap<string, ReportColumn['of']> = new Map([
  ['answer', 'answer'],
  ['confidence', 'confidence'],
  ...(['text', 'refusal', 'error_code', 'error_message'] as const).map((name) => [name, 'came'] as const),
]);
/** Results that no table shows: columns of CSV, parts of JSONL. No input column of a CSV has such a name. */
const HIDDEN = new Set([STATUS, ...RESULTS].map(({ name }) => name));
const HIDDEN_PARTS: ReadonlySet<string> = new Set(PARTS);
/** Result columns of some jobs, after the status; before it the name is an input column's. */
const OPTIONAL = new Set(
  [...TOLD, ANSWER_SOURCE, CONFIDENCE, ABSTAINED, LOGPROBS, ...Object.values(ORIGINS)].map(
    ({ name }) => name,
  ),
);

/** Names of the tally that are not texts of answers. */
const COUNTED_AS = /^(?:\(.*\)|valid|invalid)$/;
/** Rows whose answer has no count of its own. */
const OTHERS = '(others)';

/**
 * One pass over the output. The sample depends only on output and job.
 * @param recorded how the records are read. @default without gold: no answer is known to be wrong
 * @returns a reason if the output does not say how rows ended
 * @throws UsageError `output_unreadable`, `output_damaged`
 */
export async function reportRows(
  output: string,
  summary: StoredSummary,
  recorded: RecordedJob = ANY_JOB,
): Promise<ReportTable | string> {
  const groups = new Map(
    [...quotas(summary, recorded)].map(([name, quota]) => [name, sampleOf(name, quota)] as const),
  );
  const unnamed = sampleOf(OTHERS, MOST_ROWS);
  const file = outputAt(output);
  let goldColumn = recorded.gold?.name ?? null;
  const abstains = summary.answers_abstained > 0;
  const outcomes = new Map<string, number>(OUTCOMES.map((name) => [name, 0]));
  const answers = new Map(namesIn(summary, recorded).map((name) => [name, 0]));
  const asked = new Set(columnsInTags(summary.details.prompt ?? ''));
  const columns = { isCsv: file.format.hasHeader, asked, labels: answers };
  const table = new TableColumns(columns, recorded);
  const countIn = (counts: Map<string, number>, name: string): void => {
    const before = counts.get(name);
    if (before !== undefined) counts.set(name, before + 1);
  };
  let records = 0;
  for await (const batch of readOutput(file, recorded)) {
    for (const record of batch) {
      if (records === 0) {
        if (!record.has('status'))
          return `${output} has no column status, so it is not known how its rows ended`;
        if (record.lacksForAnswer().length > 0) goldColumn = null;
      }
      records += 1;
      const right = goldColumn === null ? null : record.gold(goldColumn);
      const gold = typeof right === 'object' ? right : null;
      const outcome = outcomeOf(record, abstains, gold);
      if (outcome === null)
        return `record ${records} of ${output} has the status ${JSON.stringify(valueText(record.get('status')))}, so the rows are left out`;
      const answer = answerText(record.value('answer'), recorded);
      countIn(outcomes, outcome);
      if (answer !== '') for (const name of labelsIn(answer, recorded)) countIn(answers, name);
      const group = isToLookAt({ outcome }) ? groups.get(outcome) : (groups.get(`=${answer}`) ?? unnamed);
      group?.offer(() => {
        const said = gold === null ? '' : goldText(gold);
        return {
          row: record.number,
          outcome,
          gold: clipped(said, CLIPS[0]),
          values: table.read(record, said),
        };
      });
    }
  }
  const rows = [...groups.values()].flatMap(({ kept }) => kept);
  const others = sampleOf(OTHERS, MOST_ROWS - rows.length);
  for (const row of unnamed.kept) others.offer(() => row);
  rows.push(...others.kept);
  rows.sort((a, b) => a.row - b.row);
  return { ...table.of(rows), records, outcomes: occurring(outcomes), answers: occurring(answers) };
}

const occurring = (counts: ReadonlyMap<string, number>): Record<string, number> =>
  Object.fromEntries([...counts].filter(([, rows]) => rows > 0));

interface KeptRow extends Omit<ReportRow, 'cells'> {
  readonly values: ReadonlyMap<string, string>;
}

/** @param name seeds it, so that a page made again has the same rows */
const sampleOf = (name: string, size: number): Reservoir<KeptRow> => new Reservoir(size, randomFrom(0, name));

/** Null if the record does not say. */
function outcomeOf(record: OutputRecord, abstains: boolean, gold: Gold | null): RowOutcome | null {
  const { status } = record;
  if (status !== 'completed') return status;
  if (record.isInvalid) return record.errorCode === REFUSED ? 'refused' : 'invalid';
  // Without rows that abstain, a column of this name is the input's.
  if (abstains && record.isAbstained) return 'abstained';
  if (gold === null) return 'answered';
  return saysRight(gold, record.answer(gold)) ? 'right' : 'wrong';
}

/** Several labels as in CSV. */
const answerText = (answer: Json | undefined, { spec }: RecordedJob): string =>
  valueText(spec.kind === 'labels' ? labelsCell(answer ?? null) : answer);

const labelsIn = (answer: string, { spec }: RecordedJob): readonly string[] =>
  spec.kind === 'labels' && spec.multiple ? answer.split(SEPARATOR) : [answer];

/** Labels may have the names that the tally gives to rows without one. */
const namesIn = ({ answers }: Summary, { spec }: RecordedJob): string[] =>
  Object.keys(answers).filter((name) =>
    spec.kind === 'labels' ? spec.labels.includes(name) : !COUNTED_AS.test(name),
  );

/** Rows per group: all that need a look if there is room; of the others equal numbers for each answer. */
function quotas(summary: Summary, job: RecordedJob): Map<string, number> {
  const { rows, answers, scores } = summary;
  const judged = scores?.answered ?? rows.completed;
  const problems = new Map<RowOutcome, number>([
    ['wrong', job.gold ? judged - Math.round(judged * (scores?.answered_accuracy ?? 0)) : 0],
    ['invalid', summary.answers_invalid],
    ['refused', summary.answers_refused],
    ['abstained', summary.answers_abstained],
    ['failed', rows.failed],
    ['filtered', rows.filtered],
  ]);
  const others = rows.total - sumOf(Object.fromEntries(problems));
  const shares = shared(problems, MOST_ROWS - Math.min(SAMPLE, Math.max(0, others)));
  const room = MOST_ROWS - sumOf(Object.fromEntries(shares));
  const names = namesIn(summary, job);
  const named = new Map(names.map((name) => [`=${name}`, answers[name] ?? 0]));
  return new Map([...shares, ...shared(named, room)]);
}

class TableColumns {
  /** In order of appearance. */
  readonly #known = new Map<string, ReportColumn>();

  constructor(
    private readonly how: {
      readonly isCsv: boolean;
      /** Names in the prompt. */
      readonly asked: ReadonlySet<string>;
      readonly labels: ReadonlyMap<string, number>;
    },
    private readonly job: RecordedJob,
  ) {}

  /** @param gold the right answer, which is shown once */
  read(record: OutputRecord, gold: string): Map<string, string> {
    const cells = new Map<string, string>();
    const { isCsv } = this.how;
    let isBehind = !isCsv;
    for (const name of record.names()) {
      isBehind ||= name === STATUS.name;
      const value = record.valueAt(name) ?? null;
      const shown = OPTIONAL.has(name) && !isBehind ? undefined : SHOWN.get(name);
      if (shown !== undefined) this.#add(cells, name, shown, value);
      else if (!isCsv ? HIDDEN_PARTS.has(name) : HIDDEN.has(name) || (isBehind && OPTIONAL.has(name)))
        continue;
      // Behind the status is an answer in several columns, or the probabilities of labels.
      else if (isCsv && isBehind) this.#add(cells, name, name.startsWith('p_') ? 'row' : 'answer', value);
      // The table has the row number already.
      else if (name !== 'row' || valueText(value) !== String(record.number))
        this.#addInput(cells, name, value, gold);
    }
    if (isCsv) return cells;
    const [input, error] = [record.get('input'), record.get('error')];
    for (const [name, value] of isObject(input) ? Object.entries(input) : [])
      this.#addInput(cells, SHOWN.has(name) ? `input_${name}` : name, value, gold);
    for (const [name, value] of isObject(error) ? Object.entries(error) : [])
      if (SHOWN.has(`error_${name}`)) this.#add(cells, `error_${name}`, 'came', value);
    return cells;
  }

  #addInput(cells: Map<string, string>, name: string, value: Json, gold: string): void {
    const { asked } = this.how;
    if (name === this.job.gold?.name && valueText(value) === gold) return;
    const isAsked = asked.has(name.trim()) || asked.has(name.replace(/^input_/, '').trim());
    this.#add(cells, name, isAsked ? 'prompt' : 'row', value);
  }

  #add(cells: Map<string, string>, name: string, of: ReportColumn['of'], value: Json): void {
    if (!this.#known.has(name)) {
      if (of === 'row' && this.#known.size >= MOST_COLUMNS) return;
      this.#known.set(name, { name, of });
    }
    const text = clipped(name === 'answer' ? answerText(value, this.job) : valueText(value), CLIPS[0]);
    // A text that is the answer says nothing more.
    if (name !== 'text' || text !== cells.get('answer')) cells.set(name, text);
  }

  of(rows: readonly KeptRow[]): Pick<ReportTable, 'columns' | 'rows'> {
    const columns = GROUPS.flatMap((group) => [...this.#known.values()].filter(({ of }) => of === group));
    columns.splice(MOST_COLUMNS);
    const isWhole = (text: string, name: string): boolean =>
      name === 'answer' && (this.job.spec.kind === 'labels' || this.how.labels.has(text));
    const cut = (most: number): ReportRow[] =>
      rows.map(({ values, ...row }) => ({
        ...row,
        cells: columns.map(({ name, of }) => {
          const text = values.get(name) ?? '';
          if (isWhole(text, name)) return text;
          return clipped(text, of === 'prompt' ? Math.max(most, LEAST_ASKED) : most);
        }),
      }));
    let table: ReportRow[] = [];
    for (const most of CLIPS) {
      table = cut(most);
      if (isSmall(columns, table)) return { columns, rows: table };
    }
    // Drop columns of the input, the last first.
    while (!isSmall(columns, table)) {
      const last = columns.findLastIndex(({ of }) => of === 'row' || of === 'prompt');
      if (last < 0) break;
      columns.splice(last, 1);
      table = cut(CLIPS.at(-1) ?? 0);
    }
    return { columns, rows: table };
  }
}

/** As the page writes them: escaped, and each value with the name of its column. */
function isSmall(columns: readonly ReportColumn[], rows: readonly ReportRow[]): boolean {
  const size = (text: string): number => Buffer.byteLength(escaped(text));
  const around = columns.map(({ name }) => AROUND_CELL + size(name));
  let bytes = 0;
  for (const { cells, gold } of rows) {
    bytes += AROUND_ROW + size(gold);
    for (const [i, cell] of cells.entries()) if (cell !== '') bytes += size(cell) + (around[i] ?? 0);
    if (bytes > MOST_BYTES) return false;
  }
  return true;
}
