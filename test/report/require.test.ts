import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Judged, missOf, missText, unusableText } from '../../src/report/require.js';

/** Rows of which so many are completed, and so many of these have an invalid answer. */
function judged(completed: number, invalid: number, failed = 0): Judged {
  const rows = { total: completed + failed + 3, completed, filtered: 2, failed, skipped: 1 };
  return invalid === 0 ? { rows } : { rows, invalid: { answer_not_a_label: invalid } };
}

describe('what answers miss of what is asked', () => {
  it('is told by how much, with the codes, the most frequent first, and with what to do', () => {
    const { rows } = judged(1000, 0);
    const invalid = { answer_not_json: 8, answer_invalid: 60 };
    expect(missOf({ rows, invalid }, { valid: 0.98 })).toEqual({
      code: 'below_require',
      message:
        '93.2 % of 1,000 answers are valid, where answer.require.valid asks for 98 % (60 answer_invalid, 8 answer_not_json). ' +
        'See error_message in the output, mend the prompt, and run again with --overwrite, or ask for less in answer.require.',
    });
    expect(missText(judged(1, 1), { valid: 1 })).toBe(
      '0.0 % of 1 answer is valid, where answer.require.valid asks for 100 % (1 answer_not_a_label)',
    );
  });

  it('is nothing where it is just reached, where nothing is asked, and where no row is completed', () => {
    expect(missText(judged(1000, 20), { valid: 0.98 })).toBeNull();
    expect(missText(judged(1000, 21), { valid: 0.98 })).not.toBeNull();
    expect(missText(judged(10, 10), { valid: 0 })).toBeNull();
    expect(missText(judged(10, 10), null)).toBeNull();
    expect(missText(judged(0, 0, 5), { valid: 1 })).toBeNull();
  });

  it('counts completed rows only, and never shows a share that looks reached', () => {
    const asked = fc.integer({ min: 1, max: 1000 }).map((thousandths) => thousandths / 1000);
    const rows = fc.tuple(fc.integer({ min: 1, max: 1e6 }), fc.nat(1e6), fc.nat(9));
    fc.assert(
      fc.property(rows, asked, ([completed, bad, failed], valid) => {
        const invalid = Math.min(bad, completed);
        const text = missText(judged(completed, invalid, failed), { valid });
        expect(text === null).toBe((completed - invalid) / completed >= valid);
        if (text !== null) expect(Number.parseFloat(text)).toBeLessThan(Math.round(valid * 1000) / 10);
      }),
      { seed: 13 },
    );
  });
});

it('rows that are of no use are told by kind', () => {
  expect(unusableText(judged(7, 0, 3))).toBe('3 of 13 rows failed');
  expect(unusableText(judged(7, 7))).toBe('7 of 10 rows have an invalid answer (7 answer_not_a_label)');
  expect(unusableText(judged(7, 1, 3))).toBe(
    '3 of 13 rows failed and 1 has an invalid answer (1 answer_not_a_label)',
  );
});
