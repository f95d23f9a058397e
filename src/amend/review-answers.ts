import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { answerReader } from '../answer/answer.js';
import { goldCell } from '../answer/gold.js';
import type { AnswerSpec } from '../core/answer-spec.js';
import { UsageError } from '../core/errors.js';
import { count } from '../core/figures.js';
import { exactOr, isObject, valueText } from '../core/json.js';
import type { Answer, Json, Row } from '../core/model.js';
import { unescapeFormula } from '../output/formula.js';
import { survey } from '../source/source.js';

export interface Reviewed {
  readonly answer: Answer;
  readonly line: number;
  /** {@link inShort} of the model's text; null if the file no longer has it. */
  readonly text: string | null;
}

/** Answers are kept in memory. */
const MOST_ROWS = 1_000_000;
/** Problems listed; the others are only counted. */
const MOST_TOLD = 20;

/** Collects all problems of a review: nothing is written unless there are none. */
export class ReviewProblems {
  readonly #told: string[] = [];
  #all = 0;

  constructor(private readonly file: string) {}

  add(line: number, what: string): void {
    this.#all += 1;
    if (this.#told.length < MOST_TOLD) this.#told.push(`${this.file}, line ${line}: ${what}`);
  }

  /** @throws UsageError `review_invalid` if there are any */
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
 * Reads a person's answers by row number. A spreadsheet may have saved the file: with another separator,
 * other line ends, reordered columns, or only the needed ones: `row` and the answer.
 * @param columns of the answer's properties in the output, in order; empty if the answer is one value
 * @returns also the number of rows without an answer
 * @throws UsageError for an unreadable file; problems of single rows go to `problems`
 */
export async function readReview(
  file: string,
  spec: AnswerSpec,
  columns: readonly string[],
  problems: ReviewProblems,
): Promise<{ readonly answers: ReadonlyMap<number, Reviewed>; readonly empty: number }> {
  if (!existsSync(file)) {
    throw new UsageError(
      'review_missing',
      `${file} does not exist`,
      'Give the file with the rows for review.',
    );
  }
  // A property of this name cannot be distinguished from the row number.
  const properties = columns.includes('row') ? [] : columns;
  const answerIn = cellReader(spec, properties);
  const answers = new Map<number, Reviewed>();
  let empty = 0;
  const onRow = ({ fields, problem, line }: Row): void => {
    const cell = (name: string): string => unescapeFormula(valueText(fields.get(name))).trim();
    const answer = problem === undefined ? answerIn((name) => (fields.has(name) ? cell(name) : null)) : null;
    const row = cell('row');
    const before = answers.get(Number(row));
    if (problem !== undefined) problems.add(line, problem.message);
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
  const { columns: found } = await survey({ path: file }, { onRow }).catch((error: unknown) => {
    throw error instanceof UsageError && error.code === 'invalid_encoding' ? notUtf8(error) : error;
  });
  const isWhole = found.includes('answer') && !properties.some((name) => found.includes(name));
  const needed = ['row', ...(isWhole || properties.length === 0 ? ['answer'] : properties)];
  const lacking = needed.filter((name) => !found.includes(name));
  if (lacking.length > 0) {
    throw new UsageError(
      'review_column_missing',
      `${file} has no column ${lacking.join(', ')}; it has ${found.slice(0, 20).join(', ')}`,
      'It needs the number of each row and its answer, as the file for review has them.',
    );
  }
  return { answers, empty };
}

const notUtf8 = ({ code, message }: UsageError): UsageError =>
  new UsageError(code, message, 'In the spreadsheet, save it as CSV UTF-8.');

const tooMany = (file: string): UsageError =>
  new UsageError(
    'review_too_large',
    `${file} has more than ${count(MOST_ROWS)} answers`,
    'Put them into several files, and merge one after the other.',
  );

/** Digest of a row's text. Ignores what spreadsheets change: white space, case, the formula mark. */
export function inShort(text: string): string {
  const plain = unescapeFormula(text).normalize('NFC').replaceAll(/\s+/g, ' ').trim().toLowerCase();
  const number = plain === '' ? Number.NaN : Number(plain);
  return createHash('sha256')
    .update(Number.isNaN(number) ? plain : String(number))
    .digest('base64')
    .slice(0, 22);
}

/** Null if the cells are empty; a string says what is wrong with them. */
type CellReader = (cell: (name: string) => string | null) => Answer | string | null;

function cellReader(spec: AnswerSpec, properties: readonly string[]): CellReader {
  const valid = (values: readonly Json[]): Answer => ({
    values,
    counted: [],
    problem: null,
    abstained: false,
  });
  if (spec.kind === 'json') return jsonReader(spec, properties);
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

type JsonSpec = Extract<AnswerSpec, { kind: 'json' }>;

/** Each property in its own column, or the whole JSON in one. */
function jsonReader(spec: JsonSpec, properties: readonly string[]): CellReader {
  const reader = answerReader(spec);
  const read = propertyReader(spec);
  const checked = (json: string): Answer | string => {
    const answer = reader.read({ text: json, finish_reason: 'stop' });
    return answer.problem === null ? { ...answer, abstained: false } : answer.problem.message;
  };
  return (cell) => {
    const cells = properties.map((column, i) => [reader.columns[i] ?? column, cell(column)] as const);
    const isWhole = cells.every(([, text]) => text === null);
    if (isWhole) return cell('answer') ? checked(cell('answer') ?? '') : null;
    const members = cells.flatMap(([name, text]): [string, Json][] =>
      text ? [[name, read(name, text)]] : [],
    );
    return members.length === 0 ? null : checked(JSON.stringify(Object.fromEntries(members)));
  };
}

/** Reads a property's cell as JSON if the schema accepts that, else as text. */
function propertyReader({ schema, ...spec }: JsonSpec): (name: string, text: string) => Json {
  const { properties } = schema;
  const isText = (name: string): boolean => {
    const property = isObject(properties) ? properties[name] : undefined;
    return isObject(property) && property['type'] === 'string';
  };
  // Checks one property without the others.
  const alone = answerReader({ ...spec, schema: { ...schema, required: [] } });
  const fits = (name: string, value: Json): boolean =>
    alone.read({ text: JSON.stringify(Object.fromEntries([[name, value]])), finish_reason: 'stop' })
      .problem === null;
  return (name, text) => {
    if (isText(name)) return text;
    const value = parsed(text);
    return value === text || fits(name, value) || !fits(name, text) ? value : text;
  };
}

/** Accepts `TRUE` and `FALSE` of spreadsheets; text that is no JSON stays text. */
const parsed = (text: string): Json =>
  exactOr(/^(?:true|false)$/i.test(text) ? text.toLowerCase() : text, text);
