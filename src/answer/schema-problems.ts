import type { Ajv, ErrorObject } from 'ajv';
import { either, errorText } from '../core/errors.js';
import { isObject } from '../core/json.js';
import type { Json } from '../core/model.js';
import { nearest } from '../core/nearest.js';

type Path = readonly (string | number)[];

/** `message` follows the name of the place. */
export interface SchemaProblem {
  readonly path: Path;
  readonly message: string;
  /** The value there, if the message does not have it. */
  readonly input?: unknown;
}

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];
const TYPES_ELSEWHERE: Readonly<Record<string, string>> = {
  ...{ text: 'string', str: 'string', varchar: 'string', int: 'integer', float: 'number', double: 'number' },
  ...{ decimal: 'number', bool: 'boolean', list: 'array', dict: 'object', map: 'object', none: 'null' },
};

const words = (text: string): string[] => text.split(/\s+/);

/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const ONE = words(
  `additionalItems additionalProperties contains contentSchema else if items not propertyNames then
   unevaluatedItems unevaluatedProperties`,
);
const SEVERAL = ['allOf', 'anyOf', 'items', 'oneOf', 'prefixItems'];
const NAMED = ['$defs', 'definitions', 'dependencies', 'dependentSchemas', 'patternProperties', 'properties'];
const KEYWORDS = [
  ...new Set([...ONE, ...SEVERAL, ...NAMED]),
  ...words(
    `$anchor $comment $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary const contentEncoding
     contentMediaType default dependentRequired deprecated description enum examples exclusiveMaximum
     exclusiveMinimum format maxContains maximum maxItems maxLength maxProperties minContains minimum
     minItems minLength minProperties multipleOf pattern readOnly required title type uniqueItems writeOnly`,
  ),
];
/** Common extra names: they mean nothing here, and are no misspelled keywords. */
const BESIDE = new Set(['example', 'id', 'nullable', 'name', 'discriminator', 'xml', 'enumNames', 'titles']);

/**
 * Finds names that are no keywords, which JSON Schema silently ignores. Those close to a keyword are taken
 * for typos; a schema of only unknown names is none.
 */
export function unknownKeywords(schema: unknown, path: Path = []): readonly SchemaProblem[] {
  if (!isObject(schema)) return [];
  const members = Object.entries(schema);
  const isKeyword = (name: string): boolean => KEYWORDS.includes(name);
  const slips = members.flatMap(([name]) => {
    if (isKeyword(name) || BESIDE.has(name) || name.startsWith('x-')) return [];
    const near = nearest(name, KEYWORDS);
    return near === null
      ? []
      : [{ path: [...path, name], message: `is not a keyword of JSON Schema: did you mean ${near}?` }];
  });
  const first = members[0]?.[0];
  if (
    slips.length === 0 &&
    first !== undefined &&
    !members.some(([name]) => isKeyword(name) || /^x-/.test(name))
  ) {
    const message = `is not a keyword of JSON Schema: name a property as type: object, properties: { ${first}: { type: string } }`;
    return [{ path: [...path, first], message }];
  }
  const inner = members.flatMap(([name, value]) => {
    if (NAMED.includes(name) && isObject(value))
      return Object.entries(value).flatMap(([each, found]) => unknownKeywords(found, [...path, name, each]));
    if (SEVERAL.includes(name) && Array.isArray(value))
      return value.flatMap((found, i) => unknownKeywords(found, [...path, name, i]));
    return ONE.includes(name) ? unknownKeywords(value, [...path, name]) : [];
  });
  return [...slips, ...inner];
}

/** Where and why a validator refuses a schema, in the words of a job file. */
export function refusedPlace(
  ajv: Ajv,
  schema: { readonly [key: string]: Json },
  refusal: unknown,
): SchemaProblem {
  const text = errorText(refusal);
  if (text.startsWith('no schema with key')) {
    const message = `must be draft-07 or ${DRAFT_2020}: leave it out for draft-07`;
    return { path: ['$schema'], message, input: schema['$schema'] };
  }
  if (ajv.validateSchema(schema) === false) {
    const errors = (ajv.errors ?? []).filter(({ keyword }) => keyword !== 'anyOf');
    const [deepest] = errors.toSorted((a, b) => b.instancePath.length - a.instancePath.length);
    if (deepest !== undefined) return inWords(deepest, schema);
  }
  // The error about a pattern or a reference quotes its text.
  const isNamed = ([value, path]: readonly [string, Path]): boolean =>
    value !== '' && /^(pattern|\$ref)$/.test(String(path.at(-1))) && text.includes(value);
  const path = textsOf(schema).find(isNamed)?.[1] ?? [];
  return { path, message: `cannot be used: ${text}` };
}

const DRAFT_2020 = 'https://json-schema.org/draft/2020-12/schema';

function inWords({ instancePath, message = '' }: ErrorObject, schema: unknown): SchemaProblem {
  const path = instancePath
    .split('/')
    .slice(1)
    .map((step) => decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~'));
  let input: unknown = schema;
  for (const step of path)
    input = isObject(input) || Array.isArray(input) ? Reflect.get(input, step) : undefined;
  const [parent, last = ''] = [path.at(-2), path.at(-1)];
  if ((last === 'type' || parent === 'type') && typeof input === 'string') {
    const meant = TYPES_ELSEWHERE[input.toLowerCase()] ?? nearest(input, TYPES);
    const guess = meant === null ? '' : `; did you mean ${meant}?`;
    return { path, message: `must be ${either(TYPES)}, got ${JSON.stringify(input)}${guess}` };
  }
  if (NAMED.includes(parent ?? '') && typeof input === 'string')
    return {
      path,
      message: `must be a schema, got ${JSON.stringify(input)}: write { type: ${typeNamed(input)} }`,
    };
  if (last === 'required' && typeof input === 'boolean')
    return {
      path,
      message: `must be a list of names, got ${input}: write required: [NAME, …] beside properties`,
    };
  const words = message
    .replace(/^must be array$/, 'must be a list')
    .replace(/^must be (object|object,boolean)$/, 'must be a group of fields');
  return { path, message: words, input };
}

const typeNamed = (word: string): string =>
  TYPES_ELSEWHERE[word.toLowerCase()] ?? nearest(word, TYPES) ?? 'string';

function textsOf(value: unknown, path: Path = []): readonly (readonly [string, Path])[] {
  if (typeof value === 'string') return [[value, path]];
  if (Array.isArray(value)) return value.flatMap((each, i) => textsOf(each, [...path, i]));
  return isObject(value)
    ? Object.entries(value).flatMap(([name, each]) => textsOf(each, [...path, name]))
    : [];
}
