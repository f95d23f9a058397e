import type { AnswerSpec } from '../core/answer-spec.js';
import { isObject } from '../core/json.js';
import type { Json } from '../core/model.js';

/** The JSON Schema of an answer, as a service may be asked to keep to it. */
export interface SentSchema {
  readonly schema: { readonly [keyword: string]: Json };
  /** The service's strict mode takes it. */
  readonly strict: boolean;
}

/** Null for free text. Labels and numbers are in an object, because services want one. */
export function sentSchema(spec: AnswerSpec): SentSchema | null {
  switch (spec.kind) {
    case 'text':
      return null;
    case 'json':
      return { schema: spec.schema, strict: isStrict(spec.schema) };
    case 'number': {
      const { min, max, integer } = spec;
      return inObject({
        type: integer ? 'integer' : 'number',
        ...(min !== undefined && { minimum: min }),
        ...(max !== undefined && { maximum: max }),
      });
    }
    case 'labels': {
      const label = { type: 'string', enum: spec.labels };
      return inObject(spec.multiple ? { type: 'array', items: label } : label);
    }
  }
}

const inObject = (answer: Json): SentSchema => {
  const schema = {
    ...{ type: 'object', properties: { answer }, required: ['answer'], additionalProperties: false },
  };
  return { schema, strict: isStrict(schema) };
};

/** What the strict mode knows. */
const KEYWORDS = new Set([
  ...['type', 'title', 'description', 'properties', 'required', 'additionalProperties', 'items', 'anyOf'],
  ...['enum', 'const', '$ref', '$defs', 'pattern', 'format', 'multipleOf', 'minimum', 'maximum'],
  ...['exclusiveMinimum', 'exclusiveMaximum', 'minItems', 'maxItems'],
]);
const MOST_VALUES = 1_000;

/** An object that says all of its properties, at every depth, and on top. */
const isStrict = (schema: Json): boolean =>
  isObject(schema) && schema['type'] === 'object' && schema['anyOf'] === undefined && isSaid(schema);

function isSaid(schema: Json | undefined): boolean {
  if (!isObject(schema) || Object.keys(schema).some((keyword) => !KEYWORDS.has(keyword))) return false;
  const {
    type,
    properties,
    required,
    additionalProperties,
    items,
    anyOf,
    $ref,
    $defs = {},
    enum: values,
  } = schema;
  const types = [type ?? []].flat();
  const names = isObject(properties) ? Object.keys(properties) : [];
  const needed: readonly unknown[] = Array.isArray(required) ? required : [];
  const isWhole =
    !types.includes('object') ||
    (isObject(properties) && additionalProperties === false && names.every((name) => needed.includes(name)));
  return (
    isWhole &&
    (types.length > 0 || anyOf !== undefined || $ref !== undefined) &&
    (!types.includes('array') || items !== undefined) &&
    (!Array.isArray(values) || values.length <= MOST_VALUES) &&
    [
      ...(isObject(properties) ? Object.values(properties) : []),
      ...(items === undefined ? [] : [items]),
      ...(Array.isArray(anyOf) ? anyOf : []),
      ...(isObject($defs) ? Object.values($defs) : []),
    ].every(isSaid)
  );
}
