import type { AnswerSpec } from '../core/answer-spec.js';
import { UsageError } from '../core/errors.js';
import { canonical, exactOr, isObject, valueText } from '../core/json.js';
import type { Answer, Json, Row } from '../core/model.js';
import { nearest } from '../core/nearest.js';
import { type AnswerReader, answerReader } from './answer.js';
import { answersIn, type GoldMap } from './gold-map.js';
import { labelsCell, NONE, namesOf, SEPARATOR } from './label-answer.js';
import { LabelIndex } from './label-index.js';
import { numberReader, rangeText } from './number-answer.js';
import { excerpt, listed } from './text.js';

export type Gold =
  /** A label, or a number as text. */
  | { readonly kind: 'label'; readonly label: string }
  /** Empty when none applies. */
  | { readonly kind: 'labels'; readonly labels: readonly string[] }
  /** May have only some of the answer's properties. */
  | { readonly kind: 'json'; readonly values: readonly GoldValue[] };

export interface GoldValue {
  readonly name: string;
  /** Index in {@link Answer.values}. */
  readonly place: number;
  readonly right: Json;
  /** The property has few values, which are scored like labels. */
  readonly isNamed: boolean;
}

export const isRight = ({ place, right }: GoldValue, { values, problem }: Answer): boolean =>
  problem === null && canonical(values[place] ?? null) === canonical(right);

/** As a cell of a table has it. */
export function goldText(gold: Gold): string {
  switch (gold.kind) {
    case 'label':
      return gold.label;
    case 'labels':
      return valueText(labelsCell([...gold.labels]));
    case 'json':
      return JSON.stringify(Object.fromEntries(gold.values.map(({ name, right }) => [name, right])));
  }
}

/** Judges the whole answer, or the label that was left out for low confidence. */
export function saysRight(gold: Gold, answer: Answer): boolean {
  const { values, problem, label = values[0] ?? null } = answer;
  if (problem !== null) return false;
  switch (gold.kind) {
    case 'label':
      return label !== null && String(label) === gold.label;
    case 'labels':
      return Array.isArray(label) && hasSame(label, gold.labels);
    case 'json':
      return gold.values.every((value) => isRight(value, answer));
  }
}

const hasSame = (list: readonly Json[], other: readonly Json[]): boolean =>
  list.length === other.length && other.every((member) => list.includes(member));

/** `answer.gold.columns`: the column with the right answers of one property. */
export interface GoldPart {
  readonly property: string;
  readonly column: string;
  /** Null: the column holds values of the property. */
  readonly map: GoldMap | null;
}

interface GoldJob {
  /** `answer.gold`: the columns with the right answers; null for none. */
  readonly gold: string | null;
  readonly goldMap: GoldMap | null;
  /** Null: one column has the whole answer. */
  readonly goldParts: readonly GoldPart[] | null;
  readonly answer: AnswerSpec;
}

/** Where the right answers of a job are. */
export interface GoldColumns {
  /** As people are told. */
  readonly name: string;
  readonly columns: readonly string[];
  /** Of the cells in these columns, as {@link goldCell}. */
  readonly read: (cellOf: (column: string) => Json) => Gold | string | null;
}

/** Null for a job without. */
export function goldColumns({ gold: name, goldMap, goldParts, answer }: GoldJob): GoldColumns | null {
  if (name === null) return null;
  if (goldParts === null) {
    const read = goldCell(answer, goldMap);
    return { name, columns: [name], read: (cellOf) => read(cellOf(name)) };
  }
  const whole = cellReader(answer);
  const parts = goldParts.map((part) => {
    const read = propertyReader(answer, part.property) ?? (() => undefined);
    return { ...part, read, mapped: part.map && answersIn(part.map, read) };
  });
  return {
    name,
    columns: parts.map(({ column }) => column),
    read(cellOf) {
      const found: [property: string, right: Json][] = [];
      for (const { property, column, read, mapped } of parts) {
        const text = valueText(cellOf(column)).trim();
        if (text === '') continue;
        const right = (mapped ?? read)(text);
        if (right !== undefined) found.push([property, right]);
        else if (mapped === null)
          return `has ${excerpt(text)} in ${JSON.stringify(column)}, which is no ${property}`;
      }
      return found.length === 0 ? null : whole(Object.fromEntries(found));
    },
  };
}

/**
 * Of a property of `answer.json`, else null.
 * @returns reads a value from a text; undefined for one that it cannot be
 */
export function propertyReader(
  answer: AnswerSpec,
  property: string,
): ((text: string) => Json | undefined) | null {
  const { properties } = answer.kind === 'json' ? answer.schema : {};
  if (!isObject(properties) || !Object.hasOwn(properties, property)) return null;
  const schema = properties[property];
  const { enum: values, type = null } = isObject(schema) ? schema : {};
  const types: readonly Json[] = [type].flat();
  if (Array.isArray(values)) {
    const names = new Map(values.map((value: Json) => [valueText(value).toLowerCase(), value]));
    return (text) => names.get(text.toLowerCase());
  }
  if (types.includes('string')) return (text) => text;
  return (text) => {
    const value = exactOr(text.toLowerCase(), undefined);
    if (types.includes('number') || types.includes('integer'))
      return typeof value === 'number' ? value : undefined;
    if (types.includes('boolean')) return typeof value === 'boolean' ? value : undefined;
    return exactOr(text, text);
  };
}

/**
 * Reads the right answers of rows. A cell holds nothing but a label, by any of its names, in any case, with
 * any white space, `_` or `-` between words. Several labels are written as in the output, `a;b` or `none`, or
 * as a list. Numbers are read like answers. Gold for JSON is JSON, in a cell or in the row itself, or a column
 * for each property. With a map a cell holds one of its values.
 * @param input its name in messages
 * @returns reads a row, null for an empty cell; null for a job without gold. It throws UsageError
 *   `gold_invalid` for a cell that cannot be an answer
 */
export function goldReader(job: GoldJob, input: string): ((row: Row) => Gold | null) | null {
  const from = goldColumns(job);
  if (from === null) return null;
  return ({ fields, problem, line }) => {
    const gold = problem === undefined ? from.read((column) => fields.get(column) ?? null) : null;
    if (typeof gold !== 'string') return gold;
    throw new UsageError(
      'gold_invalid',
      `${input}, line ${line}: column ${JSON.stringify(from.name)} (answer.gold) ${gold}`,
      'Correct the cell, or empty it where the right answer is not known.',
    );
  };
}

/**
 * @param map what the cells stand for. @default they are answers
 * @returns null for an empty cell, and for one that has no place in the map; what is wrong with an invalid one:
 *   `has the text "x", which is no label`
 */
export function goldCell(
  answer: AnswerSpec,
  map: GoldMap | null = null,
): (cell: Json) => Gold | string | null {
  const read = cellReader(answer);
  const mapped = map && answersIn(map, read);
  return (cell) => {
    const text = valueText(cell);
    if (text.trim() === '') return null;
    if (mapped !== null) return mapped(text) ?? null;
    const gold = read(cell);
    return typeof gold === 'string' ? `has ${excerpt(text)}, which ${gold}` : gold;
  };
}

type LabelSpec = Extract<AnswerSpec, { kind: 'labels' }>;

type CellReader = (cell: Json) => Gold | string;

/** @returns reads an answer as people write it, or says what the text is not: `is no label` */
export function cellReader(answer: AnswerSpec): CellReader {
  switch (answer.kind) {
    case 'labels':
      return labelGold(answer);
    case 'number':
      return numberGold(answer);
    default:
      return jsonGold(answerReader(answer));
  }
}

function numberGold(range: Extract<AnswerSpec, { kind: 'number' }>): CellReader {
  const read = numberReader(range);
  return (cell) => {
    const [value] = read(valueText(cell)).values;
    return typeof value === 'number' ? { kind: 'label', label: String(value) } : `is not ${rangeText(range)}`;
  };
}

function labelGold({ labels, synonyms, multiple }: LabelSpec): CellReader {
  const names = namesOf({ labels, synonyms });
  const index = new LabelIndex(names);
  const unknown = (text: string): string => {
    const meant = nearest(text, names.flat());
    return meant === null
      ? `is none of the labels ${listed(labels)}`
      : `is no label; did you mean ${JSON.stringify(meant)}?`;
  };
  if (!multiple) {
    return (cell) => {
      const text = valueText(cell).trim();
      const label = labels[index.labelOf(text) ?? -1];
      return label === undefined ? unknown(text) : { kind: 'label', label };
    };
  }
  return (cell) => {
    const texts = listOf(cell);
    if (texts.length === 1 && isNone(texts[0]) && !index.has(NONE)) return { kind: 'labels', labels: [] };
    const places = texts.map((text) => index.labelOf(text));
    const wrong = places.indexOf(undefined);
    if (wrong >= 0) return `names ${JSON.stringify(texts[wrong])}, which ${unknown(texts[wrong] ?? '')}`;
    return { kind: 'labels', labels: labels.filter((_, place) => places.includes(place)) };
  };
}

/** `[NONE]` for an empty list. */
function listOf(cell: Json): readonly string[] {
  // A label may look like a number.
  const json = typeof cell === 'string' ? exactOr(cell, undefined) : cell;
  const list = typeof cell === 'string' && !Array.isArray(json) ? cell.split(SEPARATOR) : (json ?? cell);
  const texts = (Array.isArray(list) ? list : [list]).map((text: Json) => valueText(text).trim());
  return texts.length === 0 ? [NONE] : texts;
}

const isNone = (text: string | undefined): boolean => text?.toLowerCase() === NONE;

function jsonGold({ columns, shape, named = () => [] }: AnswerReader): CellReader {
  const few = new Set(named([]).map(([name]) => name));
  const goldValue = (name: string, right: Json): GoldValue => ({
    name,
    place: columns.indexOf(name),
    right,
    isNamed: few.has(name),
  });
  return (cell) => {
    const found = typeof cell === 'string' ? exactOr(cell, undefined) : cell;
    if (found === undefined) return 'is no JSON';
    if (shape === 'value') return { kind: 'json', values: [goldValue('answer', found)] };
    if (!isObject(found)) return 'is no JSON object';
    const values = Object.entries(found).map(([name, right]) => goldValue(name, right));
    const unknown = values.find(({ place }) => place < 0);
    return unknown === undefined
      ? { kind: 'json', values }
      : `names ${JSON.stringify(unknown.name)}, and answer.json has the properties ${listed(columns)}`;
  };
}
