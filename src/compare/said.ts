import { NONE, SEPARATOR } from '../answer/several-labels.js';
import { canonical, exactOr, isObject, valueText } from '../json.js';
import { type Json, type Outcome, STATUSES } from '../model.js';
import type { OutputRecord } from '../output/reader.js';
import { RESULTS, STATUS } from '../output/result-columns.js';

/** What a record says in answer to its row, in a form that does not depend on the format of its output. */
export interface Said {
  readonly status: Outcome['status'];
  /** Equal for equal answers. */
  readonly answer: string;
  /** The answer to a person: a label, a number, a text, JSON, or a word in brackets where there is none. */
  readonly shown: string;
  /** What the answer counts as in a matrix: a label, a number or a text, or a word in brackets where there is none. */
  readonly label: string;
  /** Of JSON its properties, each as text; of several labels those that apply. Empty texts are left out. */
  readonly parts: ReadonlyMap<string, string> | null;
}

/** How the answers of an output are written. */
export interface AnswerLayout {
  /** The columns of the answer in a CSV; `null` for JSONL. */
  readonly columns: readonly string[] | null;
  /** A row may have several labels. */
  readonly several: boolean;
}

const NO_ANSWER = '(no answer)';
const INVALID = '(invalid)';
const ABSTAINED = '(abstained)';
/** The answer of a row is JSON with properties. */
const VALID = 'valid';

/** A label of this form would be taken for one of the words. */
const WORDS: ReadonlySet<string> = new Set([
  ...[NO_ANSWER, INVALID, ABSTAINED, '(other)', '(none)'],
  ...STATUSES.map((status) => `(${status})`),
]);

const RESULT_NAMES: ReadonlySet<string> = new Set([STATUS, ...RESULTS].map(({ name }) => name));

/** Whether every record has a result of this name, so that no column of the input is called so in a CSV. */
export const isResultName = (name: string): boolean => RESULT_NAMES.has(name);

/**
 * Finds the columns of the answer in the header of a CSV: those of the schema's properties, else those between `status` and `text`,
 * where a run writes them, else the one called `answer`.
 * @param properties of the schema, where it is known
 * @returns null where they cannot be told
 */
export function answerColumns(
  header: readonly string[],
  properties: Readonly<Record<string, unknown>> = {},
): readonly string[] | null {
  const named = header.filter((name) => !isResultName(name) && Object.hasOwn(properties, propertyOf(name)));
  if (named.length > 0) return named;
  const [first, last] = [header.indexOf('status'), header.indexOf('text')];
  if (first >= 0 && last > first + 1) return header.slice(first + 1, last);
  return header.includes('answer') ? ['answer'] : null;
}

/** @returns of a record; `null` where its status is none, or it lacks what the others have */
export function saidReader({ columns, several }: AnswerLayout): (record: OutputRecord) => Said | null {
  const isOne = columns === null || (columns.length === 1 && columns[0] === 'answer');
  const properties = (columns ?? []).map((name) => [name, propertyOf(name)] as const);

  return (record) => {
    const { status } = record;
    if (status === null) return null;
    if (status !== 'completed') return word(status, `(${status})`);
    const value = isOne
      ? record.value('answer')
      : objectOf(properties.map(([name, property]) => [property, record.value(name)]));
    if (value === undefined) return null;
    if (record.isInvalid) return word(status, INVALID);
    const said = isOne && several ? severalSaid(value) : isObject(value) ? objectSaid(value) : oneSaid(value);
    if (said.answer !== '' || said.parts !== null) return { status, ...said, answer: `=${said.answer}` };
    return word(status, record.isAbstained ? ABSTAINED : NO_ANSWER);
  };
}

/** A property whose name is a result's has another one in the header of a CSV. */
const propertyOf = (name: string): string => {
  const own = name.replace(/^(?:answer_)+/, '');
  return name !== own && isResultName(own) ? own : name;
};

const word = (status: Said['status'], label: string): Said => ({
  ...{ status, answer: label, label },
  shown: label,
  parts: null,
});

type Read = Omit<Said, 'status'>;

function oneSaid(value: Json): Read {
  const answer = textOf(value);
  const label = labelOf(answer);
  return { answer, label, shown: label, parts: null };
}

const labelOf = (answer: string): string => (WORDS.has(answer) ? JSON.stringify(answer) : answer);

function objectSaid(value: { readonly [name: string]: Json }): Read {
  const parts = new Map(
    Object.entries(value)
      .map(([name, part]): [string, string] => [name, textOf(part)])
      .filter(([, text]) => text !== ''),
  );
  const sorted = [...parts].sort(([a], [b]) => (a < b ? -1 : 1));
  const shown = JSON.stringify(Object.fromEntries(sorted));
  return { answer: JSON.stringify(sorted), label: VALID, shown, parts };
}

/** In any order: that of the labels may differ between two jobs. */
function severalSaid(value: Json): Read {
  const text = valueText(value);
  if (text === '') return oneSaid(value);
  const labels = Array.isArray(value) ? value.map(valueText) : text === NONE ? [] : text.split(SEPARATOR);
  const answer = labels.sort().join(SEPARATOR) || NONE;
  return { ...oneSaid(answer), parts: new Map(labels.map((label) => [label, 'yes'])) };
}

/** A value as a cell of CSV has it, but for the order of members in objects. */
function textOf(value: Json): string {
  const text = valueText(value);
  if (!text.startsWith('{') && !text.startsWith('[')) return text;
  const read = exactOr(text, null);
  return read === null ? text : canonical(read);
}

function objectOf(members: readonly (readonly [string, Json | undefined])[]): Json | undefined {
  if (members.some(([, value]) => value === undefined)) return undefined;
  return Object.fromEntries(members.map(([name, value]) => [name, value ?? null]));
}
