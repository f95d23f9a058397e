import type { AnswerReader } from '../answer/answer.js';
import { labelsCell } from '../answer/several-labels.js';
import { UsageError } from '../errors.js';
import type { Answer, Json, Outcome, Row } from '../model.js';
import { unknownNames } from '../nearest.js';
import type { OriginColumn } from './result-columns.js';
import {
  ABSTAINED,
  ANSWER_SOURCE,
  CONFIDENCE,
  type Column,
  GROUPS,
  LOGPROBS,
  ORIGINS,
  PARTS,
  type Part,
  probabilityColumns,
  RESULTS,
  ROW,
  STATUS,
} from './result-columns.js';

/** Turns a row and its outcome into the text of its record. Pure: the same row gives the same bytes. */
export interface RecordFormat {
  /** The first line of the output with its line end; empty for JSONL. */
  readonly header: string;
  /** The names in it of what a person needs to tell what the right answer is. */
  readonly reviewed: readonly string[];
  /** Names of its values, in their order: cells of CSV, parts of JSONL. */
  readonly names: readonly string[];
  /** What a record has. */
  readonly parts: ReadonlySet<Part>;
  /** The columns of the input that a record has, and what they are called in a CSV. */
  readonly inputs: ReadonlyMap<string, string>;
  /**
   * One record, with its line end.
   * @param answer what was read from the completion, `null` where there was nothing to read from
   */
  format(row: Row, outcome: Outcome, answer: Answer | null): string;
  /**
   * Of a completed row, the text of some parts in its record, by the names of its values there.
   * @param parts such as need nothing but the answer
   */
  values(parts: ReadonlySet<Part>, answer: Answer): ReadonlyMap<string, string>;
}

/** A format of the output. All of them are in the list of format.ts. */
export interface OutputFormat {
  /** Runs are known again by it, so it stays. An output that the job does not name has the format of this name of its input. */
  readonly name: string;
  /** Endings of its files; the first is that of an output which the job does not name. */
  readonly endings: readonly [string, ...string[]];
  /** Whether a line break inside double quotes is part of a record. Any other ends one. */
  readonly hasQuotes: boolean;
  /** @param formulas `protect`: cells that a spreadsheet would run are made inert */
  records(layout: RecordLayout, formulas: 'protect' | 'raw'): RecordFormat;
  /** Whether the first record names the values of the others. */
  readonly hasHeader: boolean;
  /**
   * Finds the values of a record with its line end.
   * @param header the first record, where the format has one
   * @returns what it gives throws SyntaxError for a record that is none
   */
  values(header: Buffer): (record: Buffer) => RecordValues;
  /** A value from its text in a record. */
  value(written: string): Json;
}

/** The values of a record, by their names there. */
export interface RecordValues {
  /** Null where the record has no such value. */
  placeOf(name: string): Place | null;
  /** In their order. */
  names(): readonly string[];
  /** What is wrong with the record as a whole, in words. @default nothing */
  readonly flaw?: string | null;
}

/** Bytes of a record, from `start` up to `end`. */
export interface Place {
  readonly start: number;
  readonly end: number;
}

/** Column of the input → its name among the columns of a record. */
export const inputNames = (columns: readonly Column[]): ReadonlyMap<string, string> =>
  new Map(columns.flatMap(({ field, name }) => (field === undefined ? [] : [[field, name]])));

/** What a record has, and in which order. */
export interface RecordLayout {
  /** The columns of a CSV record. */
  readonly columns: readonly Column[];
  /** The parts of a JSONL record. */
  readonly parts: ReadonlySet<Part>;
  /** The members of a JSONL record's `input`; `null` is all of them, as they are in the input. */
  readonly fields: readonly string[] | null;
  /** True when the record is no selection: rows that ask for more than their job get it. */
  readonly isWhole: boolean;
  readonly answer: AnswerReader;
}

/**
 * The layout of the output. An input column with the name of a result column becomes `input_<name>`; a property of
 * the answer with such a name becomes `answer_<name>`; result names never change.
 *
 * @param select `output.columns`: columns of the record by their final names, in the wanted order. The names of parts (`input`,
 *   `answer`, `filters`, `error`, …) and of {@link GROUPS} stand for all their columns, and `-name` takes a column or a group out of
 *   what stands before it; a list that begins so begins with all. JSONL keeps its own shape and order, reduced to the parts that
 *   hold a named column, and `input` to the named members.
 * @throws UsageError for an unknown name in `select`
 */
export function recordLayout(options: {
  /** `null` where they are not known: those that `select` names. */
  readonly inputColumns: readonly string[] | null;
  readonly answer: AnswerReader;
  readonly select?: readonly string[] | undefined;
  /** Columns behind those that every record has. @default none */
  readonly origins?: readonly OriginColumn[] | undefined;
  /** Whether the record says where its answer comes from. @default false */
  readonly answerSource?: boolean | undefined;
  /** Whether the job asks for log probabilities. @default false */
  readonly logprobs?: boolean | undefined;
  /** Whether the record has the probability of each label. @default false */
  readonly probabilities?: boolean | undefined;
}): RecordLayout {
  const { answer, select, answerSource = false, logprobs = false, probabilities = false } = options;
  const origins = (options.origins ?? []).map((name) => ORIGINS[name]);
  const { confidenceOf, abstains = false } = answer;
  const sureness = [
    ...(confidenceOf === undefined ? [] : [CONFIDENCE]),
    ...(confidenceOf !== undefined && probabilities ? probabilityColumns(confidenceOf) : []),
    ...(abstains ? [ABSTAINED] : []),
  ];
  const behind = [...origins, ...(answerSource ? [ANSWER_SOURCE] : []), ...sureness];
  const results = new Set([STATUS, ...RESULTS, ...behind].map((column) => column.name));
  const answers = answerColumns(answer, results);
  const taken = new Set([...results, ...answers.map((column) => column.name)]);
  const inputs = options.inputColumns ?? othersIn(select ?? [], taken);
  const all = [...inputColumns(inputs, taken), STATUS, ...answers, ...RESULTS, ...behind];
  const isThere = (part: Part): boolean => {
    if (part === LOGPROBS.part) return logprobs;
    return !OPTIONAL.has(part) || behind.some((column) => column.part === part);
  };
  const there = PARTS.filter(isThere);
  if (select === undefined)
    return { columns: all, parts: new Set(there), fields: null, isWhole: true, answer };

  const { columns, unnamed } = selected(select, all, there, options.inputColumns !== null);
  const fields = columns.flatMap((column) => column.field ?? []);
  return {
    columns,
    parts: new Set([...columns, ...unnamed].map((column) => column.part)),
    fields: fields.length === inputs.length ? null : fields,
    isWhole: false,
    answer,
  };
}

/** What of `output.columns` says that a column, or a group, is left out. */
const WITHOUT = '-';

/** Names of parts and of groups, with the parts that they stand for. */
const NAMED: ReadonlyMap<string, readonly Part[]> = new Map([
  ...PARTS.map((part) => [part, [part]] as const),
  ...GROUPS,
]);

/** Names in a selection that can only be those of columns of the input. */
const othersIn = (select: readonly string[], taken: ReadonlySet<string>): readonly string[] =>
  select.filter((name) => !name.startsWith(WITHOUT) && !taken.has(name) && !NAMED.has(name));

/**
 * What a selection has.
 * @param all the columns that CSV has without one
 * @param parts those that JSONL has without one
 * @param isKnown false where the columns of the input are not known: then any may be left out
 * @returns `unnamed`: columns of JSONL alone, in a selection that begins with all
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
  // A column goes before the group of its name.
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

/**
 * Whether a selection has a column of the input.
 * @param name in the record
 */
export function hasInput(select: readonly string[], name: string): boolean {
  const kept = [name, 'input'];
  const last = select.findLast((each) => [...kept, ...kept.map((one) => WITHOUT + one)].includes(each));
  return last === undefined ? select[0]?.startsWith(WITHOUT) === true : kept.includes(last);
}

/** Parts that only some jobs have. */
const OPTIONAL: ReadonlySet<Part> = new Set([
  ...Object.values(ORIGINS).map(({ part }) => part),
  ANSWER_SOURCE.part,
  CONFIDENCE.part,
  'answer_probabilities',
  ABSTAINED.part,
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
