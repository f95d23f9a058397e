import { expect, it } from 'vitest';
import { sentSchema } from '../../src/answer/sent-schema.js';
import type { Json } from '../../src/core/model.js';

const whole = (properties: { readonly [name: string]: Json }) => ({
  ...{ type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
});
const isStrict = (schema: { readonly [keyword: string]: Json }) =>
  sentSchema({ kind: 'json', schema })?.strict;

it.each([
  ['texts and numbers', whole({ a: { type: 'string' }, b: { type: ['number', 'null'] } })],
  [
    'a list of objects',
    whole({ a: { type: 'array', items: whole({ b: { enum: ['x'], type: 'string' } }) } }),
  ],
  ['definitions', { ...whole({ a: { $ref: '#/$defs/t' } }), $defs: { t: { type: 'string' } } }],
])('a schema with %s is sent as strict', (_, schema) => {
  expect(isStrict(schema)).toBe(true);
});

it.each([
  ['another property', { ...whole({ a: { type: 'string' } }), additionalProperties: true }],
  ['no word about others', { type: 'object', properties: {}, required: [] }],
  ['an optional property', { ...whole({ a: { type: 'string' } }), required: [] }],
  ['a loose object inside', whole({ a: { type: 'object' } })],
  ['a keyword that strict does not know', whole({ a: { type: 'string', minLength: 2 } })],
  ['a property without a type', whole({ a: { enum: ['x'] } })],
  ['a list on top', { type: 'array', items: { type: 'string' } }],
])('a schema with %s is not', (_, schema) => {
  expect(isStrict(schema)).toBe(false);
});

it('labels and numbers are in an object, and free text has no schema', () => {
  expect(sentSchema({ kind: 'text' })).toBeNull();
  expect(sentSchema({ kind: 'number', min: 1, max: 5, integer: true })).toEqual({
    schema: whole({ answer: { type: 'integer', minimum: 1, maximum: 5 } }),
    strict: true,
  });
  expect(sentSchema({ kind: 'labels', labels: ['a', 'b'], multiple: true })).toEqual({
    schema: whole({ answer: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } } }),
    strict: true,
  });
});
