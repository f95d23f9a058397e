import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import { jsonRepairer } from '../../src/answer/json-repair.js';
import type { Json } from '../../src/core/model.js';
import { said } from './said.js';

const schema = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: ['integer', 'null'] }, tags: { type: 'array' } },
  required: ['name'],
};
const reader = answerReader({ kind: 'json', schema, repair: true });
const strict = answerReader({ kind: 'json', schema });

describe('JSON that is nearly JSON', () => {
  it.each([
    ['single quotes', "{'name': 'Ann', 'age': 3}"],
    ['quotes of print', '{“name”: “Ann”, “age”: 3}'],
    ['keys without quotes', '{name: "Ann", age: 3}'],
    ['a comma too many', '{"name": "Ann", "age": 3,}'],
    ['no comma between lines', '{"name": "Ann"\n "age": 3}'],
    ['no comma between members', '{"name": "Ann" "age": 3}'],
    ['comments', '{"name": "Ann", // a girl\n /* years */ "age": 3}'],
    ['strings in parts', '{"name": "A" + \'nn\', "age": 3}'],
    ['a fence, and words around it', "Sure:\n```json\n{'name': 'Ann', 'age': 3}\n```\nIt's done."],
    ['braces before it that are no JSON', "For {name} and {age}: {'name': 'Ann', 'age': 3}"],
  ])('is mended: %s', (_, text) => {
    expect(strict.read(said(text)).problem?.code).toBe('answer_not_json');
    expect(reader.read(said(text))).toEqual({
      values: ['Ann', 3, null],
      counted: ['valid'],
      properties: [['age', '3']],
      problem: null,
      repaired: true,
    });
  });

  it("may have Python's words, line breaks in strings, and escapes", () => {
    const { values } = reader.read(
      said("{'name': 'A\\'nn \"B\"\n\\u00e9', 'age': None, 'tags': [True, False,],}"),
    );
    expect(values).toEqual(['A\'nn "B"\né', null, [true, false]]);
  });

  it('keeps backslashes that are escaped, and words and signs that are quoted', () => {
    const text = String.raw`{'name': 'C:\\Users; \u0064\'s', 'tags': ['NULL', 'a: b;', 'none',]}`;
    expect(reader.read(said(text)).values).toEqual(["C:\\Users; d's", null, ['NULL', 'a: b;', 'none']]);
  });

  it('keeps every digit of a big number, and a name such as __proto__', () => {
    const any = answerReader({
      kind: 'json',
      schema: { properties: JSON.parse('{"id": {}, "__proto__": {}}') },
      repair: true,
    });
    expect(any.read(said("{'id': 12345678901234567890, '__proto__': 1e+3}")).values).toEqual([
      '12345678901234567890',
      1000,
    ]);
  });

  it('is mended only where the job says so, and only where the text as it is has no JSON', () => {
    const sound = '{"name": "Ann"} {\'name\': \'Bob\'}';
    expect(reader.read(said(sound))).toEqual(strict.read(said(sound)));
    const wrong = "{\"name\": 1} {'name': 'Bob'}";
    expect(reader.read(said(wrong)).problem?.code).toBe('answer_invalid');
  });

  it('is held against the schema', () => {
    expect(reader.read(said("{'age': 3}"))).toEqual({
      values: [null, null, null],
      counted: ['invalid'],
      problem: { code: 'answer_invalid', message: "answer must have required property 'name'" },
    });
  });

  it.each<[string, object]>([
    ['its tokens ran out', { finish_reason: 'length' }],
    ['the filter cut it', { finish_reason: 'content_filter' }],
    ['it was too long to keep', { damaged: 'cut' }],
  ])('is left alone where %s', (_, more) => {
    const text = "{'name': 'Ann'}";
    expect(reader.read(said(text, more)).problem?.code).toBe('answer_not_json');
    expect(reader.read(said(text, { finish_reason: null })).repaired).toBe(true);
  });

  it.each([
    ['is never closed', '{"name": "Ann"'],
    ['has a string that is never closed', '{"name": "Ann}'],
    ['has a list that is never closed', "{'name': 'Ann', 'tags': [1, 2}"],
    ['has a comment that is never closed', "{'name': 'Ann' /* }"],
    ['is inside of brackets that are never closed', "{'a': {'name': 'Ann'}"],
    ['leaves items out', "{'name': 'Ann', 'tags': [1, 2, ...]}"],
    ['leaves items out with one character', "{'name': 'Ann', 'tags': [1, 2, …]}"],
    ['lacks a value', '{"name": "Ann", "age": }'],
    ['has a dash for a value', '{"name": "Ann", "age": -}'],
    ['has half a number', '{"name": "Ann", "age": 3.}'],
    ['has quotes in a string that are not escaped', '{"name": "Ann "the Cat, Jr" B", "age": 3}'],
    ['has a string of which nobody can tell the end', "{'name': 'Ann's cat', 'b': 'that's it'}"],
    ['has a bracket in a string at the end of a list', '{"name": "Ann", "tags": ["a [b"],}'],
    ['has a call', '{"name": String("Ann")}'],
    ['has a path with backslashes', String.raw`{"name": "C:\Users\sam"}`],
    ['has a pattern with backslashes', String.raw`{"name": "\d+\.\d"}`],
    ['has a backslash behind one that is escaped', String.raw`{"name": "\\\d"}`],
    ['has a member in a list', '{"name": "Ann", "tags": ["x": 1]}'],
    ['has a semicolon for a comma', "{'name': 'Ann', 'tags': [1; 2]}"],
    ['has a semicolon behind a number', "{'name': 1; 'age': 3}"],
    ['has NULL', "{'name': NULL}"],
    ['has a none in small letters', "{'name': none}"],
    ['has TRUE and fALSE', "{'name': 'Ann', 'tags': [TRUE, fALSE]}"],
    ['has entities', '{&quot;name&quot;: &quot;Ann&quot;}'],
    ['has more than 200 levels', `{'name': 'Ann', 'tags': ${'['.repeat(200)}${']'.repeat(200)}}`],
    ['is longer than 32,000 characters', `{'name': '${'a'.repeat(32_000)}'}`],
  ])('is no answer where it %s', (_, text) => {
    const { values, problem } = reader.read(said(text));
    expect([values, problem?.code]).toEqual([[null, null, null], 'answer_not_json']);
  });
});

/** Ways in which people and models write JSON. */
const string = (text: string): string => JSON.stringify(text);
const single = (text: string): string =>
  `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;

interface Hand {
  readonly string: (text: string) => string;
  readonly words: readonly [no: string, yes: string, nothing: string];
  readonly comma: string;
  readonly last: string;
}

function written(value: Json, hand: Hand): string {
  const items = (all: readonly string[]): string => all.join(hand.comma) + (all.length > 0 ? hand.last : '');
  if (typeof value === 'string') return hand.string(value);
  if (typeof value === 'boolean') return hand.words[value ? 1 : 0];
  if (value === null) return hand.words[2];
  if (typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${items(value.map((each) => written(each, hand)))}]`;
  return `{${items(Object.entries(value).map(([key, each]) => `${hand.string(key)}: ${written(each, hand)}`))}}`;
}

const hands = fc.record({
  string: fc.constantFrom(string, single),
  words: fc.constantFrom<Hand['words']>(['false', 'true', 'null'], ['False', 'True', 'None']),
  comma: fc.constantFrom(', ', ',', ',\n  ', '\n', ', // more\n'),
  last: fc.constantFrom('', ',', ' /* end */'),
});
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom("it's", 'a "b" c', '[x', '{', '}]', '//', '...', '\\'),
);
const { object } = fc.letrec<{ value: Json; object: { [key: string]: Json } }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, false),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    text,
    fc.array(tie('value'), { maxLength: 4 }),
    tie('object'),
  ),
  object: fc.dictionary(text, tie('value'), { maxKeys: 4 }),
}));
const before = fc.constantFrom('', 'Sure! Here is it:\n```json\n', "Here's the JSON: ");

describe('a text that was cut', () => {
  const lenient = { kind: 'json', schema: { type: 'object' } } as const;
  const mends = answerReader({ ...lenient, repair: true });
  const reads = answerReader(lenient);

  it('reads as it does without repair, however it is written, wherever it was cut and whatever is said of its end', () => {
    const reasons = fc.constantFrom('length', 'stop', null);
    fc.assert(
      fc.property(object, hands, before, reasons, fc.nat(), (value, hand, words, finish_reason, at) => {
        const whole = words + written(value, hand);
        const cut = said(whole.slice(0, at % whole.length), { finish_reason });
        expect(mends.read(cut)).toEqual(reads.read(cut));
        const ended = said(whole, { finish_reason: 'length' });
        expect(mends.read(ended)).toEqual(reads.read(ended));
      }),
      { numRuns: 3_000 },
    );
  });

  it('is never mended to another value than was written', () => {
    let mended = 0;
    const repair = jsonRepairer('{');
    fc.assert(
      fc.property(object, hands, before, (value, hand, words) => {
        const json = repair(words + written(value, hand));
        if (json === undefined) return;
        mended++;
        expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 3_000 },
    );
    expect(mended).toBeGreaterThan(1_000);
  });
});
