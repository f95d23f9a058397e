import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { answer } from '../../src/emulator/answers/answer.js';
import { isBlocked, judge } from '../../src/emulator/filter.js';
import { randomFrom } from '../../src/emulator/random.js';

const answerTo = (prompt: string) => answer(prompt, randomFrom(1, prompt));

function sentimentPrompt(review: string): string {
  return `Classify the sentiment of the review as positive, negative or neutral.\nReview: ${review}\nSentiment:`;
}

describe('sentiment', () => {
  it.each([
    ['I love it, perfect fit and great quality!', ' positive'],
    ['Terrible. It broke after one day and I want a refund.', ' negative'],
    ['I did not like it and would not recommend it.', ' negative'],
    ["It isn't bad, and I was not disappointed.", ' positive'],
    ['It is a blue shirt with two pockets.', ' neutral'],
    ['The color is pretty, but it was itchy and shapeless.', ' negative'],
    ['Leider kaputt angekommen, ich bin sehr enttäuscht.', ' negative'],
    ['Das Kleid ist wunderschön und sehr bequem, ich bin zufrieden.', ' positive'],
    ['Je suis très déçu, la qualité est mauvaise.', ' negative'],
    ["C'est parfait, je suis ravie de mon achat.", ' positive'],
    ['El producto llegó roto y es de mala calidad, una decepción.', ' negative'],
    ['Me encanta, es muy cómodo y bonito.', ' positive'],
    ['Il vestito non è bello, sono molto deluso.', ' negative'],
    ['Adorei, é perfeito e muito confortável.', ' positive'],
    ['Heel slecht, het is na een dag kapot.', ' negative'],
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
    [
      'Bewerte die Stimmung als positiv, negativ oder neutral.\nText: Ich bin sehr zufrieden, super!\nStimmung:',
      ' positiv',
    ],
    ['Rate the review from 1 to 5 stars.\nReview: Awful, broken, useless.\nStars:', ' 1'],
    [
      'Does the customer recommend it? Answer yes or no.\nReview: I would recommend this, great!\nAnswer:',
      ' yes',
    ],
    ['What is the sentiment of the text below?\nText: It broke, terrible.\nSentiment:', ' Negative'],
    ['Text: I love it.\n\nClassify the text above as positive, negative or neutral.', '\n\npositive'],
    ['Text: I love it.\n\nAnswer with one of positive, negative, neutral\n', 'positive'],
  ])('is given in the words the prompt offers: %j', (prompt, label) => {
    expect(answerTo(prompt)).toBe(label);
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
  const ask = (message: string) =>
    `Classify the message into one of these categories: billing, technical support, shipping, other.\n\nMessage: ${message}\nCategory:`;

  it.each([
    ['My card was charged twice for one invoice.', ' billing'],
    ['The app shows an error after I log in.', ' technical support'],
    ['My parcel has not arrived, the tracking page is empty.', ' shipping'],
    ['Greetings to the whole team!', ' other'],
  ])('of %j is %j', (message, label) => {
    expect(answerTo(ask(message))).toBe(label);
  });

  it.each([
    'size - dimensions and weight\nservice - staff, refunds',
    'size: dimensions and weight\nservice: staff, refunds',
    '1. size (dimensions, weight)\n2. service (staff, refunds)',
  ])('takes labels and what they mean from lines like %j', (lines) => {
    const about = (review: string) =>
      answerTo(`What is the review about? Choose one:\n${lines}\n\nProduct: Lamp\nReview: ${review}\nTopic:`);
    expect(about('Two inches too short.')).toBe(' size');
    expect(about('The staff was polite.')).toBe(' service');
  });

  it('tells a label from its negation', () => {
    const spam = (text: string) => `Classify this email as spam or not spam.\nEmail: ${text}\nLabel:`;
    expect(answerTo(spam('You are a winner! Click here to claim your prize!!!'))).toBe(' spam');
    expect(answerTo(spam('The meeting moves to Tuesday.'))).toBe(' not spam');
  });
});

describe('JSON', () => {
  const MESSAGE =
    'Hi, my name is Anna Keller. My order #A-10233 from 12 March 2024 has not arrived. Write to ' +
    'anna.keller@example.org or call +49 30 1234567. I paid $1,299.50 for the red dress. Please help ASAP.';
  const json = (prompt: string) => JSON.parse(answerTo(prompt));

  it('has the fields that the prompt names in words', () => {
    const fields = 'name, email, phone number, order number, date and amount';
    expect(json(`Extract the ${fields} from the message as JSON.\n\nMessage: ${MESSAGE}\nJSON:`)).toEqual({
      name: 'Anna Keller',
      email: 'anna.keller@example.org',
      phone_number: '+49 30 1234567',
      order_number: 'A-10233',
      date: '12 March 2024',
      amount: '$1,299.50',
    });
  });

  it('has the fields of bullets', () => {
    const prompt = `Return JSON with:\n- product: what was bought\n- urgency (high, medium or low)\n- language\n\nText: ${MESSAGE}\nJSON:`;
    expect(json(prompt)).toEqual({ product: 'red dress', urgency: 'high', language: 'English' });
  });

  it('has the shape of a JSON Schema', () => {
    const schema = {
      type: 'object',
      properties: {
        amount: { type: 'number' },
        currency: { type: 'string' },
        sentiment: { type: 'string', enum: ['happy', 'unhappy'] },
        customer: {
          type: 'object',
          properties: { email: { type: 'string' }, age: { type: ['integer', 'null'] } },
        },
        keywords: { type: 'array' },
        would_recommend: { type: 'boolean' },
      },
    };
    const value = json(
      `Answer with JSON of this schema: ${JSON.stringify(schema)}\n\nText: ${MESSAGE}\nJSON:`,
    );
    expect(value).toMatchObject({
      amount: 1299.5,
      currency: 'USD',
      customer: { email: 'anna.keller@example.org', age: null },
      keywords: expect.any(Array),
      would_recommend: expect.any(Boolean),
    });
    expect(['happy', 'unhappy']).toContain(value.sentiment);
  });

  it('has the members of an example, also of one that is no JSON', () => {
    expect(json(`Reply as {"name": "...", "order_number": "..."}.\nText: ${MESSAGE}\nJSON:`)).toEqual({
      name: 'Anna Keller',
      order_number: 'A-10233',
    });
    expect(
      json('Reply in JSON: {"rating": 1-5, "tone": positive | negative}\nReview: I love it, perfect!\nJSON:'),
    ).toEqual({ rating: 5, tone: 'positive' });
  });

  const keys = (lines: string, details: string, message: string) =>
    json(`Extract as JSON with these keys:\n${lines}\n\n${details}\nMessage:\n${message}\n\nJSON:`);

  it.each([
    ['I paid £1,249.50 on 3 March.', 1249.5, 'GBP', '2026-03-03'],
    ['Gekauft am 27.02. für 1.249,00 €.', 1249, 'EUR', '2026-02-27'],
    ['Total 2 149 kr, ordered Dec 28', 2149, 'SEK', '2025-12-28'],
    ['Acheté le 4 février 2025 : 45 euros. A bientôt le 20 mars !', 45, 'EUR', '2025-02-04'],
    ['Please send it by 20 March.', null, null, null],
  ])(
    'has a number, a code and an ISO date where the prompt wants these: %j',
    (text, amount, currency, date) => {
      const lines =
        '- "amount": as a number\n- "currency": ISO 4217 code\n- "date": when it was ordered or paid, as YYYY-MM-DD';
      expect(keys(lines, 'Received: 2026-03-09T08:15:00Z', text)).toEqual({ amount, currency, date });
    },
  );

  it('has one of the values that the prompt allows, and what looks like its example', () => {
    const lines =
      'order: for example "AB-1234"\ncategory: one of delivery, billing, other\nurgency: one of low, normal, high';
    expect(
      keys(lines, 'Ticket: 7', 'In 2026 I was charged twice for AB-9876, call 01632 960118 at once!!'),
    ).toEqual({ order: 'AB-9876', category: 'billing', urgency: 'high' });
  });

  it.each([
    ['Mr Okonkwo called about a kettle.', 'Okonkwo'],
    ['It leaks.\n\nKind regards,\nIngrid van der Meulen\nTel. 030 23125 417', 'Ingrid van der Meulen'],
    ['The lid broke. M. Featherstonehaugh', 'M. Featherstonehaugh'],
    ['all good thanks! W-104831', null],
  ])('has the name of who writes %j', (text, name) => {
    expect(keys('- name\n- email', 'Channel: mail', text)).toEqual({ name, email: null });
  });

  it('has what a line before the text says already', () => {
    expect(keys('- customer_name\n- email', 'Known customer: Ada Byrne', 'It broke.')).toEqual({
      customer_name: 'Ada Byrne',
      email: null,
    });
  });

  it('has null for what the text does not say', () => {
    expect(json('Extract the name, email and amount as JSON.\nText: it rained all day\nJSON:')).toEqual({
      name: null,
      email: null,
      amount: null,
    });
  });

  it('goes on where the prompt began the object', () => {
    const text = answerTo(`Extract name and email as JSON.\nText: ${MESSAGE}\nJSON: {`);
    expect(JSON.parse(`{${text}`)).toEqual({ name: 'Anna Keller', email: 'anna.keller@example.org' });
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
