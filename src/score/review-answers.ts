import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type AnswerReader, answerReader } from '../answer/answer.js';
import { goldCell } from '../answer/gold.js';
import { UsageError } from '../errors.js';
import { count } from '../figures.js';
import { isObject, parseExact, valueText } from '../json.js';
import type { Answer, AnswerSpec, Json, Row } from '../model.js';
import { uninert } from '../output/formula.js';
import { survey } from '../source/source.js';

/** An answer that a person gave. */
export interface Reviewed {
  readonly answer: Answer;
  /** Of the file for review. */
  readonly line: number;
  /** What the model had said, in short, as {@link inShort} has it; null where the file does not have it any more. */
  readonly text: string | null;
}

/** Answers are kept in memory: so many are. */
const MOST_ROWS = 1_000_000;
/** Problems that are told; the others are counted. */
const MOST_TOLD = 20;

/** Collects what is wrong with a review, because nothing is written unless all of it is right. */
export class Problems {
  readonly #told: string[] = [];
  #all = 0;

  constructor(private readonly file: string) {}

  add(line: number, what: string): void {
    this.#all += 1;
    if (this.#told.length < MOST_TOLD) this.#told.push(`${this.file}, line ${line}: ${what}`);
  }

  /** @throws UsageError `review_invalid` when there are any */
  end(): void {
    if (this.#all === 0) return;
    const more = this.#all - this.#told.length;
    throw new UsageError(
      'review_invalid',
      [...this.#told, ...(more > 0 ? [`and ${count(more)} more`] : [])].join('\n'),
      'Nothing was written. Correct these cells, or empty them where the right answer is not known.',
    );
  }
}

/**
 * Reads the answers that people gave, by the numbers of their rows. The file may have been saved by a spreadsheet: with another
 * separator, other line ends, its columns in another order, or without those that are not needed: `row` and the answer.
 * @returns the answers, and how many rows have none
 * @throws UsageError for a file that cannot be read; what is wrong with single rows goes to `problems`
 */
export async function readReview(
  file: string,
  spec: AnswerSpec,
  problems: Problems,
): Promise<{ readonly answers: ReadonlyMap<number, Reviewed>; readonly empty: number }> {
  if (!existsSync(file)) {
    throw new UsageError(
      'review_missing',
      `${file} does not exist`,
      'Give the file with the rows for review.',
    );
  }
  const reader = answerReader(spec);
  const answerIn = cellReader(spec, reader);
  const answers = new Map<number, Reviewed>();
  let empty = 0;
  const onRow = ({ fields, fault, line }: Row): void => {
    const cell = (name: string): string => uninert(valueText(fields.get(name))).trim();
    const answer = fault === undefined ? answerIn((name) => (fields.has(name) ? cell(name) : null)) : null;
    const row = cell('row');
    const before = answers.get(Number(row));
    if (fault !== undefined) problems.add(line, fault.message);
    else if (answer === null) empty += 1;
    else if (!/^[1-9]\d{0,14}$/.test(row))
      problems.add(line, `column "row" has ${JSON.stringify(row)}, which is no number of a row`);
    else if (typeof answer === 'string') problems.add(line, answer);
    else if (before !== undefined)
      problems.add(line, `row ${row} has an answer in line ${before.line} already`);
    else {
      if (answers.size === MOST_ROWS) throw tooMany(file);
      const text = fields.has('text') ? inShort(valueText(fields.get('text'))) : null;
      answers.set(Number(row), { answer, line, text });
    }
  };
  const { columns } = await survey({ path: file }, { onRow });
  const lacking = [
    ...(columns.includes('row') ? [] : ['row']),
    ...(['answer', ...reader.columns].some((name) => columns.includes(name)) ? [] : reader.columns),
  ];
  if (lacking.length > 0) {
    throw new UsageError(
      'review_column_missing',
      `${file} has no column ${lacking.join(', ')}; it has ${columns.slice(0, 20).join(', ')}`,
      'It needs the number of each row and its answer, as the file for review has them.',
    );
  }
  return { answers, empty };
}

const tooMany = (file: string): UsageError =>
  new UsageError(
    'review_too_large',
    `${file} has more than ${count(MOST_ROWS)} answers`,
    'Put them into several files, and merge one after the other.',
  );

/**
 * A text by which a row is known again. What spreadsheets change is left out: white space, cases (`true` becomes `TRUE`), the
 * mark in front of a formula.
 */
export function inShort(text: string): string {
  const plain = uninert(text).normalize('NFC').replaceAll(/\s+/g, ' ').trim().toLowerCase();
  const number = plain === '' ? Number.NaN : Number(plain);
  return createHash('sha256')
    .update(Number.isNaN(number) ? plain : String(number))
    .digest('base64')
    .slice(0, 22);
}

/** Reads the answer of a row from its cells: null where they are empty, a text that says what is wrong with them. */
type CellReader = (cell: (name: string) => string | null) => Answer | string | null;

function cellReader(spec: AnswerSpec, reader: AnswerReader): CellReader {
  const valid = (values: readonly Json[]): Answer => ({ values, counted: [], fault: null, abstained: false });
  if (spec.kind === 'json') return jsonReader(spec.schema, reader);
  const read = goldCell(spec);
  return (cell) => {
    const text = cell('answer') ?? '';
    const gold = read(text);
    if (gold === null || typeof gold === 'string') return gold && `column "answer" ${gold}`;
    if (gold.kind === 'labels') return valid([gold.labels]);
    if (gold.kind !== 'label') return null;
    return valid([spec.kind === 'number' ? Number(gold.label) : gold.label]);
  };
}

/** Properties in columns of their own, or the JSON as a whole in one. */
function jsonReader(schema: { readonly [key: string]: Json }, reader: AnswerReader): CellReader {
  const { properties } = schema;
  const isText = (name: string): boolean => {
    const property = isObject(properties) ? properties[name] : undefined;
    return isObject(property) && property['type'] === 'string';
  };
  const checked = (json: string): Answer | string => {
    const answer = reader.read({ text: json, finish_reason: 'stop' });
    return answer.fault === null ? { ...answer, abstained: false } : answer.fault.message;
  };
  return (cell) => {
    const cells = reader.columns.map((name) => [name, cell(name) ?? ''] as const);
    const isWhole = reader.shape !== 'object' || cells.every(([name]) => cell(name) === null);
    if (isWhole) return cell('answer') ? checked(cell('answer') ?? '') : null;
    const filled = cells.filter(([, text]) => text !== '');
    if (filled.length === 0) return null;
    const members = filled.map(([name, text]): [string, Json] => [name, isText(name) ? text : parsed(text)]);
    return checked(JSON.stringify(Object.fromEntries(members)));
  };
}

function parsed(text: string): Json {
  try {
    return parseExact(text);
  } catch {
    return text;
  }
}
