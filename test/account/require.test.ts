import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AnswerCounts, missOf, missText, unusableText } from '../../src/account/require.js';

/** Rows of which so many are completed, and so many of these have an invalid answer. */
function counts(completed: number, invalid: number, failed = 0): AnswerCounts {
  const rows = { total: completed + failed + 3, completed, filtered: 2, failed, skipped: 1 };
  return invalid === 0 ? { rows } : { rows, invalid: { answer_not_a_label: invalid } };
}

describe('what answers miss of what is asked', () => {
  it('is told by how much, with the codes, the most frequent first, and with what to do', () => {
    const { rows } = counts(1000, 0);
    const invalid = { answer_not_json: 8, answer_invalid: 60 };
    expect(missOf({ rows, invalid }, { valid: 0.98 })).toEqual({
      code: 'below_require',
      message:
        '93.2 % of 1,000 answers are valid, where answer.require.valid asks for 98 % (60 answer_invalid, 8 answer_not_json). ' +
        'See error_message in the output; correct the prompt, and run again with --overwrite, or ask for less in answer.require.',
    });
    expect(missText(counts(1, 1), { valid: 1 })).toBe(
      '0.0 % of 1 answer is valid, where answer.require.valid asks for 100 % (1 answer_not_a_label)',
    );
  });

  it('is nothing where it is just reached, where nothing is asked, and where no row is completed', () => {
    expect(missText(counts(1000, 20), { valid: 0.98 })).toBeNull();
    expect(missText(counts(1000, 21), { valid: 0.98 })).not.toBeNull();
    expect(missText(counts(10, 10), { valid: 0 })).toBeNull();
    expect(missText(counts(10, 10), null)).toBeNull();
    expect(missText(counts(0, 0, 5), { valid: 1 })).toBeNull();
  });

  it('counts completed rows only, and never shows a share that looks reached', () => {
    const asked = fc.integer({ min: 1, max: 1000 }).map((thousandths) => thousandths / 1000);
    const rows = fc.tuple(fc.integer({ min: 1, max: 1e6 }), fc.nat(1e6), fc.nat(9));
    fc.assert(
      fc.property(rows, asked, ([completed, bad, failed], valid) => {
        const invalid = Math.min(bad, completed);
        const text = missText(counts(completed, invalid, failed), { valid });
        expect(text === null).toBe((completed - invalid) / completed >= valid);
        if (text !== null) expect(Number.parseFloat(text)).toBeLessThan(Math.round(valid * 1000) / 10);
      }),
      { seed: 13 },
    );
  });
});

describe('what is asked of the scores', () => {
  /** Rows with gold, so many of them right, with one label for those that are and another for the others. */
  const scored = (rows: number, right: number): AnswerCounts => ({
    ...counts(1000, 0),
    gold: {
      ...{ rows, right, unanswered: 3 },
      confusion: { labels: ['a', 'b'], counts: { '0,0': right, '1,0': rows - right } },
    },
  });

  it('is told with what was reached, and with where the scores are', () => {
    expect(missOf(scored(512, 448), { valid: 0.5, accuracy: 0.9, f1: 0.85 })).toEqual({
      code: 'below_require',
      message:
        'the accuracy of 512 rows with gold is 87.5 %, where answer.require.accuracy asks for 90 %; ' +
        'the macro F1 of 512 rows with gold is 46.6 %, where answer.require.f1 asks for 85 %. ' +
        'See answer and error_message in the output, and scores in the summary; correct the prompt, and run again with --overwrite, or ask for less in answer.require.',
    });
  });

  it('stands behind what is said of invalid answers', () => {
    const both = { ...scored(10, 5), invalid: { answer_not_a_label: 100 } };
    expect(missText(both, { valid: 0.95, accuracy: 0.9 })).toBe(
      '90.0 % of 1,000 answers are valid, where answer.require.valid asks for 95 % (100 answer_not_a_label); ' +
        'the accuracy of 10 rows with gold is 50.0 %, where answer.require.accuracy asks for 90 %',
    );
  });

  it('is nothing where it is just reached or not asked', () => {
    expect(missOf(scored(10, 9), { valid: 0.5, accuracy: 0.9 })).toBeNull();
    expect(missOf(scored(10, 9), { valid: 0.5 })).toBeNull();
    expect(missOf(counts(10, 0), { valid: 0.5, accuracy: 0, f1: 0 })).toBeNull();
  });

  it('is missed at the end where no row has gold, or too many labels came; before, nothing is to be judged', () => {
    const asked = { valid: 0.5, accuracy: 0.9, f1: 0.8 };
    expect(missText(counts(10, 0), asked)).toBeNull();
    expect(missOf(counts(10, 0), asked)?.message).toMatch(
      /^the accuracy cannot be told \(no completed row has gold\), and answer\.require asks for it; the macro F1 cannot/,
    );
    const many: AnswerCounts = {
      ...counts(10, 0),
      gold: { rows: 9, right: 9, unanswered: 0, confusion: null },
    };
    expect(missOf(many, asked)?.message).toMatch(
      /^the macro F1 cannot be told \(more than 100 different labels came: only the accuracy is counted\)/,
    );
    expect(missOf({ ...counts(0, 0, 5) }, asked)).toBeNull();
  });
});

it('a run in which the model was sure of nothing has no answer, whatever is asked', () => {
  const rows = { total: 8, completed: 8, filtered: 0, failed: 0, skipped: 0 };
  const unsure: AnswerCounts = { rows, abstained: 7, invalid: { answer_not_a_label: 1 } };
  expect(missOf(unsure, { valid: 0 })?.message).toMatch(
    /^none of 8 completed rows has an answer: 7 abstained/,
  );
  expect(missOf({ rows, abstained: 7 }, { valid: 1 })).toBeNull();
  expect(unusableText(unsure)).toBe('none of 8 completed rows has an answer: 7 abstained');
});

it('rows with an answer are told apart from those with a valid one, which may have abstained', () => {
  const rows = { total: 1000, completed: 1000, filtered: 0, failed: 0, skipped: 0 };
  const unsure: AnswerCounts = { rows, abstained: 300, invalid: { answer_not_a_label: 100 } };
  expect(missText(unsure, { valid: 0.9 })).toBeNull();
  expect(missText(unsure, { valid: 0.9, answered: 0.6 })).toBeNull();
  expect(missText(unsure, { valid: 0.9, answered: 0.601 })).toBe(
    '60.0 % of 1,000 completed rows have an answer, where answer.require.answered asks for 60.1 % ' +
      '(300 abstained, 100 answer_not_a_label)',
  );
  expect(missText({ rows: { ...rows, completed: 0 } }, { valid: 0, answered: 1 })).toBeNull();
});

it('an F1 that has no label to be of is not missed where the answers are right', () => {
  const gold = {
    rows: 4,
    right: 4,
    unanswered: 0,
    confusion: { labels: [], counts: {}, several: true as const },
  };
  expect(missOf({ ...counts(4, 0), gold }, { valid: 0.5, f1: 0.8 })).toBeNull();
});

it('rows that are of no use are told by kind', () => {
  expect(unusableText(counts(7, 0, 3))).toBe('3 of 13 rows failed');
  expect(unusableText(counts(7, 7))).toBe('7 of 10 rows have an invalid answer (7 answer_not_a_label)');
  expect(unusableText(counts(7, 1, 3))).toBe(
    '3 of 13 rows failed and 1 has an invalid answer (1 answer_not_a_label)',
  );
});
