import { describe, expect, it } from 'vitest';
import { MOST_LABELS, MOST_VALUES } from '../../src/account/gold-tally.js';
import { scoresOf } from '../../src/account/scores.js';
import { type CountedRow, emptyTally, fold, type Tally } from '../../src/account/tally.js';
import type { Gold } from '../../src/answer/gold.js';
import type { Json } from '../../src/core/model.js';
import { completed, completionBlocked, failed, skipped } from './outcomes.js';

const PROBLEM = { code: 'answer_not_a_label', message: '' };
const label = (name: string): Gold => ({ kind: 'label', label: name });
const folded = (...ended: readonly CountedRow[]): Tally => fold(emptyTally(), ended);

function scoresOfTally({ gold }: Tally) {
  if (gold === undefined) throw new Error('no row has gold');
  return scoresOf(gold);
}

/** A row whose answer is JSON with the properties `a` and `b`. */
function json(values: readonly Json[], right: { readonly [name: string]: Json }): CountedRow {
  const gold: Gold = {
    kind: 'json',
    values: Object.entries(right).map(([name, value]) => ({
      name,
      place: ['a', 'b'].indexOf(name),
      right: value,
      isNamed: name === 'a',
    })),
  };
  return { ...completed('x'), answer: { values, counted: ['valid'], problem: null }, gold };
}

describe('rows with gold', () => {
  it('leave no trace in the tally of a job without', () => {
    expect(folded(completed('positive'), skipped, failed('timeout'))).not.toHaveProperty('gold');
  });

  it('count as scored when they are completed, and as unanswered when they are not', () => {
    const gold = label('positive');
    const tally = folded(
      { ...completed('positive'), gold },
      { ...completed('negative'), gold },
      { ...completed('negative'), gold: null },
      { ...completionBlocked, gold },
      { ...failed('timeout'), gold },
      { ...skipped, gold },
    );
    expect(scoresOfTally(tally)).toMatchObject({
      rows: 2,
      unanswered: 3,
      accuracy: { value: 0.5 },
      confusion: { positive: { positive: 1, negative: 1 } },
    });
  });

  it('that abstain are told apart from those that are answered', () => {
    const gold = label('positive');
    const answer = {
      values: [null],
      counted: ['(abstained)'],
      problem: null,
      confidence: null,
      abstained: true,
    };
    const tally = folded(
      { ...completed('positive'), gold },
      { ...completed('negative'), gold },
      { ...completed('x'), answer, gold },
      { ...completed('x'), answer, gold },
    );
    const scores = { rows: 4, accuracy: { value: 0.25 }, abstained: 2, answered_accuracy: 0.5 };
    expect(scoresOfTally(tally)).toMatchObject(scores);
    expect(scoresOfTally(JSON.parse(JSON.stringify(tally)))).toMatchObject(scores);
    expect(scoresOfTally(folded({ ...completed('x'), answer, gold })).answered_accuracy).toBeNull();
  });

  it('count as wrong where the answer is none of the labels', () => {
    const problem = { code: 'answer_not_a_label', message: '' };
    const odd = { values: [null], counted: ['(none)'], problem };
    const tally = folded({ ...completed('x'), answer: odd, gold: label('positive') });
    expect(scoresOfTally(tally)).toMatchObject({
      rows: 1,
      accuracy: { value: 0 },
      labels: { positive: { precision: 0, recall: 0, f1: 0, support: 1 } },
      confusion: { positive: { '(none)': 1 } },
    });
  });

  it('are named by pairs of a right label and another answer, the most frequent first, with their first rows', () => {
    const wrong = { ...completed('negative'), gold: label('positive') };
    const odd = { ...completed('x'), answer: { values: [null], counted: ['(none)'], problem: PROBLEM } };
    const first = fold(emptyTally(), [{ ...completed('positive'), gold: label('positive') }, wrong]);
    const tally = fold(JSON.parse(JSON.stringify(first)), [
      failed('timeout'),
      { ...odd, gold: label('negative') },
      wrong,
      wrong,
    ]);
    expect(scoresOfTally(tally).confusions).toEqual([
      { gold: 'positive', answer: 'negative', rows: 3, examples: [2, 5] },
      { gold: 'negative', answer: '(none)', rows: 1, examples: [4] },
    ]);
    // A row that is called again comes later, and has the number of its record.
    const again = fold(tally, [
      { ...wrong, row: 3 },
      { ...wrong, row: null },
    ]);
    expect(scoresOfTally(again).confusions[0]).toMatchObject({ rows: 5, examples: [2, 3] });
  });

  it('of several labels are mixed up where one is missed, and where one is too many', () => {
    const answer = { values: [['a', 'c']], counted: ['a', 'c'], problem: null };
    const gold: Gold = { kind: 'labels', labels: ['a', 'b'] };
    expect(scoresOfTally(folded({ ...completed('x'), answer, gold })).confusions).toEqual([
      { gold: '(none)', answer: 'c', rows: 1, examples: [1] },
      { gold: 'b', answer: '(none)', rows: 1, examples: [1] },
    ]);
  });

  it('name five pairs, and keep examples of 200 at most', () => {
    const rows = Array.from({ length: 900 }, (_, i) => ({
      ...completed(`label ${i % 30}`),
      gold: label(`label ${Math.floor(i / 30)}`),
    }));
    const tally = folded(...rows, ...rows);
    expect(Object.keys(tally.gold?.confusion?.examples ?? {})).toHaveLength(200);
    expect(scoresOfTally(tally).confusions.map(({ gold, examples }) => [gold, examples])).toEqual(
      [2, 3, 4, 5, 6].map((row) => ['label 0', [row, row + 900]]),
    );
  });

  it('may have numbers, which are counted by their value and sorted by it', () => {
    const row = (right: string, value: number): CountedRow => ({
      ...{ ...completed('x'), answer: { values: [value], counted: [String(value)], problem: null } },
      gold: label(right),
    });
    const scores = scoresOfTally(folded(row('10', 10), row('4.5', 4.5), row('4.5', 10)));
    expect(scores).toMatchObject({ accuracy: { value: 2 / 3 }, confusion: { '4.5': { '4.5': 1, '10': 1 } } });
    expect(Object.keys(scores.labels).sort()).toEqual(['10', '4.5']);
  });

  it('have scores of nothing while none is answered', () => {
    expect(scoresOfTally(folded({ ...failed('timeout'), gold: label('positive') }))).toEqual({
      rows: 0,
      unanswered: 1,
      accuracy: null,
      majority: null,
      abstained: 0,
      answered: 0,
      answered_accuracy: null,
      macro_f1: null,
      kappa: null,
      brier: null,
      ece: null,
      confusions: [],
      calibration: [],
      labels: {},
      confusion: {},
      properties: {},
    });
  });

  it('are counted by pairs for 100 different labels, and of more only the accuracy is known', () => {
    const of = (count: number): CountedRow[] =>
      Array.from({ length: count }, (_, i) => ({ ...completed(`label ${i}`), gold: label(`label ${i}`) }));
    expect(Object.keys(scoresOfTally(folded(...of(MOST_LABELS))).labels)).toHaveLength(MOST_LABELS);

    const tally = folded(...of(20_000));
    expect(JSON.stringify(tally.gold).length).toBeLessThan(100);
    const again = fold(JSON.parse(JSON.stringify(tally)), of(1));
    expect(scoresOfTally(again)).toMatchObject({
      rows: 20_001,
      accuracy: { value: 1 },
      macro_f1: null,
      kappa: null,
      left_out: 'more than 100 different labels came: only the accuracy is counted',
      labels: {},
      confusion: {},
    });
  });
});

describe('gold for JSON', () => {
  it('that names no property is missed by an answer that cannot be used', () => {
    const problem = { code: 'answer_not_json', message: '' };
    const odd = {
      ...json([null, null], {}),
      answer: { values: [null, null], counted: ['invalid'], problem },
    };
    expect(scoresOfTally(folded(odd, json([1, 'x'], {})))).toMatchObject({
      rows: 2,
      accuracy: { value: 0.5 },
    });
  });

  it('is compared by property, and a row is right in all that its gold names', () => {
    const tally = folded(
      json([1, 'x'], { a: 1, b: 'x' }),
      json([1, 'x'], { a: 2, b: 'x' }),
      json([3, 'y'], { b: 'y' }),
    );
    expect(scoresOfTally(tally)).toMatchObject({
      rows: 3,
      accuracy: { value: 2 / 3 },
      macro_f1: null,
      properties: { a: { rows: 2, exact: 0.5 }, b: { rows: 3, exact: 1 } },
    });
  });

  it('is scored like labels by properties with few values', () => {
    const invalid = { values: [null, null], counted: ['invalid'], problem: PROBLEM };
    const rows = [
      json([5, 'x'], { a: 5, b: 'x' }),
      json([4, 'x'], { a: 5, b: 'y' }),
      json([null, 'x'], { a: null }),
      { ...json([], { a: 4 }), answer: invalid },
    ];
    const first = fold(emptyTally(), rows.slice(0, 2));
    const { a, b } = scoresOfTally(fold(JSON.parse(JSON.stringify(first)), rows.slice(2))).properties;
    expect(a).toEqual({
      rows: 4,
      exact: 0.5,
      accuracy: { value: 0.5, low: expect.any(Number), high: expect.any(Number) },
      majority: { label: '5', accuracy: 0.5 },
      macro_f1: expect.closeTo((2 / 3 + 0 + 1) / 3, 10),
      kappa: expect.any(Number),
      labels: {
        '4': { precision: 0, recall: 0, f1: 0, support: 1 },
        '5': { precision: 1, recall: 0.5, f1: 2 / 3, support: 2 },
        null: { precision: 1, recall: 1, f1: 1, support: 1 },
      },
      confusion: { '4': { '(none)': 1 }, '5': { '4': 1, '5': 1 }, null: { null: 1 } },
      confusions: [
        { gold: '4', answer: '(none)', rows: 1, examples: [4] },
        { gold: '5', answer: '4', rows: 1, examples: [2] },
      ],
    });
    expect(b).toMatchObject({ rows: 2, exact: 0.5, accuracy: { value: 0.5 }, labels: {}, confusion: {} });
    const many = Array.from({ length: MOST_VALUES + 1 }, (_, i) => json([i, 'x'], { a: i }));
    expect(scoresOfTally(folded(...many)).properties['a']).toMatchObject({
      accuracy: { value: 1 },
      left_out: 'more than 20 different labels came: only the accuracy is counted',
      labels: {},
    });
  });

  it('is the same in any order of members', () => {
    const tally = folded(json([{ x: 1, y: [2] }, null], { a: { y: [2], x: 1 } }));
    expect(tally.gold).toMatchObject({ rows: 1, right: 1 });
  });

  it('is missed by an answer that cannot be used, also where nothing would be right', () => {
    const row = json([null, null], { a: null });
    const problem = { code: 'answer_not_json', message: '' };
    const tally = folded({ ...row, answer: { values: [null, null], counted: ['invalid'], problem } });
    expect(tally.gold).toMatchObject({ rows: 1, right: 0 });
  });
});
