import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import { answer } from '../../src/emulator/answers/answer.js';
import { isBlocked, judge } from '../../src/emulator/filter.js';
import { randomFrom } from '../../src/emulator/random.js';
import { said } from '../answer/said.js';

const answerTo = (prompt: string) => answer(prompt, randomFrom(1, prompt), 0);

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
    ['Tweet: nice\nMood: happy\n\nTweet: awful\nMood: unhappy\n\nTweet: I love this\nMood:', ' happy'],
    [
      'Classify as very negative, negative, neutral, positive or very positive.\nText: The worst, awful, useless junk!\nLabel:',
      ' very negative',
    ],
    ['Bewerte die Stimmung als positiv oder negativ.\nText: I love it\nStimmung:', ' positiv'],
    ['Rate the review from 1 to 5 stars.\nReview: Awful, broken, useless.\nStars:', ' 1'],
    ['What is the sentiment of the text below?\nText: It broke, terrible.\nSentiment:', ' Negative'],
    ['Text: I love it.\n\nClassify the text above as positive, negative or neutral.', '\n\npositive'],
    ['Text: I love it.\n\nAnswer with one of positive, negative, neutral\n', 'positive'],
  ])('is given in the words the prompt offers: %j', (prompt, label) => {
    expect(answerTo(prompt)).toBe(label);
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
  it.each([
    'Classify the message into one of these categories: billing, technical support, shipping, other.',
    'Is the message about billing, technical support, shipping or other?',
    'Pick a category:\n- billing\n- technical support\n- shipping\n- other',
    'Classify the message as billing (invoices), technical support (errors), shipping (parcels) or other.',
  ])('takes a label that the text has a word of, and any other label otherwise: %j', (instruction) => {
    const ask = (message: string) => answerTo(`${instruction}\n\nMessage: ${message}\nCategory:`);
    expect(ask('Your billing is wrong.')).toBe(' billing');
    expect(ask('Shipping took three weeks.')).toBe(' shipping');
    const others = Array.from({ length: 80 }, (_, i) => ask(`Guten Tag ${i}`));
    expect(new Set(others)).toEqual(new Set([' billing', ' technical support', ' shipping', ' other']));
  });

  it.each([
    'size - dimensions and weight\nservice - staff, refunds',
    'size: dimensions and weight\nservice: staff, refunds',
    '1. size (dimensions, weight)\n2. service (staff, refunds)',
  ])('takes labels and what they mean from lines like %j', (lines) => {
    const about = (review: string) =>
      answerTo(`What is the review about? Choose one:\n${lines}\n\nProduct: Lamp\nReview: ${review}\nTopic:`);
    expect(about('The weight of it!')).toBe(' size');
    expect(about('The staff was polite.')).toBe(' service');
  });

  it('tells a label from its negation', () => {
    const labels = Array.from({ length: 40 }, (_, i) =>
      answerTo(`Classify this email as spam or not spam.\nEmail: The meeting moves to ${i}.\nLabel:`),
    );
    expect(new Set(labels)).toEqual(new Set([' spam', ' not spam']));
  });
});

describe('JSON', () => {
  const MESSAGE =
    'Hi, my name is Anna Keller. My order A-10233 from 2024-03-12 has not arrived. Write to ' +
    'anna.keller@example.org. I paid too much for the red dress. Please help.';
  const json = (prompt: string) => JSON.parse(answerTo(prompt));

  const PLAIN = 'order_number, email and amount';
  /** The same five keys, and what the last two may be, in the layouts in which people write them. */
  const LAYOUTS: readonly string[] = [
    'with the keys order_number, email, amount, category (one of delivery, return, other) and is_urgent.',
    'with keys "order_number", "email", "amount" (a number), "category" (delivery, return or other) and "is_urgent" (true or false).',
    'Keys: order_number, email, amount, category, is_urgent. Category is one of delivery, return, other.',
    'Its keys, in this order: `order_number`, `email`, `amount`, `category`, `is_urgent`. Category must be delivery, return or other.',
    'with the keys order_number, email,\namount, category and is_urgent.\nCategories:\n- delivery\n- return\n- other',
    'Its keys:\n- "order_number": as written\n- "email": the address\n- "amount": as a number\n- "category": one of delivery, return, other\n- "is_urgent": boolean',
    'with:\n\n* order_number - as written\n* email\n* amount (number)\n* category (delivery, return or other)\n* is_urgent',
    'with these keys:\norder_number: as written\nemail: the address\namount: a number\ncategory: one of delivery, return, other\nis_urgent: true or false',
    'like {"order_number": "…", "email": "…", "amount": 12.5, "category": "delivery|return|other", "is_urgent": true}',
    'like this:\n```json\n{\n  "order_number": "W-1",\n  "email": "a@example.org",\n  "amount": 12.5,\n  "category": "delivery|return|other",\n  "is_urgent": false\n}\n```',
    'like {order_number: string, email: string, amount: number, category: "delivery" | "return" | "other", is_urgent: boolean}',
    'of the form {order_number, email, amount, category, is_urgent}, where category is one of delivery, return, other.',
    'of this type:\n{\n  order_number: string; // as written\n  email?: string;\n  amount: number,\n  category: "delivery" | "return" | "other";\n  is_urgent: boolean\n}',
  ];

  it.each(LAYOUTS)('is valid wherever the keys stand: %j', (layout) => {
    const reader = answerReader({
      kind: 'json',
      schema: {
        type: 'object',
        required: ['order_number', 'email', 'amount', 'category', 'is_urgent'],
        additionalProperties: false,
        properties: {
          order_number: { type: 'string' },
          email: { type: 'string' },
          amount: { type: 'number' },
          category: { enum: ['delivery', 'return', 'other'] },
          is_urgent: { type: 'boolean' },
        },
      },
    });
    const given = Array.from({ length: 192 }, (_, i) =>
      reader.read(
        said(
          answerTo(
            `Extract the facts of the message. Answer with JSON ${layout}\n\nMessage: Order ${i}\n\nJSON:`,
          ),
        ),
      ),
    );
    expect(new Set(given.map(({ fault }) => fault?.message ?? 'valid'))).toEqual(new Set(['valid']));
    expect(new Set(given.map(({ values }) => values[3]))).toEqual(new Set(['delivery', 'return', 'other']));
  });

  it.each([
    `Extract ${PLAIN} as JSON.`,
    `Extract ${PLAIN} from the message as a JSON object.`,
    `Reply with a JSON object that has ${PLAIN}.`,
    `Return JSON: ${PLAIN}.`,
    'Extract the order number, email and amount as JSON.',
    `Format (JSON): ${PLAIN}`,
    'Antworte als JSON mit den Feldern order_number, email und amount.',
  ])('has the keys that stand in prose, with what the text says: %j', (instruction) => {
    const value = json(`${instruction}\n\nMessage: ${MESSAGE}\nJSON:`);
    expect(value).toEqual({
      order_number: 'A-10233',
      email: 'anna.keller@example.org',
      amount: expect.any(Number),
    });
  });

  it('has one key that stands alone', () => {
    expect(json(`Answer with JSON that has one key "sentiment".\nText: I love it\nJSON:`)).toEqual({
      sentiment: 'positive',
    });
  });

  it('has the shape of a JSON Schema', () => {
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
    const { $defs: _, ...root } = schema;
    const reader = answerReader({
      kind: 'json',
      schema: { ...root, required: Object.keys(root.properties), $defs: schema.$defs },
    });
    for (let i = 0; i < 40; i++) {
      const prompt = `Answer with JSON of this schema: ${JSON.stringify(schema)}\n\nText: ${MESSAGE} ${i}\nJSON:`;
      expect(reader.read(said(answerTo(prompt))).fault).toBeNull();
      expect(json(prompt)).toMatchObject({
        customer: { email: 'anna.keller@example.org' },
        lines: [{ sku: expect.any(String), count: expect.any(Number) }],
        day: '2024-03-12',
      });
    }
  });

  it('has the members of members, and of the answers of examples', () => {
    expect(
      json(
        `Reply as {"customer": {"email": "..."}, "items": [{"sku": "...", "count": 1}], "tags": string[]}.\nText: ${MESSAGE}\nJSON:`,
      ),
    ).toEqual({
      customer: { email: 'anna.keller@example.org' },
      items: [{ sku: expect.any(String), count: expect.any(Number) }],
      tags: [expect.any(String)],
    });
    expect(json('In: x\nOut: {"label": "good|bad", "score": 0.5}\n\nIn: I love it\nOut:')).toEqual({
      label: 'good',
      score: expect.any(Number),
    });
  });

  it('has the values of examples where nothing tells which others would be valid', () => {
    const few = 'In: a\nOut: {"kind": "spam"}\n\nIn: b\nOut: {"kind": "ham"}\n\n';
    const kinds = Array.from({ length: 20 }, (_, i) => json(`${few}In: mail ${i}\nOut:`).kind);
    expect(new Set(kinds)).toEqual(new Set(['spam', 'ham']));
  });

  it('has lists of strings', () => {
    expect(
      json('Return JSON with:\n- keywords: list of strings\n- topics\n\nText: It rained.\n\nJSON:'),
    ).toEqual({ keywords: [expect.any(String)], topics: [expect.any(String)] });
  });

  it('is a list where the prompt asks for one', () => {
    expect(json(`Return a JSON array of objects with keys sku and count.\nText: ${MESSAGE}\nJSON:`)).toEqual([
      { sku: expect.any(String), count: expect.any(Number) },
    ]);
  });

  it('has a number in the range that the prompt names, by the tone where it is a rating', () => {
    expect(
      json('Reply in JSON: {"rating": 1-5, "tone": positive | negative}\nReview: I love it, perfect!\nJSON:'),
    ).toEqual({ rating: 5, tone: 'positive' });
  });

  it('has null for what the text does not say where the prompt speaks of null, and made-up values otherwise', () => {
    const ask = (more: string) =>
      json(`Extract name and email as JSON. ${more}\nText: it rained all day\nJSON:`);
    expect(ask('Use null for what is missing.')).toEqual({ name: null, email: null });
    expect(ask('')).toEqual({ name: expect.any(String), email: expect.stringContaining('@') });
  });

  it('has what a line before the text says already', () => {
    const prompt =
      'Extract as JSON:\n- customer_name\n- email\n\nKnown customer: Ada Byrne\nMessage:\nIt broke.\n\nJSON:';
    expect(json(prompt)).toMatchObject({ customer_name: 'Ada Byrne' });
  });

  it('goes on where the prompt began the object', () => {
    const text = answerTo(`Extract order_number and email as JSON.\nText: ${MESSAGE}\nJSON: {`);
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
      'Extract the name, email, phone, url, order number, date, product, city, company, amount as JSON.\n\nText: ';
    // Patterns that need the square of their input's length take a minute for this; the test's time limit ends it.
    for (const unit of ['1', ' ', '"', 'a@', 'x-', '{', '\n\n', ': ', 'a, ', 'John Smith ', '```', '<a>']) {
      const long = unit.repeat(200_000 / unit.length);
      for (const prompt of [long, begin + long, `${long}x`]) expect(answerTo(prompt)).not.toBe('');
    }
  });
});
