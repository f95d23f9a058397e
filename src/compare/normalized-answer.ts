import { NONE, SEPARATOR } from '../answer/label-answer.js';
import { canonical, exactOr, isObject, valueText } from '../core/json.js';
import { type Json, type Outcome, STATUSES } from '../core/model.js';
import type { OutputRecord } from '../output/reader.js';
import { RESULTS, STATUS } from '../output/result-columns.js';

/** A record's answer, independent of the output format. */
export interface NormalizedAnswer {
  readonly status: Outcome['status'];
  /** Equal for equal answers. */
  readonly answer: string;
  /** For people: a label, a number, a text, JSON, or a word in brackets if there is none. */
  readonly shown: string;
  /** For a matrix: as `shown`, but `valid` for JSON. */
  readonly label: string;
  /** Properties of JSON as text, or the labels that apply, if a row may have several. Without empty texts. */
  readonly parts: ReadonlyMap<string, string> | null;
}

export interface AnswerLayout {
  /** Of a CSV; `null` for JSONL. */
  readonly columns: readonly string[] | null;
  readonly several: boolean;
}

const NO_ANSWER = '(no answer)';
const INVALID = '(invalid)';
const ABSTAINED = '(abstained)';
const VALID = 'valid';

/** Labels of this form are quoted, to be distinct from these words. */
const WORDS: ReadonlySet<string> = new Set([
  ...[NO_ANSWER, INVALID, ABSTAINED, '(other)', '(none)'],
  ...STATUSES.map((status) => `(${status})`),
]);

const RESULT_NAMES: ReadonlySet<string> = new Set([STATUS, ...RESULTS].map(({ name }) => name));

/** Every record has such a result, so a CSV has no input column of this name. */
export const isResultName = (name: string): boolean => RESULT_NAMES.has(name);

/**
 * The answer's columns in a CSV header: those of the schema's properties, else those between `status` and
 * `text`, where a run writes them, else `answer`.
 * @param properties of the schema, if known
 * @returns null if it cannot be decided
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

/** The function returns `null` for an unknown status, or if the record lacks what the others have. */
export function answerNormalizer({
  columns,
  several,
}: AnswerLayout): (record: OutputRecord) => NormalizedAnswer | null {
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
    const said =
      isOne && several ? severalTexts(value) : isObject(value) ? objectTexts(value) : oneText(value);
    if (said.answer !== '' || said.parts !== null) return { status, ...said, answer: `=${said.answer}` };
    return word(status, record.isAbstained ? ABSTAINED : NO_ANSWER);
  };
}

/** Undoes the renaming of properties that have the name of a result. */
const propertyOf = (name: string): string => {
  const own = name.replace(/^(?:answer_)+/, '');
  return name !== own && isResultName(own) ? own : name;
};

const word = (status: NormalizedAnswer['status'], label: string): NormalizedAnswer => ({
  ...{ status, answer: label, label },
  shown: label,
  parts: null,
});

type AnswerTexts = Omit<NormalizedAnswer, 'status'>;

function oneText(value: Json): AnswerTexts {
  const answer = textOf(value);
  const label = labelOf(answer);
  return { answer, label, shown: label, parts: null };
}

const labelOf = (answer: string): string => (WORDS.has(answer) ? JSON.stringify(answer) : answer);

function objectTexts(value: { readonly [name: string]: Json }): AnswerTexts {
  const parts = new Map(
    Object.entries(value)
      .map(([name, part]): [string, string] => [name, textOf(part)])
      .filter(([, text]) => text !== ''),
  );
  const sorted = [...parts].sort(([a], [b]) => (a < b ? -1 : 1));
  const shown = JSON.stringify(Object.fromEntries(sorted));
  return { answer: JSON.stringify(sorted), label: VALID, shown, parts };
}

/** Sorted: two jobs may order their labels differently. */
function severalTexts(value: Json): AnswerTexts {
  const text = valueText(value);
  if (text === '') return oneText(value);
  const labels = Array.isArray(value) ? value.map(valueText) : text === NONE ? [] : text.split(SEPARATOR);
  const answer = labels.sort().join(SEPARATOR) || NONE;
  return { ...oneText(answer), parts: new Map(labels.map((label) => [label, 'yes'])) };
}

/** A value as in a CSV cell, except that members of objects are sorted. */
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
