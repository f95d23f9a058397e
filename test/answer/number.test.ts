import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import type { Answer } from '../../src/core/model.js';
import { said } from './said.js';

const read = (
  text: string | null,
  range: Omit<Extract<AnswerSpec, { kind: 'number' }>, 'kind'> = {},
): Answer => answerReader({ kind: 'number', ...range }).read(said(text));

describe('a number', () => {
  test.each([
    ['4', 4],
    [' 4.\n', 4],
    ['**4.5**', 4.5],
    ['4/5', 4],
    ['4 / 5 stars', 4],
    ['Rating: 4 out of 5', 4],
    ['4 stars out of 5', 4],
    ['**4** of **5**', 4],
    ['5/5', 5],
    ['1 out of 5', 1],
    ['★★★★☆ (4/5)', 4],
    ['Rating (1-5): 4', 4],
    ['On a scale from 1 to 5 I give it 3', 3],
    ['{"rating": 4}', 4],
    ['The rating is 4, clearly 4.0', 4],
    ['评分：4分', 4],
    ['4.5', 4.5],
    ['4,5', 4.5],
    ['No.4', 4],
    ['Rating...4', 4],
    ['The 2nd review of GPT-4, a 5-star one: 3', 3],
    ['1,200', 1.2],
    // The first one decides, as with labels.
    ['4\n\nReview: I bought 3.\nRating: 2', 4],
    ['Rating: 4 - it has 2 flaws', 4],
    ['4 because 2 seams are open', 4],
  ])('from 1 to 5 is read out of %j', (text, value) => {
    expect(read(text, { min: 1, max: 5 })).toEqual({
      values: [value],
      counted: [String(value)],
      problem: null,
    });
  });

  test.each([
    ['1200', 1200],
    ['1,200.50', 1200.5],
    ['1.200,50', 1200.5],
    ["1'200.5", 1200.5],
    ['1\u202f200,5', 1200.5],
    ['1,234,567', 1_234_567],
    ['1.234.567', 1_234_567],
    ['1\u00a0234\u00a0567', 1_234_567],
    ['0.875', 0.875],
    ['0,875', 0.875],
    ['.5', 0.5],
    ['12.3456', 12.3456],
    ['-4', -4],
    ['\u22124', -4],
    ['-.5', -0.5],
    ['-0', 0],
    ['-$4', -4],
    ['Total: $12.30', 12.3],
    ['85 %', 85],
    ['007', 7],
    ['- 4', 4],
  ])('of any size is read out of %j', (text, value) => {
    expect(read(text).values).toEqual([value]);
  });

  test.each([
    ['', 'the empty text has no number'],
    [null, 'the empty text has no number'],
    ['four', 'has no number'],
    ['1-5', 'has no number'],
    ['GPT-4', 'has no number'],
    ['4th', 'has no number'],
    ['4½', 'has no number'],
    ['2.5 million', 'has no number'],
    ['1e3', 'has no number'],
    ['1.2.3', 'has no number'],
    ['12.03.2024', 'has no number'],
    ['4,5,3', 'has no number'],
    ['not 4', 'has no number'],
    ['9'.repeat(31), 'has no number'],
    ['99999999999999999999', 'has no number'],
    ['3 or 4', 'has more than one number: 3, 4'],
    ['3-4', 'has more than one number: 3, 4'],
    ['3–4 (of 2 reviewers)', 'has more than one number: 3, 4, 2'],
    ['4, 5', 'has more than one number: 4, 5'],
    ['4/10', 'has more than one number: 4, 10'],
    ['4/5/2024', 'has more than one number: 4, 2024'],
    ['1. Quality: 4\n2. Price: 3', 'has more than one number: 1, 4, 2, 3'],
    ['1 200', 'has more than one number: 1, 200'],
    ['10:30', 'has more than one number: 10, 30'],
  ])('cannot be read out of %j', (text, why) => {
    const answer = read(text, { min: 1, max: 5 });
    expect(answer).toMatchObject({ values: [null], counted: ['invalid'] });
    expect(answer.problem?.code).toBe('answer_not_a_number');
    expect(answer.problem?.message).toContain(why);
  });

  test.each([
    ['6', { min: 1, max: 5 }, '6, and not a number from 1 to 5'],
    ['0', { min: 1, max: 5 }, '0, and not a number from 1 to 5'],
    ['-4', { min: 1 }, '-4, and not a number of at least 1'],
    ['.5', { min: 1 }, '.5, and not a number of at least 1'],
    ['5.01', { max: 5 }, '5.01, and not a number of at most 5'],
    ['4.5', { min: 1, max: 5, integer: true }, '4.5, and not a whole number from 1 to 5'],
    ['1,200', { max: 1 }, '1,200, and not a number of at most 1'],
  ] as const)('out of its range is no answer: %j with %j', (text, range, why) => {
    const answer = read(text, range);
    expect([answer.values, answer.counted]).toEqual([[null], ['invalid']]);
    expect(answer.problem).toEqual({ code: 'answer_out_of_range', message: `the text "${text}" has ${why}` });
  });

  it('that may have thousands or decimals is told by its range, or not at all', () => {
    for (const text of ['1,200', '1.200']) {
      expect(read(text, { max: 5 }).values).toEqual([1.2]);
      expect(read(text, { min: 10 }).values).toEqual([1200]);
      expect(read(text, { integer: true }).values).toEqual([1200]);
      expect(read(text).problem).toEqual({
        code: 'answer_not_a_number',
        message: `the text "${text}" has a number that may be 1200 or 1.2`,
      });
    }
  });

  it('is itself, however it is written', () => {
    const number = fc.oneof(
      fc.integer({ min: -1e9, max: 1e9 }),
      fc.integer({ min: -1e6, max: 1e6 }).map((cents) => cents / 100),
    );
    const written = fc.constantFrom<(value: number) => string>(
      (value) => String(value),
      (value) => value.toLocaleString('en-US', { minimumFractionDigits: 2 }),
      (value) => value.toLocaleString('de-DE', { minimumFractionDigits: 2 }),
      (value) => value.toLocaleString('de-CH', { minimumFractionDigits: 2 }),
      (value) => value.toLocaleString('fr-FR', { minimumFractionDigits: 2 }),
    );
    const around = fc.constantFrom<(text: string) => string>(
      (text) => text,
      (text) => `The answer is ${text}.`,
      (text) => `**${text}**`,
      (text) => `Rating: "${text}" stars`,
    );
    fc.assert(
      fc.property(number, written, around, (value, write, put) => {
        expect(read(put(write(value))).values).toEqual([value + 0]);
      }),
    );
  });

  it('is in its range and in the text, or there is a reason', () => {
    const piece = fc.constantFrom(
      '1',
      '4',
      '5',
      '10',
      '.',
      ',',
      '-',
      '/',
      ' of ',
      ' to ',
      '\n',
      ' ',
      'x',
      ': ',
      '000',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 12 }), (pieces) => {
        const { values, counted, problem } = read(pieces.join(''), { min: 1, max: 5 });
        const [value] = values;
        if (problem !== null) {
          expect([value, counted]).toEqual([null, ['invalid']]);
          return;
        }
        expect(counted).toEqual([String(value)]);
        expect(Number(value)).toBeGreaterThanOrEqual(1);
        expect(Number(value)).toBeLessThanOrEqual(5);
      }),
    );
  });
});
