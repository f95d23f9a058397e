import { describe, expect, it } from 'vitest';
import type { AnswerCounts, Require } from '../../src/account/require.js';
import { Canary } from '../../src/run/canary.js';

/** So many rows that are usable, failed, and completed with an invalid answer. */
function written(usable: number, failed = 0, invalid = 0): AnswerCounts {
  const completed = usable + invalid;
  const rows = { total: completed + failed, completed, filtered: 0, failed, skipped: 0 };
  return invalid === 0 ? { rows } : { rows, invalid: { answer_invalid: invalid } };
}
const NOTHING = written(0);

/** What a canary of 20 rows says after these rows: `passed`, or its message. */
async function verdict(rows: AnswerCounts, require: Require | null, before = NOTHING): Promise<string> {
  const canary = new Canary(20, require, before, undefined);
  canary.looked(rows);
  return canary.passed.then(
    () => 'passed',
    (error) => `${error.code}: ${error.message}`,
  );
}

describe('the rows that go ahead', () => {
  it('pass where one of them has a usable answer and nothing is asked', async () => {
    expect(await verdict(written(1, 10, 9), null)).toBe('passed');
  });

  it('stop the run where none has: failed rows and invalid answers alike', async () => {
    expect(await verdict(written(0, 20), null)).toBe(
      'canary_failed: the first rows are not good enough (limits.canary is 20): 20 of 20 rows failed. Nothing else was sent.',
    );
    expect(await verdict(written(0, 2, 18), { valid: 0 })).toContain(
      ': 2 of 20 rows failed and 18 have an invalid answer (18 answer_invalid). Nothing else was sent.',
    );
  });

  it('are judged by answer.require.valid', async () => {
    expect(await verdict(written(15, 0, 5), { valid: 0.75 })).toBe('passed');
    expect(await verdict(written(14, 0, 6), { valid: 0.75 })).toContain(
      ': 70.0 % of 20 answers are valid, where answer.require.valid asks for 75 % (6 answer_invalid). Nothing',
    );
    // Rows that failed have no answer.
    expect(await verdict(written(3, 16, 1), { valid: 0.75 })).toBe('passed');
  });

  it('are not judged before all of them are written', async () => {
    const canary = new Canary(20, { valid: 1 }, NOTHING, undefined);
    canary.looked(written(0, 0, 19));
    canary.looked(written(20));
    await canary.passed;
  });
});

describe('the last row that goes ahead', () => {
  const lastOf = (rows: AnswerCounts, before?: number, require: Require | null = { valid: 0.5 }): number =>
    new Canary(20, require, rows, before).last;

  it('is the first so many of a new run, and none without a limit', () => {
    expect(lastOf(NOTHING)).toBe(20);
    expect(new Canary(0, null, NOTHING, undefined).last).toBe(0);
  });

  it('stays where it was for an execution that was killed before', () => {
    expect(lastOf(written(5), 20)).toBe(20);
    expect(lastOf(written(0, 5), 20)).toBe(20);
  });

  it('is further on after a canary that was not passed, as often as that happens', () => {
    expect(lastOf(written(5, 0, 15), 20)).toBe(40);
    expect(lastOf(written(10, 0, 30), 40)).toBe(60);
    expect(lastOf(written(0, 40), 40)).toBe(60);
  });

  it('is none after one that was passed, also where less is asked now', () => {
    expect(lastOf(written(20), 20)).toBe(0);
    expect(lastOf(written(5, 0, 15), 20, { valid: 0.25 })).toBe(0);
    // What came later is for the end of the run to judge.
    expect(lastOf(written(30, 0, 70), 20)).toBe(0);
  });

  it('is further on while no row has a usable answer, in a run of a version that did not note it', () => {
    expect(lastOf(written(0, 30))).toBe(50);
    expect(lastOf(written(0, 10, 20))).toBe(50);
    expect(lastOf(written(1, 29))).toBe(0);
  });
});
