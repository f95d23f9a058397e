import { describe, expect, it } from 'vitest';
import { goldReader } from '../../src/answer/gold.js';
import { goldMapOf } from '../../src/answer/gold-map.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import type { Json, Row } from '../../src/core/model.js';

const LABELS: AnswerSpec = { kind: 'labels', labels: ['Positive', 'self_harm', 'Café', '5'] };
const OBJECT: AnswerSpec = {
  kind: 'json',
  schema: { type: 'object', properties: { city: { type: 'string' }, amount: { type: 'number' } } },
};

const row = (value: Json | undefined, change: Partial<Row> = {}): Row => ({
  number: 3,
  line: 12,
  fields: new Map(value === undefined ? [] : [['truth', value]]),
  bytes: 1,
  ...change,
});

function goldOf(answer: AnswerSpec, value: Json | undefined, change: Partial<Row> = {}) {
  return goldReader(
    { gold: 'truth', goldMap: null, goldParts: null, answer },
    'rows.csv',
  )?.(row(value, change));
}

function refusal(answer: AnswerSpec, value: Json): string {
  try {
    goldOf(answer, value);
  } catch (error) {
    return String(error);
  }
  return 'taken';
}

describe('a gold label', () => {
  it.each([
    ['Positive', 'Positive'],
    ['  positive ', 'Positive'],
    ['Self harm', 'self_harm'],
    ['SELF-HARM', 'self_harm'],
    ['Cafe\u0301', 'Café'],
    [5, '5'],
  ])('%j is read as %s', (value, label) => {
    expect(goldOf(LABELS, value)).toEqual({ kind: 'label', label });
  });

  it.each([[''], [' \t'], [null], [undefined]])('is not known where the cell is %j', (value) => {
    expect(goldOf(LABELS, value)).toBeNull();
  });

  it('that is none is refused with the line, the value and what was meant', () => {
    expect(refusal(LABELS, 'postive')).toContain(
      'rows.csv, line 12: column "truth" (answer.gold) has the text "postive", which is no label; did you mean "Positive"?',
    );
    expect(refusal(LABELS, 'mostly positive, I think')).toContain(
      'which is none of the labels Positive, self_harm, Café, 5',
    );
  });

  it('of a row that cannot be read is not known', () => {
    const problem = { code: 'ragged_record', message: '' };
    expect(goldOf(LABELS, 'odd', { problem })).toBeNull();
  });

  it('is not looked for in a job without', () => {
    expect(goldReader({ gold: null, goldMap: null, goldParts: null, answer: LABELS }, 'rows.csv')).toBeNull();
  });
});

describe('gold labels with synonyms', () => {
  const spec: AnswerSpec = {
    kind: 'labels',
    labels: ['positive', 'negative'],
    synonyms: [['pos', 'good'], []],
  };

  it('may be written by a synonym', () => {
    expect(goldOf(spec, 'GOOD')).toEqual({ kind: 'label', label: 'positive' });
    expect(refusal(spec, 'goood')).toContain('did you mean "good"?');
  });
});

describe('gold of several labels', () => {
  it('that look like numbers is read as written', () => {
    const versions: AnswerSpec = { kind: 'labels', labels: ['1.1', '1.10', '2.0'], multiple: true };
    expect(goldOf(versions, '1.10')).toEqual({ kind: 'labels', labels: ['1.10'] });
    expect(goldOf(versions, '2.0; 1.1')).toEqual({ kind: 'labels', labels: ['1.1', '2.0'] });
  });

  const spec: AnswerSpec = { kind: 'labels', labels: ['price', 'delivery', 'quality'], multiple: true };

  it.each<[Json, string[]]>([
    ['quality; Price', ['price', 'quality']],
    ['delivery', ['delivery']],
    [
      ['quality', 'price', 'price'],
      ['price', 'quality'],
    ],
    ['["price"]', ['price']],
    ['none', []],
    [[], []],
  ])('%j is read as %j', (value, labels) => {
    expect(goldOf(spec, value)).toEqual({ kind: 'labels', labels });
  });

  it('is refused where one of them is no label', () => {
    expect(refusal(spec, 'price;delivry')).toContain(
      'which names "delivry", which is no label; did you mean "delivery"?',
    );
    expect(refusal(spec, 'price;none')).toContain(
      'names "none", which is none of the labels price, delivery, quality',
    );
  });
});

describe('a gold number', () => {
  const spec: AnswerSpec = { kind: 'number', min: 1, max: 5, integer: true };

  it.each<[Json]>([['4'], [4], [' 4.0 '], ['4/5']])('%j is read as 4', (value) => {
    expect(goldOf(spec, value)).toEqual({ kind: 'label', label: '4' });
  });

  it.each([['6'], ['good'], ['3 or 4'], ['4.5']])('%j is refused', (value) => {
    expect(refusal(spec, value)).toContain(
      `has the text "${value}", which is not a whole number from 1 to 5`,
    );
  });
});

describe('gold for JSON', () => {
  it.each([
    ['in a cell', '{"amount": 1.0, "city": "Rome"}'],
    ['in the row', { amount: 1, city: 'Rome' }],
  ])('may stand %s', (_, value) => {
    expect(goldOf(OBJECT, value)).toEqual({
      kind: 'json',
      values: [
        { name: 'amount', place: 1, right: 1, isNamed: true },
        { name: 'city', place: 0, right: 'Rome', isNamed: false },
      ],
    });
  });

  it('may name some of the properties', () => {
    expect(goldOf(OBJECT, '{"city": null}')).toEqual({
      kind: 'json',
      values: [{ name: 'city', place: 0, right: null, isNamed: false }],
    });
  });

  it.each([
    ['Rome', 'which is no JSON'],
    ['[1]', 'which is no JSON object'],
    ['{"cty": "Rome"}', 'which names "cty", and answer.json has the properties city, amount'],
  ])('%s is refused', (value, why) => {
    expect(refusal(OBJECT, value)).toContain(why);
  });

  it('is any JSON for a schema without properties', () => {
    const answer: AnswerSpec = { kind: 'json', schema: { type: 'array' } };
    expect(goldOf(answer, '[1, 2]')).toEqual({
      kind: 'json',
      values: [{ name: 'answer', place: 0, right: [1, 2], isNamed: false }],
    });
  });
});

describe('a map of gold', () => {
  const map = (of: { readonly [answer: string]: Json }) => ({
    gold: 'truth',
    goldMap: goldMapOf(of),
    goldParts: null,
  });
  const read = goldReader(
    { ...map({ positive: [4, 5], self_harm: 'harm done' }), answer: LABELS },
    'rows.csv',
  );

  it.each([
    [4, 'Positive'],
    ['5', 'Positive'],
    [' 5.0 ', 'Positive'],
    ['Harm Done', 'self_harm'],
  ])('has %j stand for %s', (value, label) => {
    expect(read?.(row(value))).toEqual({ kind: 'label', label });
  });

  it.each([[''], [3], ['positive'], ['4a']])(
    'has no place for %j, whose row has no right answer',
    (value) => {
      expect(read?.(row(value))).toBeNull();
    },
  );

  it('may stand for numbers', () => {
    const answer: AnswerSpec = { kind: 'number', min: 1, max: 5 };
    expect(goldReader({ ...map({ 5: 'great' }), answer }, 'rows.csv')?.(row('GREAT'))).toEqual({
      kind: 'label',
      label: '5',
    });
  });
});

describe('gold in a column for each property', () => {
  const answer: AnswerSpec = {
    kind: 'json',
    schema: {
      type: 'object',
      properties: {
        sentiment: { enum: ['Positive', 'Negative'] },
        stars: { type: 'integer' },
        urgent: { type: ['boolean', 'null'] },
        name: { type: 'string' },
      },
    },
  };
  const read = goldReader(
    {
      gold: 'truth, Rating, u, n',
      goldMap: null,
      goldParts: [
        { property: 'sentiment', column: 'truth', map: null },
        { property: 'stars', column: 'Rating', map: goldMapOf({ 5: 'great', 1: ['bad', 'awful'] }) },
        { property: 'urgent', column: 'u', map: null },
        { property: 'name', column: 'n', map: null },
      ],
      answer,
    },
    'rows.csv',
  );
  const rightOf = (fields: { readonly [column: string]: Json }) => {
    const gold = read?.({ ...row(''), fields: new Map(Object.entries(fields)) });
    if (gold?.kind !== 'json') return gold;
    return Object.fromEntries(gold.values.map(({ name, right }) => [name, right]));
  };

  it('has the type of its property', () => {
    expect(rightOf({ truth: ' positive', Rating: 'Great', u: 'TRUE', n: '12' })).toEqual({
      sentiment: 'Positive',
      stars: 5,
      urgent: true,
      name: '12',
    });
  });

  it('may be known of some properties only, and has no place for what the map does not name', () => {
    expect(rightOf({ truth: '', Rating: 'so-so', u: 'false', n: '' })).toEqual({ urgent: false });
    expect(rightOf({ truth: '', Rating: 'so-so', u: ' ', n: '' })).toBeNull();
  });

  it('is refused where it cannot be a value of its property', () => {
    expect(() => rightOf({ truth: 'neutral', Rating: '', u: '', n: '' })).toThrow(
      'column "truth, Rating, u, n" (answer.gold) has the text "neutral" in "truth", which is no sentiment',
    );
    expect(() => rightOf({ truth: '', Rating: '', u: '1', n: '' })).toThrow('in "u", which is no urgent');
  });
});
