import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { ConfidenceCurve } from '../../src/account/abstention.js';
import { shareOf } from '../../src/account/score.js';

type Row = readonly [confidence: number | null, right: boolean];

function curveOf(rows: readonly Row[]): ConfidenceCurve {
  const curve = new ConfidenceCurve();
  for (const row of rows) curve.add(...row);
  return curve;
}

const ROWS: readonly Row[] = [
  [0.99, true],
  [0.9, true],
  [0.8, false],
  [0.8, true],
  [0.6, true],
  [0.4, false],
  [0, false],
  [null, false],
];

describe('a threshold', () => {
  it('leaves the rows that have at least this confidence', () => {
    const curve = curveOf(ROWS);
    expect(curve.at(0.8)).toEqual({ threshold: 0.8, answered: 4, coverage: 4 / 8, accuracy: shareOf(3, 4) });
    expect(curve.at(0.800001)).toMatchObject({ answered: 2, accuracy: { value: 1 } });
    // Without an answer there is none at any threshold.
    expect(curve.at(0)).toMatchObject({ answered: 7, coverage: 7 / 8, accuracy: { value: 4 / 7 } });
    expect(curve.at(1)).toEqual({ threshold: 1, answered: 0, coverage: 0, accuracy: null });
  });

  it('is found for an accuracy, the lowest also where a higher one does not reach it', () => {
    const curve = curveOf(ROWS);
    expect(curve.lowest(1, 1)).toMatchObject({ threshold: 0.9, answered: 2 });
    // With 0.9 all are right, with 0.8 three of four, and with 0.6 four of five.
    expect(curve.lowest(0.8, 1)).toEqual({
      threshold: 0.6,
      answered: 5,
      coverage: 5 / 8,
      accuracy: shareOf(4, 5),
    });
    expect(curve.lowest(0.5, 1)?.threshold).toBe(0);
    // The two surest rows are too few.
    expect(curve.lowest(0.85, 3)).toBeNull();
  });

  it('is not found where the surest rows are wrong, and without rows', () => {
    expect(curveOf([[0.9, false]]).lowest(0.5, 1)).toBeNull();
    expect(curveOf([[null, false]]).lowest(0, 1)).toBeNull();
    expect(curveOf([]).lowest(0, 1)).toBeNull();
    expect(curveOf([]).at(0.5)).toEqual({ threshold: 0.5, answered: 0, coverage: 0, accuracy: null });
  });
});

test('thresholds are those of a search through all rows', () => {
  const confidence = fc.oneof(
    fc.integer({ min: 0, max: 10 }).map((n) => n / 10),
    fc.integer({ min: 0, max: 1_000_000 }).map((n) => n / 1_000_000),
  );
  const rows = fc.array(fc.tuple(fc.option(confidence, { freq: 8 }), fc.boolean()), { maxLength: 30 });
  fc.assert(
    fc.property(
      rows,
      fc.constantFrom(0.5, 0.8, 0.9, 0.95, 1),
      fc.constantFrom(1, 5),
      (all, accuracy, least) => {
        const answered = (threshold: number): Row[] => all.filter(([c]) => c !== null && c >= threshold);
        const share = (some: readonly Row[]): number =>
          some.filter(([, right]) => right).length / some.length;
        const thresholds = all.flatMap(([c]) => (c === null ? [] : [c])).sort((a, b) => a - b);
        const found = thresholds.find(
          (threshold) => answered(threshold).length >= least && share(answered(threshold)) >= accuracy,
        );
        const lowest = curveOf(all).lowest(accuracy, least);
        expect(lowest?.threshold).toBe(found);
        if (found !== undefined) expect(lowest?.answered).toBe(answered(found).length);
      },
    ),
    { numRuns: 200 },
  );
});
