import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import { said } from './said.js';

const TOPICS: AnswerSpec = {
  kind: 'labels',
  labels: ['price', 'delivery', 'quality', 'support'],
  synonyms: [['cost'], [], ['quality of work'], []],
  multiple: true,
};

describe('several labels of a row', () => {
  const read = (text: string | null) => answerReader(TOPICS).read(said(text));

  test.each([
    ['price', 'price'],
    ['price, delivery', 'price delivery'],
    ['Delivery; PRICE', 'price delivery'],
    ['support/cost', 'price support'],
    ['price;delivery', 'price delivery'],
    ['price and delivery.', 'price delivery'],
    ['Topics: price, cost, quality of work', 'price quality'],
    ['["price", "quality"]', 'price quality'],
    ['```json\n{"topics": ["price", "quality"]}\n```', 'price quality'],
    ['- price\n- **quality**', 'price quality'],
    ['1. price\n2. quality', 'price quality'],
    // Words follow the points.
    ['- price: it is high\n- quality: poor seams', 'price quality'],
    ['- price\n  It is high.\n- quality', 'price quality'],
    ['1. Price - too high\n2. Quality - poor', 'price quality'],
    // Words and not a list.
    ['It is about the price, and also about delivery.', 'price delivery'],
    ['price und delivery', 'price delivery'],
    ['The quality was fine (3 days of delivery)', 'delivery quality'],
    // Negations and values.
    ['price, but not delivery', 'price'],
    ["price; it isn't about delivery", 'price'],
    ['price: yes\ndelivery: no\nquality: yes\nsupport: no', 'price quality'],
    ['{"price": true, "delivery": false, "quality": 1, "support": 0}', 'price quality'],
    ['delivery: 3 days, price: high', 'price delivery'],
    // The model goes on with the next example.
    ['price, delivery\n\nText: A nice chat.\nTopics: support', 'price delivery'],
    ['Topics: price\nText: The quality is poor', 'price'],
  ])('of %j are read in the order of the job', (text, labels) => {
    const named = labels.split(' ');
    expect(read(text)).toEqual({ values: [named], counted: named, problem: null });
  });

  test.each([
    ['none'],
    ['None.'],
    ['Topics: none'],
    ['None of the labels applies: it is about cats'],
    ['[]'],
    ['```json\n{"topics": []}\n```'],
    ['["none"]'],
    ['price: no, delivery: no, quality: no, support: no'],
  ])('are none where the text says it: %j', (text) => {
    expect(read(text)).toEqual({ values: [[]], counted: ['none'], problem: null });
  });

  test.each([
    ['', 'is none of the labels'],
    [null, 'is none of the labels'],
    ['cats', 'is none of the labels'],
    ['not price', 'is none of the labels'],
    ['neither price nor delivery', 'is none of the labels'],
    ['price: no, delivery: no', 'is none of the labels'],
    ['nonesuch', 'is none of the labels'],
    ['none of price, delivery', 'says none, and names labels'],
    ['price: 0.9, delivery: 0.2', 'does not say clearly'],
    ['price (90%), delivery (20%)', 'does not say clearly'],
    ['price - 4\ndelivery - 1', 'does not say clearly'],
    ['price: not mentioned\ndelivery: yes', 'does not say clearly'],
    ['Price. There is nothing about delivery in it.', 'names further labels behind its list'],
    ['price because the delivery was expensive', 'names further labels behind its list'],
  ])('cannot be told in %j', (text, why) => {
    const answer = read(text);
    expect(answer).toMatchObject({ values: [null], counted: ['(invalid)'] });
    expect(answer.problem?.code).toBe('answer_not_a_label');
    expect(answer.problem?.message).toContain(why);
  });

  it('have no empty list where "none" is a label', () => {
    const some = answerReader({ ...TOPICS, labels: ['price', 'none'], synonyms: [] });
    expect(some.read(said('None.')).values).toEqual([['none']]);
    expect(some.read(said('[]')).values).toEqual([null]);
    expect(some.read(said('price: no, none: no')).values).toEqual([null]);
  });

  it('are the same whatever the order, the marks between them and the case', () => {
    const labels = TOPICS.labels;
    const some = fc.shuffledSubarray([...labels], { minLength: 1 });
    const mark = fc.constantFrom(', ', ';', ' and ', '\n- ', '" , "', ' / ', '\n\n');
    fc.assert(
      fc.property(some, mark, fc.boolean(), (named, between, upper) => {
        const list = named.join(between);
        const expected = labels.filter((label) => named.includes(label));
        expect(read(upper ? list.toUpperCase() : list).values).toEqual([expected]);
      }),
    );
  });

  it('are labels of the job in its order, whatever the text', () => {
    const piece = fc.constantFrom(
      'price',
      'cost',
      'delivery',
      'not',
      'none',
      ': no',
      ': 0.3',
      '[]',
      '\n',
      ' ',
      ', ',
      '- ',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 12 }), (pieces) => {
        const { values, counted, problem } = read(pieces.join(''));
        const [named] = values;
        if (problem !== null) {
          expect([named, counted]).toEqual([null, ['(invalid)']]);
          return;
        }
        expect(counted.length).toBeGreaterThan(0);
        expect(named).toEqual(TOPICS.labels.filter((label) => counted.includes(label)));
      }),
    );
  });
});
