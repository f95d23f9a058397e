import type { Summary } from '../account/summary.js';
import { sumOf } from '../account/tally.js';
import { clipped } from '../figures.js';
import { isObject, valueText } from '../json.js';
import type { Json } from '../model.js';
import { type OutputRecord, outputAt, readOutput } from '../output/reader.js';
import {
  ABSTAINED,
  ANSWER_SOURCE,
  LOGPROBS,
  ORIGINS,
  PARTS,
  RESULTS,
  STATUS,
} from '../output/result-columns.js';
import { escaped } from './markup.js';

/** Rows of the output: all that need a look, and a sample of the others, in their order. */
export interface ReportTable {
  /** Names of the cells. */
  readonly columns: readonly string[];
  readonly rows: readonly ReportRow[];
  /** Records of the output. */
  readonly records: number;
  /** Whether some of the rows that need a look are left out, because there are too many. */
  readonly is_cut: boolean;
}

interface ReportRow {
  /** Number of the row, from 1. */
  readonly row: number;
  readonly outcome: RowOutcome;
  /** As they stand in the output, clipped; of the row and of the model, so never markup. */
  readonly cells: readonly string[];
}

type RowOutcome = 'answered' | 'invalid' | 'abstained' | 'filtered' | 'failed' | 'skipped';

/** Those that a person should look at. */
const TO_LOOK_AT: readonly RowOutcome[] = ['failed', 'filtered', 'invalid', 'abstained'];
export const isToLookAt = ({ outcome }: Pick<ReportRow, 'outcome'>): boolean => TO_LOOK_AT.includes(outcome);

/** Rows of a table at most, and those of them that are kept for the sample, where there are others. */
const MOST_ROWS = 5_000;
const SAMPLE = 500;
/** Columns at most: results, and the first of the input. */
const MOST_COLUMNS = 16;
/** Characters of a cell, the most first: the first that makes the table no larger than it may be. */
const CLIPS = [300, 200, 120, 80, 50, 30, 15, 5] as const;
/** Bytes of all rows on a page, which has room for charts and all else beside them; and what it needs around a row and a cell. */
const MOST_BYTES = 4_000_000;
const AROUND_ROW = 330;
const AROUND_CELL = 40;

/** Result columns that a table shows; the others are in the output. */
const SHOWN = ['answer', 'text', 'confidence', 'error_code', 'error_message'];
/** Results that no table shows, by the columns of CSV and by the parts of JSONL. A CSV has no column of the input called so. */
const HIDDEN = new Set([STATUS, ...RESULTS].map(({ name }) => name));
const HIDDEN_PARTS: ReadonlySet<string> = new Set(PARTS);
/** Columns of results that only some jobs have, behind the status: before it they are the input's. */
const OPTIONAL = new Set(
  [ANSWER_SOURCE, ABSTAINED, LOGPROBS, ...Object.values(ORIGINS)].map(({ name }) => name),
);

/** What answers are counted as that are not counted by their text. */
const COUNTED_AS = /^(?:\(.*\)|valid|invalid)$/;
/** The group of rows whose answer has no count of its own. */
const OTHERS = '(others)';

/**
 * The rows for the table of a report, in one pass over the output. Which rows are in the sample depends on the output alone.
 * @returns why there is no table, where the output does not say how rows ended
 * @throws UsageError `output_unreadable`, `output_damaged`
 */
export async function reportRows(output: string, summary: Summary): Promise<ReportTable | string> {
  const groups = new Map(
    [...quotas(summary)].map(([name, quota]) => [name, new Sample(name, quota)] as const),
  );
  const unnamed = new Sample(OTHERS, MOST_ROWS);
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
  const others = new Sample(OTHERS, MOST_ROWS - rows.length);
  for (const row of unnamed.kept) others.offer(() => row);
  rows.push(...others.kept);
  rows.sort((a, b) => a.row - b.row);
  const shown = rows.filter(isToLookAt).length;
  return { ...table.of(rows), records, is_cut: shown < toLookAt };
}

/** A row that is kept: its cells by their columns. */
interface KeptRow {
  readonly row: number;
  readonly outcome: RowOutcome;
  readonly values: ReadonlyMap<string, string>;
}

/** @returns null where the record does not say it */
function outcomeOf(record: OutputRecord, abstains: boolean): RowOutcome | null {
  const { status } = record;
  if (status !== 'completed') return status;
  if (record.isInvalid) return 'invalid';
  // Without rows that abstain, a column of this name is the input's.
  return abstains && record.isAbstained ? 'abstained' : 'answered';
}

const answerOf = (record: OutputRecord): string => valueText(record.get('answer'));

/**
 * How many rows of each group the table has: of rows to look at all, as far as there is room, and of the others as many of each
 * answer, or all where there are fewer.
 */
function quotas(summary: Summary): Map<string, number> {
  const { rows, answers, answers_invalid, answers_abstained } = summary;
  const problems = new Map<string, number>([
    ['failed', rows.failed],
    ['filtered', rows.filtered],
    ['invalid', answers_invalid],
    ['abstained', answers_abstained],
  ]);
  const others = rows.total - sumOf(Object.fromEntries(problems));
  const shares = shared(problems, MOST_ROWS - Math.min(SAMPLE, Math.max(0, others)));
  const room = MOST_ROWS - sumOf(Object.fromEntries(shares));
  const texts = Object.entries(answers).filter(([name]) => !COUNTED_AS.test(name));
  const named = new Map(texts.map(([name, n]) => [`=${name}`, n]));
  return new Map([...shares, ...shared(named, room)]);
}

/** Room for groups: the same for each, and what a small one leaves goes to the others. */
function shared(sizes: ReadonlyMap<string, number>, room: number): Map<string, number> {
  let left = room;
  let groups = sizes.size;
  return new Map(
    [...sizes]
      .sort(([, a], [, b]) => a - b)
      .map(([name, size]) => {
        const share = Math.min(size, Math.floor(left / groups));
        left -= share;
        groups -= 1;
        return [name, share];
      }),
  );
}

/**
 * A fixed number of rows of a group, each row as likely as any other.
 * J. S. Vitter, "Random sampling with a reservoir", ACM Transactions on Mathematical Software 11 (1985), 37–57, algorithm R.
 */
class Sample {
  readonly kept: KeptRow[] = [];
  readonly #random: () => number;
  #seen = 0;

  constructor(
    name: string,
    private readonly size: number,
  ) {
    this.#random = randomOf(name);
  }

  /** @param row made only where it is kept */
  offer(row: () => KeptRow): void {
    this.#seen += 1;
    if (this.kept.length < this.size) this.kept.push(row());
    else {
      const place = Math.floor(this.#random() * this.#seen);
      if (place < this.size) this.kept[place] = row();
    }
  }
}

/** Numbers from 0 to 1 that are the same for a name each time: mulberry32, by T. Ettinger, seeded with the FNV-1a hash of the name. */
function randomOf(name: string): () => number {
  let state = 0x811c9dc5;
  for (const byte of Buffer.from(name)) state = Math.imul(state ^ byte, 0x01000193);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Finds out which columns a table has, and reads their cells. */
class TableColumns {
  /** Of the input, and of answers with several values, in the order in which they came. */
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
      // Each row of the table has its number.
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
    // Names take the room: columns of the input are left out, the last first.
    while (columns.length > results.length) {
      columns.splice(columns.length - results.length - 1, 1);
      if (isSmall(columns, cut(CLIPS.at(-1) ?? 0))) break;
    }
    return { columns, rows: cut(CLIPS.at(-1) ?? 0) };
  }
}

/** Whether a page has room for rows, as it writes them: escaped, and each value with the name of its column. */
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
