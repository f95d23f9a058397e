import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import { randomFrom } from '../../src/core/random.js';
import { answer } from '../../src/emulator/answers/answer.js';
import { readPrompt } from '../../src/emulator/answers/read-prompt.js';
import { isBlocked, judge } from '../../src/emulator/filter.js';
import { said } from '../answer/said.js';

/** Nobody knows what is read from the answers: the prompt itself must say what it asks for. */
const TEXT: AnswerSpec = { kind: 'text' };

const answerTo = (prompt: string, told: AnswerSpec = TEXT) =>
  answer(readPrompt(prompt, told), randomFrom(1, prompt), 0);

const labels = (...names: string[]): AnswerSpec => ({ kind: 'labels', labels: names });

function sentimentPrompt(review: string): string {
  return `Classify the sentiment of the review as positive, negative or neutral.\nReview: ${review}\nSentiment:`;
}

describe('sentiment', () => {
  it.each([
    ['I love it, perfect fit and great quality!', ' positive'],
    ['Terrible. It broke after one day and I want a refund.', ' negative'],
    ['I did not like it and would not recommend it.', ' negative'],
    ["It isn't bad, and I was not disappointed.", ' positive'],
    ['The warm one is great, the other one broke and leaks.', ' neutral'],
    ['The color is pretty, but it was itchy and shapeless.', ' negative'],
  ])('of %j is %j', (review, label) => {
    expect(answerTo(sentimentPrompt(review))).toBe(label);
  });

  it.each([
    ['Is this review Good or Bad?\n\nI hate it.\n\nAnswer:', ' Bad'],
    [
      'Classify as very negative, negative, neutral, positive or very positive.\nText: The worst, awful, useless junk!\nLabel:',
      ' very negative',
    ],
    ['Text: I love it.\n\nClassify the text above as positive, negative or neutral.', '\n\npositive'],
    ['Text: I love it.\n\nAnswer with one of positive, negative, neutral\n', 'positive'],
    ['Is "positive", "negative" or "neutral" right?\nText: I love it\nLabel:', ' positive'],
  ])('is given in the words the prompt offers: %j', (prompt, label) => {
    expect(answerTo(prompt)).toBe(label);
  });

  it.each([
    ['Bewerte die Stimmung.\nText: I love it\nStimmung:', labels('positiv', 'negativ'), ' positiv'],
    ['What is the sentiment?\nText: It broke, terrible.\nMood:', labels('Happy', 'Unhappy'), ' Unhappy'],
    ['Positive, negative or neutral?\nText: I love it\nLabel:', labels('good', 'bad'), ' good'],
    ['Stars?\nReview: Awful, broken.\nStars:', { kind: 'number', min: 1, max: 5, integer: true }, ' 1'],
  ] as const)('is one of those that the job reads, whatever the prompt offers: %j', (prompt, told, label) => {
    expect(answerTo(prompt, told)).toBe(label);
  });

  it('of a text without an English word of opinion is any label, and the same one each time', () => {
    const texts = Array.from({ length: 60 }, (_, i) => `Das ist Satz ${i}.`);
    const labels = texts.map((text) => answerTo(sentimentPrompt(text)));
    expect(texts.map((text) => answerTo(sentimentPrompt(text)))).toEqual(labels);
    for (const label of [' positive', ' negative', ' neutral']) {
      expect(labels.filter((one) => one === label).length).toBeGreaterThan(10);
    }
  });

  it('agrees with shop ratings on three of four reviews or more, and blocks none of them', (context) => {
    const path = join(import.meta.dirname, '../../../shared/data/clothing-reviews.csv');
    if (!existsSync(path)) context.skip('the shop reviews are not on this machine');
    const records: Record<string, string>[] = parse(readFileSync(path), { columns: true });
    const reviews = records.map((record) => ({
      text: record['Review Text'] ?? '',
      rating: Number(record['Rating']),
    }));
    expect(reviews.filter(({ text }) => isBlocked(judge(text)))).toEqual([]);

    const opinions = reviews.filter(({ text, rating }) => text !== '' && rating !== 3);
    const agreement = (some: typeof opinions) =>
      some.filter(
        ({ text, rating }) => answerTo(sentimentPrompt(text)) === (rating > 3 ? ' positive' : ' negative'),
      ).length / some.length;
    expect(agreement(opinions)).toBeGreaterThan(0.8);
    // Most reviews are good ones: the bad ones must not be guessed.
    expect(agreement(opinions.filter(({ rating }) => rating < 3))).toBeGreaterThan(0.55);
  });
});

describe('classification', () => {
  const TOPICS = ['billing', 'technical support', 'shipping', 'other'];
  it.each([
    ['Classify the message into one of these categories: billing, technical support, shipping, other.', TEXT],
    ['Is the message about billing, technical support, shipping or other?', TEXT],
    ['Choose:\nbilling - invoices\ntechnical support - errors\nshipping - parcels\nother - the rest', TEXT],
    ['Pick a category:\n- billing\n- technical support\n- shipping\n- other', labels(...TOPICS)],
    ['What is the message about?', labels(...TOPICS)],
  ])('takes a label that the text has a word of, and any other label otherwise: %j', (instruction, told) => {
    const ask = (message: string) => answerTo(`${instruction}\n\nMessage: ${message}\nCategory:`, told);
    expect(ask('Your billing is wrong.')).toBe(' billing');
    expect(ask('Shipping took three weeks.')).toBe(' shipping');
    const others = Array.from({ length: 80 }, (_, i) => ask(`Guten Tag ${i}`));
    expect(new Set(others)).toEqual(new Set(TOPICS.map((topic) => ` ${topic}`)));
  });

  it.each([
    'size - dimensions and weight\nservice - staff, refunds',
    '- size: dimensions and weight\n- service: staff, refunds',
    '1. size (dimensions, weight)\n2. service (staff, refunds)',
  ])('takes from lines like %j what the labels of the job mean', (lines) => {
    const about = (review: string) =>
      answerTo(
        `What is the review about? Choose one:\n${lines}\n\nProduct: Lamp\nReview: ${review}\nTopic:`,
        labels('size', 'service'),
      );
    expect(about('The weight of it!')).toBe(' size');
    expect(about('The staff was polite.')).toBe(' service');
  });

  it('tells a label from its negation', () => {
    const given = Array.from({ length: 40 }, (_, i) =>
      answerTo(`Classify this email as spam or not spam.\nEmail: The meeting moves to ${i}.\nLabel:`),
    );
    expect(new Set(given)).toEqual(new Set([' spam', ' not spam']));
  });
});

describe('a number', () => {
  it.each([
    { min: 0, max: 100, integer: true },
    { min: 0, max: 1 },
    { min: -20, max: -10 },
    { max: 40 },
    {},
  ] as const)('is one of the range that the job reads: %j', (range) => {
    const told = { kind: 'number', ...range } as const;
    const { read } = answerReader(told);
    const given = Array.from({ length: 50 }, (_, i) => answerTo(`How many?\nText: ${i}\nAnswer:`, told));
    expect(given.flatMap((text) => read(said(text)).problem ?? [])).toEqual([]);
    expect(new Set(given).size).toBeGreaterThan(5);
  });
});

describe('JSON', () => {
  const MESSAGE =
    'Hi, my name is Anna Keller. My order A-10233 from 2024-03-12 has not arrived. Write to ' +
    'anna.keller@example.org. I paid too much for the red dress. Please help.';
  const json = (prompt: string, schema?: Extract<AnswerSpec, { kind: 'json' }>['schema']) =>
    JSON.parse(answerTo(prompt, schema && { kind: 'json', schema }));
  const asked = (properties: object) => ({ type: 'object', properties: { ...properties } });

  it.each([
    'Answer with JSON with the keys order_number, email and amount.',
    'Answer with one JSON object. Its keys: "order_number", "email", "amount".',
    'Return JSON, fields: `order_number`, `email` and `amount`',
    'Answer with JSON:\n- "order_number": as written\n- "email": the address\n- "amount": a number',
  ])('has the keys that a prompt names, with what the text says: %j', (instruction) => {
    expect(json(`${instruction}\n\nMessage: ${MESSAGE}\nJSON:`)).toEqual({
      order_number: 'A-10233',
      email: 'anna.keller@example.org',
      amount: expect.any(Number),
    });
  });

  it('has the shape of the schema that the job reads', () => {
    const schema = {
      type: 'object',
      properties: {
        amount: { type: 'integer', minimum: 10, maximum: 20 },
        sentiment: { type: 'string', enum: ['happy', 'unhappy'] },
        customer: {
          type: 'object',
          properties: { email: { type: 'string' }, age: { anyOf: [{ type: 'integer' }, { type: 'null' }] } },
        },
        keywords: { type: 'array', items: { type: 'string' }, minItems: 2 },
        lines: { type: 'array', items: { $ref: '#/$defs/line' } },
        day: { type: 'string', format: 'date' },
        would_recommend: { type: 'boolean' },
      },
      $defs: {
        line: { type: 'object', properties: { sku: { type: 'string' }, count: { type: 'integer' } } },
      },
    };
    const told = { ...schema, required: Object.keys(schema.properties) };
    const reader = answerReader({ kind: 'json', schema: told });
    for (let i = 0; i < 40; i++) {
      const prompt = `Extract the facts.\n\nText: ${MESSAGE} ${i}\nJSON:`;
      expect(reader.read(said(answerTo(prompt, { kind: 'json', schema: told }))).problem).toBeNull();
      expect(json(prompt, told)).toMatchObject({
        customer: { email: 'anna.keller@example.org' },
        lines: [{ sku: expect.any(String), count: expect.any(Number) }],
        day: '2024-03-12',
      });
    }
  });

  it('is a list where the schema is one', () => {
    const items = asked({ sku: { type: 'string' }, count: { type: 'integer' } });
    expect(json(`List the items.\nText: ${MESSAGE}\nJSON:`, { type: 'array', items })).toEqual([
      { sku: expect.any(String), count: expect.any(Number) },
    ]);
  });

  it('has numbers in their range, by the tone where it is a rating', () => {
    const schema = asked({
      rating: { type: 'number', minimum: 1, maximum: 5 },
      tone: { enum: ['positive', 'negative'] },
    });
    const prompt = 'Rate it.\nReview: I love it, perfect!\nJSON:';
    expect(json(prompt, schema)).toEqual({ rating: 5, tone: 'positive' });
  });

  it('has null for what the text does not say where the schema allows it, and made-up values otherwise', () => {
    const ask = (type: string | string[]) =>
      json(
        'Extract name and email.\nText: it rained all day\nJSON:',
        asked({ name: { type }, email: { type } }),
      );
    expect(ask(['string', 'null'])).toEqual({ name: null, email: null });
    expect(ask('string')).toEqual({ name: expect.any(String), email: expect.stringContaining('@') });
  });

  it('has what a line before the text says already', () => {
    const prompt = 'Extract the facts.\n\nKnown customer: Ada Byrne\nMessage:\nIt broke.\n\nJSON:';
    expect(json(prompt, asked({ customer_name: { type: 'string' } }))).toEqual({
      customer_name: 'Ada Byrne',
    });
  });

  it('goes on where the prompt began the object', () => {
    const text = answerTo(`Answer in JSON with keys order_number and email.\nText: ${MESSAGE}\nJSON: {`);
    expect(JSON.parse(`{${text}`)).toEqual({ order_number: 'A-10233', email: 'anna.keller@example.org' });
  });
});

describe('prose', () => {
  it('summarises with the first sentence', () => {
    const prompt = 'Summarize the text.\n\nText: The board met on Monday. It decided nothing.\n\nSummary:';
    expect(answerTo(prompt)).toBe(' The board met on Monday.');
  });

  it('goes on from any other prompt', () => {
    expect(answerTo('Tell me about bridges.')).toMatch(/^\n\n[A-Z].*\.$/s);
    expect(answerTo('')).not.toBe('');
  });

  it('fault 7: is quick on long runs that patterns could trip over', () => {
    const begin =
      'Answer with JSON with the keys name, email, phone, url, order_id, date and amount.\n\nText: ';
    const listed = 'Classify it as one of: ';
    // Patterns that need the square of their input's length take a minute for this; the test's time limit ends it.
    for (const unit of [
      '1',
      ' ',
      '"',
      'a@',
      'x-',
      '{',
      '\n\n',
      ': ',
      'a, ',
      'John Smith ',
      '```',
      '<a>',
      'a or ',
      '- a: ',
    ]) {
      const long = unit.repeat(200_000 / unit.length);
      for (const prompt of [long, begin + long, listed + long, `${long}x`])
        expect(answerTo(prompt)).not.toBe('');
    }
  });
});
