import { describe, expect, it, test } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import { firstClash } from '../../src/answer/label-index.js';
import { UsageError } from '../../src/core/errors.js';
import type { Json } from '../../src/core/model.js';
import { said } from './said.js';

describe('a text answer', () => {
  it('is the text without the white space around it', () => {
    const reader = answerReader({ kind: 'text' });
    expect(reader.columns).toEqual(['answer']);
    expect(reader.read(said('\n\n Good. \n'))).toEqual({ values: ['Good.'], counted: [], problem: null });
    expect(reader.read(said(null)).values).toEqual([null]);
  });
});

describe('a label answer', () => {
  const labels = ['Positive', 'negative', 'neutral'];
  const read = (text: string | null, of = labels): Json =>
    answerReader({ kind: 'labels', labels: of }).read(said(text)).values[0] ?? null;

  test.each([
    ['positive'],
    [' POSITIVE.'],
    ['**positive**'],
    ['_positive_'],
    ['"Positive"'],
    ['Sentiment: positive'],
    ['**Sentiment:** Positive!'],
    ['The sentiment is positive.'],
    ['positive - because the fit is good'],
    ['Positive, because the fit is good'],
    ['Positive. There is nothing negative in it.'],
    ['positive because it has no negative word'],
    ['Positive. Positive words, and one negative'],
    ['positive, not negative'],
    ['Positive\n\nReview: too small.\nSentiment: negative'],
  ])('finds "Positive" in %j', (text) => {
    expect(read(text)).toBe('Positive');
  });

  test.each([
    ['not positive'],
    ["It isn't a very positive review"],
    ['neither positive nor negative'],
    ['non-positive'],
    ['positively'],
    ['überpositive'],
    ['positive or negative'],
    ['Positive. Negative.'],
    ['positive: 0.2, negative: 0.8'],
    ['mixed'],
    [''],
    [null],
  ])('finds no label in %j', (text) => {
    expect(read(text)).toBeNull();
  });

  it('counts the label, or "(none)" with a problem that says why', () => {
    const reader = answerReader({ kind: 'labels', labels });
    expect(reader.read(said('positive'))).toEqual({
      values: ['Positive'],
      counted: ['Positive'],
      problem: null,
    });
    expect(reader.read(said('mixed'))).toEqual({
      values: [null],
      counted: ['(none)'],
      problem: {
        code: 'answer_not_a_label',
        message: 'the text "mixed" is none of the labels Positive, negative, neutral',
      },
    });
    expect(reader.read(said('positive or negative')).problem?.message).toContain(
      'more than one label: Positive, negative',
    );
  });

  it('prefers the longer of two labels, and lets a label be a negation', () => {
    expect(read('Very positive', ['positive', 'very positive'])).toBe('very positive');
    expect(read('not spam', ['spam', 'not_spam'])).toBe('not_spam');
    expect(read('No.', ['yes', 'no'])).toBe('no');
  });

  it('takes numbers whole', () => {
    const stars = ['1', '2', '3', '4', '5'];
    expect(read('4', stars)).toBe('4');
    expect(read('4 stars', stars)).toBe('4');
    expect(read('4.5', stars)).toBeNull();
    expect(read('-4', stars)).toBeNull();
    expect(read('-1', ['-1', '0', '1'])).toBe('-1');
    expect(read('14', stars)).toBeNull();
  });

  it('takes signs in labels literally', () => {
    expect(read('I would say C++.', ['C', 'C++', 'C#'])).toBe('C++');
    expect(read('xyz', ['.', 'x.z'])).toBeNull();
  });

  it('finds labels of other scripts', () => {
    expect(read('Ergebnis: SCHLECHT', ['gut', 'schlecht'])).toBe('schlecht');
    expect(read('正面。', ['正面', '负面'])).toBe('正面');
    expect(read('👍', ['👍', '👎'])).toBe('👍');
    expect(read('cafe\u0301', ['caf\u00e9'])).toBe('caf\u00e9');
  });

  it('reads a synonym as its label, and the longest name where several begin at one place', () => {
    const reader = answerReader({
      kind: 'labels',
      labels: ['positive', 'negative', 'neutral'],
      synonyms: [['pos', 'good', '+'], ['neg', 'not good'], []],
    });
    const read = (text: string) => reader.read(said(text));
    for (const [text, label] of [
      ['Pos.', 'positive'],
      ['Sentiment: **good**', 'positive'],
      ['+', 'positive'],
      ['Good, and positive all in all', 'positive'],
      ['It is not good', 'negative'],
      ['not neg', null],
      ['pos or neg', null],
      ['neutral', 'neutral'],
    ] as const) {
      expect(read(text).values, text).toEqual([label]);
    }
    expect(read('pos or neg').problem?.message).toContain('more than one label: positive, negative');
    expect(read('so-so').problem?.message).toContain('none of the labels positive, negative, neutral');
  });
});

describe('the names of labels', () => {
  it.each([
    [[['self harm'], ['Self_harm']], 'Self_harm', 'self harm'],
    [
      [
        ['positive', 'pos'],
        ['negative', 'POS'],
      ],
      'POS',
      'pos',
    ],
    [[['positive', 'pos'], ['pos']], 'pos', 'pos'],
    [[['positive', 'negative'], ['negative']], 'negative', 'negative'],
    [[['caf\u00e9'], ['b', 'cafe\u0301']], 'cafe\u0301', 'caf\u00e9'],
    [[['yes'], [' ']], ' ', null],
  ])('of %j clash', (labels, name, as) => {
    const clash = firstClash(labels);
    const at = (place: { label: number; name: number } | null | undefined) =>
      place && labels[place.label]?.[place.name];
    expect(at(clash?.place)).toBe(name);
    expect(at(clash?.as)).toBe(as);
  });

  it('may stand twice with one label', () => {
    expect(firstClash([['good', 'Good', 'fine'], ['bad']])).toBeNull();
  });
});

describe('a JSON answer', () => {
  const schema = {
    type: 'object',
    properties: {
      label: { enum: ['good', 'bad'] },
      score: { type: 'number' },
      tags: { type: 'array', items: { type: 'string' } },
    },
    required: ['label'],
  };
  const reader = answerReader({ kind: 'json', schema });

  it('has the top-level properties of the schema as columns', () => {
    expect(reader.columns).toEqual(['label', 'score', 'tags']);
    expect(reader.shape).toBe('object');
    expect(reader.read(said('{"tags":["a"],"label":"good","extra":1}'))).toEqual({
      values: ['good', null, ['a']],
      counted: ['valid'],
      properties: [
        ['label', 'good'],
        ['score', 'null'],
      ],
      problem: null,
    });
  });

  test.each([
    ['in a code fence', '```json\n{"label": "bad"}\n```'],
    ['with words around it', 'Here you are: {"label": "bad"} Anything else?'],
    ['behind braces that are no JSON', 'For {label, score} I get {"label": "bad"}'],
    ['with brackets in a string', '{"label": "bad", "tags": ["}\\"]{"]}'],
    ['before another one', '{"label": "bad"}\n\nReview: nice\n{"label": "good"}'],
  ])('is found %s', (_, text) => {
    expect(reader.read(said(text)).values[0]).toBe('bad');
  });

  test.each([
    ['no JSON here'],
    ['{"label": "bad"'],
    ['{"more": {"label": "bad"}'],
    ['{\'x\': {"label": "bad"}}'],
    [''],
    [null],
  ])('is missing in %j', (text) => {
    const answer = reader.read(said(text));
    expect(answer.problem?.code).toBe('answer_not_json');
    expect(answer.values).toEqual([null, null, null]);
  });

  it('gives no values where the schema is not kept, and names the place', () => {
    const answer = reader.read(said('{"label": "good", "score": "high"}'));
    expect(answer.values).toEqual([null, null, null]);
    expect(answer.counted).toEqual(['invalid']);
    expect(answer.problem).toEqual({ code: 'answer_invalid', message: 'answer.score must be number' });
    expect(reader.read(said('{"label": "so-so"}')).problem?.message).toBe(
      'answer.label must be equal to one of the allowed values: good, bad',
    );
  });

  it.each([
    [{ enum: ['a', 1] }, 'x', 'x'],
    [{ const: 'a' }, 'a', 'a'],
    [{ type: 'boolean' }, false, 'false'],
    [{ type: ['integer', 'null'] }, 4, '4'],
    [{ anyOf: [{ type: 'number' }, { type: 'null' }] }, null, 'null'],
    [{ type: 'string' }, 'x', undefined],
    [{ type: ['number', 'string'] }, 4, undefined],
    [{ anyOf: [{ type: 'number' }, {}] }, 4, undefined],
    [{ type: 'array', items: { type: 'number' } }, [4], undefined],
    [{}, 4, undefined],
    [true, 4, undefined],
  ])('counts the values of a property %j as it has few of them', (of, value, named) => {
    const { named: namesOf } = answerReader({ kind: 'json', schema: { properties: { more: {}, of } } });
    expect(namesOf?.([1, value])).toEqual(named === undefined ? [] : [['of', named]]);
  });

  it('holds each member against its own pattern', () => {
    const properties = { currency: { pattern: '^[A-Z]{3}$' }, date: { pattern: '^\\d{4}-\\d\\d-\\d\\d$' } };
    const facts = answerReader({ kind: 'json', schema: { properties } });
    expect(facts.read(said('{"currency":"EUR","date":"2026-11-22"}')).counted).toEqual(['valid']);
    expect(facts.read(said('{"currency":"EUR","date":"EUR"}')).counted).toEqual(['invalid']);
  });

  it('keeps every digit of a big number', () => {
    const ids = answerReader({ kind: 'json', schema: { properties: { id: { type: 'integer' } } } });
    expect(ids.read(said('{"id": 12345678901234567890}')).values).toEqual(['12345678901234567890']);
    expect(ids.read(said('{"id": 42}')).values).toEqual([42]);
  });

  it('fault 9: takes __proto__ and constructor as plain data', () => {
    const odd = answerReader({
      kind: 'json',
      schema: { properties: JSON.parse('{"__proto__": {}, "constructor": {}}') },
    });
    expect(odd.columns).toEqual(['__proto__', 'constructor']);
    expect(odd.read(said('{"__proto__": 1}')).values).toEqual([1, null]);
    expect(odd.read(said('{}')).values).toEqual([null, null]);
  });

  it('refuses values that are too deep to be written again', () => {
    const any = answerReader({ kind: 'json', schema: {} });
    const nested = (depth: number): string => `${'{"a":['.repeat(depth)}1${']}'.repeat(depth)}`;
    expect(any.read(said(nested(90))).problem).toBeNull();
    expect(any.read(said(nested(110))).problem?.code).toBe('answer_not_json');
    expect(any.read(said(nested(50_000))).problem?.code).toBe('answer_not_json');
  });

  it('is one column for a schema without properties', () => {
    const list = answerReader({ kind: 'json', schema: { type: 'array', items: { type: 'string' } } });
    expect([list.columns, list.shape]).toEqual([['answer'], 'value']);
    expect(list.read(said('Tags [x]: ["a", "b"]')).values).toEqual([['a', 'b']]);
    expect(list.read(said('{}')).values).toEqual([null]);
    const word = answerReader({ kind: 'json', schema: { enum: ['a', 'b'] } });
    expect(word.read(said(' "a" '))).toMatchObject({ values: ['a'], properties: [['answer', 'a']] });
    expect(list.named?.([])).toEqual([]);
  });

  it('understands draft 2020-12, and refuses what is no schema', () => {
    const tuple = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'array',
      prefixItems: [{ type: 'string' }],
    };
    expect(answerReader({ kind: 'json', schema: tuple }).read(said('[1]')).counted).toEqual(['invalid']);
    for (const bad of [{ type: 'strin' }, { $ref: 'https://example.net/x' }, { $async: true }]) {
      expect(() => answerReader({ kind: 'json', schema: bad })).toThrow(UsageError);
    }
  });
});
