import { existsSync } from 'node:fs';
import { type Gold, goldCell } from '../answer/gold.js';
import type { AnswerSpec } from '../core/answer-spec.js';
import { UsageError } from '../core/errors.js';
import { count, counted } from '../core/figures.js';
import { valueText } from '../core/json.js';
import type { Row } from '../core/model.js';
import { unknownNames } from '../core/nearest.js';
import type { OutputRecord } from '../output/reader.js';
import { formatOfName } from '../source/format.js';
import { rows, survey } from '../source/source.js';

export interface GoldSource {
  /** `null` if unknown. */
  readonly goldOf: (record: OutputRecord) => Gold | null;
  /** Notes, once all records were asked for. @throws UsageError when it matches none of them */
  readonly end: () => readonly string[];
}

export interface GoldParts {
  readonly output: string;
  readonly spec: AnswerSpec;
  readonly id: string | null;
  readonly bad: BadCells;
}

/** Cells that cannot be an answer: names the first, counts the others. */
export class BadCells {
  #first: string | null = null;
  #more = 0;

  add(file: string, line: number, column: string, problem: string): void {
    if (this.#first === null)
      this.#first = `${file}, line ${line}: column ${JSON.stringify(column)} ${problem}`;
    else this.#more += 1;
  }

  /** @throws UsageError if there are any */
  end(): void {
    if (this.#first === null) return;
    throw new UsageError(
      'gold_invalid',
      this.#first + (this.#more === 0 ? '' : `; and so with ${counted(this.#more, 'more cell')}`),
      'Correct the cell, or empty it where the right answer is not known.',
    );
  }
}

/**
 * Looks into each source, in order, until one has the right answer.
 * @param named the values of `--gold`. @default the column of the job
 * @returns `null` without a source
 */
export async function goldSources(
  named: readonly string[],
  column: string | null,
  parts: GoldParts,
): Promise<GoldSource | null> {
  const sources = await Promise.all(named.map((each) => goldSource(each, parts)));
  if (named.length === 0 && column !== null) sources.push(columnSource(column, 'answer.gold names', parts));
  if (sources.length === 0) return null;
  return {
    goldOf: (record) => sources.map((source) => source.goldOf(record)).find((gold) => gold !== null) ?? null,
    end: () => sources.flatMap((source) => source.end()),
  };
}

/** @param named `--gold`: a file, a file and its column (`gold.csv:truth`), or a column of the output */
async function goldSource(named: string, parts: GoldParts): Promise<GoldSource> {
  const file = fileIn(named);
  return file === null
    ? columnSource(named, '--gold names', parts)
    : await fileSource(file, named.slice(file.length + 1) || null, parts);
}

/** Up to the first colon after a known ending, else the whole text; null without a known ending. */
function fileIn(named: string): string | null {
  for (let end = named.indexOf(':'); end >= 0; end = named.indexOf(':', end + 1)) {
    if (formatOfName(named.slice(0, end)) !== null) return named.slice(0, end);
  }
  return formatOfName(named) === null ? null : named;
}

/** A column of the output, from the input or added since. */
function columnSource(column: string, user: string, { output, bad }: GoldParts): GoldSource {
  return {
    goldOf(record) {
      const gold = record.gold(column);
      if (gold === undefined) {
        const use = { code: 'gold_column_missing', user, owner: `${output} has` };
        throw unknownNames(use, [column], record.names());
      }
      if (typeof gold !== 'string') return gold;
      bad.add(output, record.line, column, gold);
      return null;
    },
    end: () => [],
  };
}

/** Right answers are kept in memory. */
const MOST_ROWS = 1_000_000;

interface Entry {
  readonly gold: Gold;
  readonly line: number;
  found: boolean;
}

/**
 * A file with right answers. Identifies rows by the column of `input.id`, else by the row number in `row`,
 * else by its first column; a review file always by `row`. The right answers are in the named column, else in
 * `answer`, else in the only other column.
 */
async function fileSource(file: string, named: string | null, parts: GoldParts): Promise<GoldSource> {
  const { output } = parts;
  if (!existsSync(file)) {
    throw new UsageError(
      'gold_missing',
      `--gold: ${file} does not exist`,
      'Give a file with right answers, or the name of a column of the output.',
    );
  }
  const entries = new Map<string, Entry>();
  const surveyed = await survey({ path: file }, { onRow: (row) => refuseBadRow(row, file) });
  const isBlank = surveyed.rows === 0;
  const columns = isBlank ? null : columnsOf(surveyed.columns, file, named, parts.id);
  const read = goldCell(parts.spec);
  if (columns !== null)
    for await (const row of rows({ path: file }, surveyed))
      addEntry(entries, row, columns, file, parts, read);
  const { key } = columns ?? { key: ROW };
  const keyOf = (record: OutputRecord): string => {
    if (key === ROW) return String(record.number);
    const id = record.input(key);
    if (id !== undefined) return valueText(id);
    const use = { code: 'gold_id_missing', user: `${file} names its rows by`, owner: `${output} has` };
    throw unknownNames(use, [key], record.names());
  };
  return {
    goldOf(record) {
      const entry = entries.get(keyOf(record));
      if (entry === undefined) return null;
      entry.found = true;
      return entry.gold;
    },
    end() {
      const strange = [...entries.values()].filter(({ found }) => !found).length;
      const told =
        key === ROW && entries.size > 0
          ? [`the rows of ${file} are matched by its column "row": the number of a row of ${output}, from 1`]
          : [];
      if (strange === 0) return told;
      if (strange < entries.size)
        return [
          ...told,
          `${counted(strange, 'row')} of ${file} ${strange === 1 ? 'is' : 'are'} no row of ${output}`,
        ];
      throw new UsageError(
        'gold_matches_nothing',
        `none of the ${counted(strange, 'row')} of ${file} that have a right answer is a row of ${output}, by the column ${JSON.stringify(key)}`,
        key === ROW
          ? 'It has the number of a row of the output, from 1.'
          : 'It has what stands in the column of this name in the output.',
      );
    },
  };
}

interface Columns {
  readonly key: string;
  readonly gold: string;
}

const ROW = 'row';

/** Columns that identify a review file: every CSV with input columns has them. */
const REVIEW = [ROW, 'text', 'abstained'];

function columnsOf(names: readonly string[], file: string, named: string | null, id: string | null): Columns {
  const isReview = REVIEW.every((name) => names.includes(name));
  const keys = isReview ? [ROW] : [id, ROW];
  const key = keys.find((name) => name !== null && names.includes(name)) ?? names[0] ?? ROW;
  const others = names.filter((name) => name !== key);
  const use = { code: 'gold_column_missing', user: '--gold names', owner: `${file} has` };
  if (named !== null && !names.includes(named)) throw unknownNames(use, [named], names);
  const gold = named ?? (others.includes('answer') ? 'answer' : others.length === 1 ? others[0] : undefined);
  if (gold !== undefined && gold !== key) return { key, gold };
  throw new UsageError(
    'gold_column_missing',
    `${file} has no column "answer", and ${others.length === 0 ? 'no other column' : 'several others'} beside ${JSON.stringify(key)}`,
    `Name the column with the right answers: --gold ${file}:COLUMN. Columns: ${names.slice(0, 20).join(', ')}.`,
  );
}

function refuseBadRow({ problem }: Row, file: string): void {
  if (problem === undefined) return;
  throw new UsageError('gold_row_bad', `${file}: ${problem.message}`, 'Correct that line.');
}

function addEntry(
  entries: Map<string, Entry>,
  { fields, line }: Row,
  { key, gold: column }: Columns,
  file: string,
  { bad }: GoldParts,
  read: ReturnType<typeof goldCell>,
): void {
  const gold = read(fields.get(column) ?? null);
  if (gold === null) return;
  if (typeof gold === 'string') {
    bad.add(file, line, column, gold);
    return;
  }
  const text = valueText(fields.get(key)).trim();
  const id = key === ROW ? text : valueText(fields.get(key));
  if (key === ROW && !/^[1-9]\d{0,14}$/.test(text)) {
    throw new UsageError(
      'gold_row_bad',
      `${file}, line ${line}: column "row" has ${JSON.stringify(text)}, which is no number of a row`,
      'It has the number of a row of the output, from 1.',
    );
  }
  const before = entries.get(id);
  if (before !== undefined) {
    throw new UsageError(
      'gold_row_twice',
      `${file}, line ${line}: ${key === ROW ? `row ${id}` : JSON.stringify(id)} has a right answer in line ${before.line} already`,
      'Keep one of the two.',
    );
  }
  if (entries.size === MOST_ROWS) {
    throw new UsageError(
      'gold_too_large',
      `${file} has more than ${count(MOST_ROWS)} right answers`,
      'Put them into a column of the output, and name that.',
    );
  }
  entries.set(id, { gold, line, found: false });
}
