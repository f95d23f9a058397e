import type { AnswerReader } from '../answer/answer.js';
import { labelsCell } from '../answer/label-answer.js';
import { UsageError } from '../core/errors.js';
import type { Answer, Json, Outcome, Row } from '../core/model.js';
import { unknownNames } from '../core/nearest.js';
import {
  ABSTAINED,
  ANSWER_SOURCE,
  CONFIDENCE,
  type Column,
  GROUPS,
  LOGPROBS,
  ORIGINS,
  type OriginColumn,
  PARTS,
  type Part,
  probabilityColumns,
  resultsOf,
  ROW,
  STATUS,
} from './result-columns.js';

/** Turns a row and its outcome into the text of its record. Pure: the same row gives the same bytes. */
export interface RecordFormat {
  /** With its line end; empty for JSONL. */
  readonly header: string;
  /** Names in the header that a person needs to decide on the right answer. */
  readonly reviewed: readonly string[];
  /** In order. */
  readonly names: readonly string[];
  readonly parts: ReadonlySet<Part>;
  /** Input columns of the record → their names in a CSV. */
  readonly inputs: ReadonlyMap<string, string>;
  /** With its line end. @param answer `null` if there was no completion to read */
  format(row: Row, outcome: Outcome, answer: Answer | null): string;
  /** The texts of some parts of a completed row, by value name. @param parts such as need only the answer */
  values(parts: ReadonlySet<Part>, answer: Answer): ReadonlyMap<string, string>;
}

export interface OutputFormat {
  /** Identifies the format of a run: never rename. An input format of this name makes it the default. */
  readonly name: string;
  /** The first is the ending of an output that the job does not name. */
  readonly endings: readonly [string, ...string[]];
  /** Whether a line break inside double quotes is part of a record. */
  readonly hasQuotes: boolean;
  /** @param formulas `protect`: cells that a spreadsheet would run are made inert */
  records(layout: RecordLayout, formulas: 'protect' | 'raw'): RecordFormat;
  /** Whether the first record names the values of the others. */
  readonly hasHeader: boolean;
  /**
   * @param header the first record, if the format has a header. The result throws SyntaxError for a bad
   *   record.
   */
  values(header: Buffer): (record: Buffer) => RecordValues;
  value(written: string): Json;
  /** Of a format whose records without an answer are written once more, to a file of errors. */
  readonly isError?: (record: Buffer) => boolean;
}

/** How the service writes an answer. */
export interface AnswerForm {
  readonly object: string;
  choice(text: string | null, refusal: string | null): { readonly [field: string]: unknown };
}

export interface RecordValues {
  /** Null if the record has no such value. */
  placeOf(name: string): ByteRange | null;
  names(): readonly string[];
  /** What is wrong with the record as a whole, in words. @default null */
  readonly flaw?: string | null;
}

export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Input column → its name in a record. */
export const inputNames = (columns: readonly Column[]): ReadonlyMap<string, string> =>
  new Map(columns.flatMap(({ field, name }) => (field === undefined ? [] : [[field, name]])));

export interface RecordLayout {
  /** Of a CSV record. */
  readonly columns: readonly Column[];
  /** Of a JSONL record. */
  readonly parts: ReadonlySet<Part>;
  /** Members of a JSONL record's `input`; `null` keeps all of them as in the input. */
  readonly fields: readonly string[] | null;
  /** No selection is made: rows that ask for more than their job (log probabilities) get it. */
  readonly isWhole: boolean;
  readonly answer: AnswerReader;
  /** Of the endpoint of this name; `undefined` where the job has one. Only for the format that needs it. */
  readonly formOf?: ((endpoint: string | undefined) => AnswerForm) | undefined;
}

/**
 * An input column with the name of a result column becomes `input_<name>`, a property of the answer with such
 * a name `answer_<name>`; result names never change.
 *
 * @param select `output.columns`: final names of columns, in the wanted order. Names of parts (`input`,
 *   `answer`, `filters`, `error`, …) and of {@link GROUPS} stand for all their columns. `-name` removes a
 *   column or a group from what precedes it; a list that begins with one starts from all columns. JSONL keeps
 *   its own shape and order, reduced to the parts that hold a named column, and `input` to the named members.
 * @throws UsageError for an unknown name in `select`
 */
export function recordLayout(options: {
  /** `null` if unknown: then those that `select` names. */
  readonly inputColumns: readonly string[] | null;
  readonly answer: AnswerReader;
  readonly select?: readonly string[] | undefined;
  /** Columns behind those of every record. @default none */
  readonly origins?: readonly OriginColumn[] | undefined;
  /** Whether it has what only some operations tell. @default false */
  readonly tellsMore?: boolean | undefined;
  /** Whether it has the name of the endpoint. @default false */
  readonly hasEndpoints?: boolean | undefined;
  /** Whether it has the tier that served it. @default false */
  readonly hasTiers?: boolean | undefined;
  /** Whether the record has `answer_source`. @default false */
  readonly answerSource?: boolean | undefined;
  /** @default false */
  readonly logprobs?: boolean | undefined;
  /** @default false */
  readonly probabilities?: boolean | undefined;
  readonly formOf?: RecordLayout['formOf'];
}): RecordLayout {
  const { answer, select, formOf, answerSource = false, logprobs = false, probabilities = false } = options;
  const told = resultsOf(options);
  const origins = (options.origins ?? []).map((name) => ORIGINS[name]);
  const { confidenceOf, abstains = false } = answer;
  const sureness = [
    ...(confidenceOf === undefined ? [] : [CONFIDENCE]),
    ...(confidenceOf !== undefined && probabilities ? probabilityColumns(confidenceOf) : []),
    ...(abstains ? [ABSTAINED] : []),
  ];
  const behind = [...origins, ...(answerSource ? [ANSWER_SOURCE] : []), ...sureness];
  const results = new Set([STATUS, ...told, ...behind].map((column) => column.name));
  const answers = answerColumns(answer, results);
  const taken = new Set([...results, ...answers.map((column) => column.name)]);
  const inputs = options.inputColumns ?? othersIn(select ?? [], taken);
  const all = [...inputColumns(inputs, taken), STATUS, ...answers, ...told, ...behind];
  const isThere = (part: Part): boolean => {
    if (part === LOGPROBS.part) return logprobs;
    return !OPTIONAL.has(part) || [...told, ...behind].some((column) => column.part === part);
  };
  const there = PARTS.filter(isThere);
  if (select === undefined)
    return { columns: all, parts: new Set(there), fields: null, isWhole: true, answer, formOf };

  const { columns, unnamed } = selected(select, all, there, options.inputColumns !== null);
  const fields = columns.flatMap((column) => column.field ?? []);
  return {
    columns,
    parts: new Set([...columns, ...unnamed].map((column) => column.part)),
    fields: fields.length === inputs.length ? null : fields,
    isWhole: false,
    answer,
    formOf,
  };
}

/** Prefix in `output.columns` that removes a column or a group. */
const WITHOUT = '-';

const NAMED: ReadonlyMap<string, readonly Part[]> = new Map([
  ...PARTS.map((part) => [part, [part]] as const),
  ...GROUPS,
]);

/** Names in a selection that can only be input columns. */
const othersIn = (select: readonly string[], taken: ReadonlySet<string>): readonly string[] =>
  select.filter((name) => !name.startsWith(WITHOUT) && !taken.has(name) && !NAMED.has(name));

/**
 * @param all the columns of CSV without a selection
 * @param parts the parts of JSONL without a selection
 * @param isKnown false if the input's columns are unknown: then unknown names are ignored
 * @returns `unnamed`: columns that only JSONL has, in a selection that starts from all
 */
function selected(
  select: readonly string[],
  all: readonly Column[],
  parts: readonly Part[],
  isKnown: boolean,
) {
  const hidden = [ROW, LOGPROBS].filter(({ part }) => parts.includes(part));
  const names = [...NAMED].filter(([name]) => GROUPS.has(name) || parts.some((part) => part === name));
  const byName = new Map(
    names.map(([name, of]) => [name, [...hidden, ...all].filter(({ part }) => of.includes(part))]),
  );
  // A column wins over the group of its name.
  for (const column of all) byName.set(column.name, [column]);
  const isWithout = (name: string): boolean => !byName.has(name) && name.startsWith(WITHOUT);
  const isWhole = isWithout(select[0] ?? '');
  const columns = new Set(isWhole ? all : []);
  const unnamed = new Set(isWhole ? hidden : []);
  const unknown: string[] = [];
  for (const name of select) {
    const without = isWithout(name);
    const plain = without ? name.slice(WITHOUT.length) : name;
    const found = byName.get(plain);
    if (found === undefined) unknown.push(plain);
    for (const column of found ?? []) {
      unnamed.delete(column);
      if (without) columns.delete(column);
      else columns.add(column);
    }
  }
  if (isKnown && unknown.length > 0) {
    const use = { code: 'output_column_unknown', user: 'output.columns names', owner: 'the record has' };
    throw unknownNames(use, unknown, [
      ...new Set([...all.map(({ name }) => name), ...names.map(([name]) => name)]),
    ]);
  }
  if (isKnown && columns.size === 0 && select.some(isWithout)) {
    throw new UsageError(
      'output_column_missing',
      `output.columns leaves nothing of the record: ${select.join(', ')}`,
      'Name a column that stays.',
    );
  }
  return { columns: [...columns], unnamed: [...unnamed] };
}

/** @param name in the record */
export function hasInput(select: readonly string[], name: string): boolean {
  const kept = [name, 'input'];
  const last = select.findLast((each) => [...kept, ...kept.map((one) => WITHOUT + one)].includes(each));
  return last === undefined ? select[0]?.startsWith(WITHOUT) === true : kept.includes(last);
}

const OPTIONAL: ReadonlySet<Part> = new Set([
  ...Object.values(ORIGINS).map(({ part }) => part),
  ANSWER_SOURCE.part,
  CONFIDENCE.part,
  'answer_probabilities',
  ABSTAINED.part,
  'refusal',
  'endpoint',
  'tier',
]);

function inputColumns(names: readonly string[], taken: ReadonlySet<string>): Column[] {
  const used = new Set([...taken, ...names]);
  return names.map((field) => {
    let name = field;
    if (taken.has(field)) {
      do name = `input_${name}`;
      while (used.has(name));
      used.add(name);
    }
    return { name, part: 'input', field, value: ({ row }) => row.fields.get(field) ?? null };
  });
}

function answerColumns({ columns, shape }: AnswerReader, results: ReadonlySet<string>): Column[] {
  const used = new Set([...results, ...columns]);
  const cellOf = shape === 'labels' ? labelsCell : (value: Json): Json => value;
  return columns.map((property, i) => {
    let name = property;
    if (shape === 'object' && results.has(property)) {
      do name = `answer_${name}`;
      while (used.has(name));
      used.add(name);
    }
    return { name, part: 'answer', value: ({ answer }) => cellOf(answer?.values[i] ?? null) };
  });
}
