import { invalidIn, type Summary } from '../account/summary.js';
import { sumOf } from '../account/tally.js';
import { clipped } from '../core/figures.js';
import { isObject, valueText } from '../core/json.js';
import type { Json } from '../core/model.js';
import { randomFrom } from '../core/random.js';
import { Reservoir, shared } from '../core/reservoir.js';
import { type OutputRecord, outputAt, readOutput } from '../output/reader.js';
import {
  ABSTAINED,
  ANSWER_SOURCE,
  LOGPROBS,
  ORIGINS,
  PARTS,
  RESULTS,
  STATUS,
  TOLD,
} from '../output/result-columns.js';
import { escaped } from './markup.js';

/** Rows that need a look, all that fit, and a sample of the others, in row order. */
export interface ReportTable {
  readonly columns: readonly string[];
  readonly rows: readonly ReportRow[];
  readonly records: number;
  /** Some of the rows that need a look are missing, because there are too many. */
  readonly is_cut: boolean;
}

interface ReportRow {
  /** From 1. */
  readonly row: number;
  readonly outcome: RowOutcome;
  /** As in the output, clipped. Texts of rows and models: never markup. */
  readonly cells: readonly string[];
}

type RowOutcome = 'answered' | 'invalid' | 'abstained' | 'filtered' | 'failed' | 'skipped';

const TO_LOOK_AT: readonly RowOutcome[] = ['failed', 'filtered', 'invalid', 'abstained'];
export const isToLookAt = ({ outcome }: Pick<ReportRow, 'outcome'>): boolean => TO_LOOK_AT.includes(outcome);

/** Of a table; and how many of these are reserved for the sample, if there are other rows. */
const MOST_ROWS = 5_000;
const SAMPLE = 500;
/** Results first, then the first input columns. */
const MOST_COLUMNS = 16;
/** Characters of a cell: the first that makes the table small enough. */
const CLIPS = [300, 200, 120, 80, 50, 30, 15, 5] as const;
/** Bytes of all rows on a page, with room for the rest; and overhead of a row and of a cell. */
const MOST_BYTES = 4_000_000;
const AROUND_ROW = 330;
const AROUND_CELL = 40;

/** Other result columns are only in the output. */
const SHOWN = ['answer', 'text', 'confidence', 'error_code', 'error_message'];
/** Results that no table shows: columns of CSV, parts of JSONL. No input column of a CSV has such a name. */
const HIDDEN = new Set([STATUS, ...RESULTS].map(({ name }) => name));
const HIDDEN_PARTS: ReadonlySet<string> = new Set(PARTS);
/** Result columns of some jobs, after the status; before it the name is an input column's. */
const OPTIONAL = new Set(
  [...TOLD, ANSWER_SOURCE, ABSTAINED, LOGPROBS, ...Object.values(ORIGINS)].map(({ name }) => name),
);

/** Names of the tally that are not texts of answers. */
const COUNTED_AS = /^(?:\(.*\)|valid|invalid)$/;
/** Rows whose answer has no count of its own. */
const OTHERS = '(others)';

/**
 * One pass over the output. The sample depends only on the output.
 * @returns a reason if the output does not say how rows ended
 * @throws UsageError `output_unreadable`, `output_damaged`
 */
export async function reportRows(output: string, summary: Summary): Promise<ReportTable | string> {
  const groups = new Map([...quotas(summary)].map(([name, quota]) => [name, sampleOf(name, quota)] as const));
  const unnamed = sampleOf(OTHERS, MOST_ROWS);
  const file = outputAt(output);
  const table = new TableColumns(file.format.hasHeader);
  const abstains = summary.answers_abstained > 0;
  let records = 0;
  let toLookAt = 0;
  for await (const batch of readOutput(file)) {
    for (const record of batch) {
      if (records === 0 && !record.has('status'))
        return `${output} has no column status, so it is not known how its rows ended`;
      records += 1;
      const outcome = outcomeOf(record, abstains);
      if (outcome === null)
        return `record ${records} of ${output} has the status ${JSON.stringify(valueText(record.get('status')))}, so the rows are left out`;
      const isOdd = isToLookAt({ outcome });
      if (isOdd) toLookAt += 1;
      const group = isOdd ? groups.get(outcome) : (groups.get(`=${answerOf(record)}`) ?? unnamed);
      group?.offer(() => ({ row: record.number, outcome, values: table.read(record) }));
    }
  }
  const rows = [...groups.values()].flatMap(({ kept }) => kept);
  const others = sampleOf(OTHERS, MOST_ROWS - rows.length);
  for (const row of unnamed.kept) others.offer(() => row);
  rows.push(...others.kept);
  rows.sort((a, b) => a.row - b.row);
  const shown = rows.filter(isToLookAt).length;
  return { ...table.of(rows), records, is_cut: shown < toLookAt };
}

interface KeptRow {
  readonly row: number;
  readonly outcome: RowOutcome;
  readonly values: ReadonlyMap<string, string>;
}

/** @param name seeds it, so that a page made again has the same rows */
const sampleOf = (name: string, size: number): Reservoir<KeptRow> => new Reservoir(size, randomFrom(0, name));

/** Null if the record does not say. */
function outcomeOf(record: OutputRecord, abstains: boolean): RowOutcome | null {
  const { status } = record;
  if (status !== 'completed') return status;
  if (record.isInvalid) return 'invalid';
  // Without rows that abstain, a column of this name is the input's.
  return abstains && record.isAbstained ? 'abstained' : 'answered';
}

const answerOf = (record: OutputRecord): string => valueText(record.get('answer'));

/** Rows per group: all that need a look if there is room; of the others equal numbers for each answer. */
function quotas(summary: Summary): Map<string, number> {
  const { rows, answers, answers_abstained } = summary;
  const problems = new Map<string, number>([
    ['failed', rows.failed],
    ['filtered', rows.filtered],
    ['invalid', invalidIn(summary)],
    ['abstained', answers_abstained],
  ]);
  const others = rows.total - sumOf(Object.fromEntries(problems));
  const shares = shared(problems, MOST_ROWS - Math.min(SAMPLE, Math.max(0, others)));
  const room = MOST_ROWS - sumOf(Object.fromEntries(shares));
  const texts = Object.entries(answers).filter(([name]) => !COUNTED_AS.test(name));
  const named = new Map(texts.map(([name, n]) => [`=${name}`, n]));
  return new Map([...shares, ...shared(named, room)]);
}

class TableColumns {
  /** Of the input, and of answers with several values, in order of appearance. */
  readonly #inputs = new Set<string>();
  readonly #results = new Set<string>();

  constructor(private readonly isCsv: boolean) {}

  read(record: OutputRecord): Map<string, string> {
    const cells = new Map<string, string>();
    let isBehind = false;
    for (const name of record.names()) {
      isBehind ||= name === STATUS.name;
      const value = record.get(name) ?? null;
      if (SHOWN.includes(name)) this.#add(cells, this.#results, name, value);
      else if (!this.isCsv ? HIDDEN_PARTS.has(name) : HIDDEN.has(name) || (isBehind && OPTIONAL.has(name)))
        continue;
      // The table has the row number already.
      else if (name !== 'row' || valueText(value) !== String(record.number))
        this.#add(cells, this.#inputs, name, value);
    }
    if (this.isCsv) return cells;
    const [input, error] = [record.get('input'), record.get('error')];
    for (const [name, value] of isObject(input) ? Object.entries(input) : [])
      this.#add(cells, this.#inputs, SHOWN.includes(name) ? `input_${name}` : name, value);
    for (const [name, value] of isObject(error) ? Object.entries(error) : [])
      this.#add(cells, this.#results, `error_${name}`, value);
    return cells;
  }

  #add(cells: Map<string, string>, columns: Set<string>, name: string, value: Json): void {
    if (columns.size >= MOST_COLUMNS && !columns.has(name)) return;
    columns.add(name);
    cells.set(name, clipped(valueText(value), CLIPS[0]));
  }

  of(rows: readonly KeptRow[]): Pick<ReportTable, 'columns' | 'rows'> {
    const results = SHOWN.filter((name) => this.#results.has(name));
    const columns = [...[...this.#inputs].slice(0, MOST_COLUMNS - results.length), ...results];
    const cut = (most: number): ReportRow[] =>
      rows.map(({ row, outcome, values }) => ({
        row,
        outcome,
        cells: columns.map((name) => clipped(values.get(name) ?? '', most)),
      }));
    for (const most of CLIPS) {
      const table = cut(most);
      if (isSmall(columns, table)) return { columns, rows: table };
    }
    // Names take the room: drop input columns, the last first.
    while (columns.length > results.length) {
      columns.splice(columns.length - results.length - 1, 1);
      if (isSmall(columns, cut(CLIPS.at(-1) ?? 0))) break;
    }
    return { columns, rows: cut(CLIPS.at(-1) ?? 0) };
  }
}

/** As the page writes them: escaped, and each value with the name of its column. */
function isSmall(columns: readonly string[], rows: readonly ReportRow[]): boolean {
  const size = (text: string): number => Buffer.byteLength(escaped(text));
  const around = columns.map((name) => AROUND_CELL + size(name));
  let bytes = 0;
  for (const { cells } of rows) {
    bytes += AROUND_ROW;
    for (const [i, cell] of cells.entries()) if (cell !== '') bytes += size(cell) + (around[i] ?? 0);
    if (bytes > MOST_BYTES) return false;
  }
  return true;
}
