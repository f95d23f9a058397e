import type { Ajv, ErrorObject, ValidateFunction } from 'ajv';
import type { AnswerSpec } from '../core/answer-spec.js';
import { errorText, UsageError } from '../core/errors.js';
import { canonical, isObject, MAX_DEPTH, parseExact, parseJson, stringEnd, valueText } from '../core/json.js';
import { loadPackage } from '../core/load-package.js';
import type { Answer, Json, Problem } from '../core/model.js';
import { jsonRepairer } from './json-repair.js';
import { refusedPlace, type SchemaProblem, unknownKeywords } from './schema-problems.js';
import { excerpt, listed, type ReadFrom } from './text.js';

type Schema = { readonly [key: string]: Json };

/** Most brackets tried as the start of JSON: refusing all takes thousands of times the text's length. */
const MOST_TRIED = 1_000;

/**
 * Reads JSON of a schema from a text: bare, fenced, or with words around it; the first object counts. JSON
 * that violates the schema gives no values: a wrong value is worse than none. With `repair`, text that is
 * nearly JSON and was not cut is repaired.
 *
 * ajv compiles the schema into code (`new Function`). It comes from the job file (through the queue, where
 * rows are asked again), never from a row or the model. Whoever can write to the queue can make a worker
 * compile a schema.
 * @throws UsageError for an invalid JSON Schema
 */
export function jsonReader({ schema, repair }: Extract<AnswerSpec, { kind: 'json' }>): {
  readonly properties: readonly string[];
  readonly named: Named;
  readonly read: (completion: ReadFrom) => Answer;
} {
  const validate = validator(schema);
  const { properties: declared } = schema;
  const properties = isObject(declared) ? Object.keys(declared) : [];
  const named = namedIn(schema, properties);
  const openers = openersOf(schema, properties);
  const invalid = (problem: Problem): Answer => ({
    values: properties.length === 0 ? [null] : properties.map(() => null),
    counted: ['invalid'],
    problem,
  });

  const repaired = repair ? jsonRepairer(openers) : () => undefined;
  const valid = (json: string): Answer => {
    const found = parseExact(json);
    const of = (values: readonly Json[]): Answer => ({
      values,
      counted: ['valid'],
      properties: named(values),
      problem: null,
    });
    if (properties.length === 0) return of([found]);
    const member = (name: string): Json =>
      isObject(found) && Object.hasOwn(found, name) ? (found[name] ?? null) : null;
    return of(properties.map(member));
  };

  const read = (completion: ReadFrom): Answer => {
    const text = completion.text?.trim() ?? '';
    const found = findJson(text, openers);
    const mended = found === undefined && !isCut(completion) ? repaired(text) : undefined;
    const json = found ?? mended;
    if (json === undefined)
      return invalid({ code: 'answer_not_json', message: `${excerpt(text)} has no JSON` });
    const wrong = validate(JSON.parse(json));
    if (wrong !== null) return invalid({ code: 'answer_invalid', message: wrong });
    return mended === undefined ? valid(json) : { ...valid(json), repaired: true };
  };
  return { properties, named, read };
}

/** Of the values of an answer, those that are counted by name, with the names of their properties. */
type Named = (values: readonly Json[]) => readonly (readonly [name: string, value: string])[];

function namedIn({ properties: declared, ...schema }: Schema, properties: readonly string[]): Named {
  const schemas: [string, Json | undefined][] = isObject(declared)
    ? properties.map((name) => [name, declared[name]])
    : [['answer', schema]];
  const places = schemas.flatMap(([name, each], place) => (hasNames(each) ? [[name, place] as const] : []));
  return (values) => places.map(([name, place]) => [name, valueName(values[place])]);
}

/** Whether the values are of an enum, numbers, or true and false: no free text, list or object. */
function hasNames(schema: Json | undefined): boolean {
  if (!isObject(schema)) return false;
  const { enum: listed, const: only, type = '', anyOf } = schema;
  if (Array.isArray(listed) || only !== undefined) return true;
  if (Array.isArray(anyOf)) return anyOf.every(hasNames);
  return [type].flat().every((each) => NAMED_TYPES.some((named) => named === each));
}

const NAMED_TYPES = ['boolean', 'integer', 'number', 'null'] as const;

/** In counts and scores. A CSV does not tell `null` and the empty text apart. */
export const valueName = (value: Json | undefined): string => valueText(value) || 'null';

/** Whether the text certainly continues; the filter cuts, too. */
const isCut = ({ finish_reason, damaged }: ReadFrom): boolean =>
  finish_reason === 'length' || finish_reason === 'content_filter' || damaged === 'cut';

/** Mistakes that make a schema mean something other than it seems. */
export function schemaProblems(schema: Schema): readonly SchemaProblem[] {
  const slips = unknownKeywords(schema);
  if (slips.length > 0) return slips;
  const ajv = validatorFor(schema);
  try {
    compile(ajv, schema);
    return [];
  } catch (error) {
    return [refusedPlace(ajv, schema, error)];
  }
}

/** What is wrong with a value, or null. */
function validator(schema: Schema): (value: Json) => string | null {
  try {
    const validate = compile(validatorFor(schema), schema);
    return (value) => (validate(value) ? null : described(validate.errors?.[0]));
  } catch (error) {
    throw new UsageError(
      'schema_invalid',
      `answer.json is not a JSON Schema: ${errorText(error)}`,
      'Use draft-07 (the default), or 2020-12 with its "$schema".',
    );
  }
}

function compile(ajv: Ajv, schema: Schema): ValidateFunction {
  // "$async" would make the validator return a promise.
  if (schema['$async'] !== undefined) throw new Error('$async is not supported');
  return ajv.removeKeyword('uniqueItems').addKeyword(UNIQUE_ITEMS).compile(schema);
}

function validatorFor(schema: Schema): Ajv {
  const options = {
    strict: false,
    validateFormats: false,
    logger: false,
    code: { regExp: boundedPattern },
  } as const;
  if (String(schema['$schema'] ?? '').includes('2020-12')) {
    const { Ajv2020 }: typeof import('ajv/dist/2020.js') = loadPackage('ajv/dist/2020.js');
    return new Ajv2020(options);
  }
  const { Ajv }: typeof import('ajv') = loadPackage('ajv');
  return new Ajv(options);
}

/** Longest value matched against a `pattern`, in characters; beyond, only its author could bound it. */
const LONGEST_MATCHED = 10_000;

/** A longer value does not match (fault 69). */
function boundedPattern(pattern: string, flags: string): { test(text: string): boolean; toString(): string } {
  const regExp = new RegExp(pattern, flags);
  return {
    test: (text) => text.length <= LONGEST_MATCHED && regExp.test(text),
    // ajv identifies patterns by this text.
    toString: () => regExp.toString(),
  };
}
boundedPattern.code = 'new RegExp';

/** The library's own compares all pairs of items. */
const UNIQUE_ITEMS = {
  keyword: 'uniqueItems',
  type: 'array',
  schemaType: 'boolean',
  error: { message: 'must NOT have duplicate items' },
  compile: (unique: boolean) => (items: readonly Json[]) =>
    !unique || new Set(items.map(canonical)).size === items.length,
} as const;

/** Bounded: the path has member names from the answer. */
function described(error: ErrorObject | undefined): string {
  const { allowedValues } = error?.params ?? {};
  const allowed = Array.isArray(allowedValues) ? `: ${listed(allowedValues.map(String))}` : '';
  const path = (error?.instancePath ?? '').slice(0, 100).replaceAll('/', '.');
  return `answer${path} ${error?.message ?? 'is not valid'}${allowed}`;
}

function openersOf(schema: Schema, properties: readonly string[]): '{' | '[' | '{[' {
  if (schema['type'] === 'array') return '[';
  return schema['type'] === 'object' || properties.length > 0 ? '{' : '{[';
}

/**
 * The first JSON object or array, or the whole text if it is a JSON string, number or literal. Nothing inside
 * brackets that are no JSON, or never closed, counts: part of a cut answer is no answer.
 */
function findJson(text: string, openers: '{' | '[' | '{['): string | undefined {
  let tried = 0;
  for (let at = 0; at < text.length; at++) {
    if (!openers.includes(text.charAt(at))) continue;
    if (++tried > MOST_TRIED) return undefined;
    const end = balancedEnd(text, at);
    if (end < 0) return undefined;
    const json = text.slice(at, end);
    if (isJson(json)) return json;
    at = end - 1;
  }
  return !/^[[{]/.test(text) && isJson(text) ? text : undefined;
}

/** Index after the bracket that closes `start`; −1 when none does, or it is nested too deep. */
function balancedEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      at = stringEnd(text, at);
      if (at < 0) return -1;
    } else if (char === '{' || char === '[') {
      if (++depth > MAX_DEPTH) return -1;
    } else if ((char === '}' || char === ']') && --depth === 0) return at + 1;
  }
  return -1;
}

const isJson = (text: string): boolean => parseJson(text) !== undefined;
