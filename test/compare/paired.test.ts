import { describe, expect, it } from 'vitest';
import { mcNemar, paired } from '../../src/compare/paired.js';

describe("McNemar's exact test", () => {
  it.each([
    // M. W. Fagerland, S. Lydersen and P. Laake, BMC Medical Research Methodology 13:91 (2013), table 1: Bentur
    // et al. (2009), airway hyper-responsiveness before and after a transplantation.
    [7, 1, 0.0703125],
    // A. Agresti, Categorical Data Analysis (2002), table 10.1: approval of the prime minister, z² = 17.36.
    [86, 150, 3.715936139571442e-5],
    [31, 12, 0.005401572654591291],
    [59, 6, 4.964650327128617e-12],
    [101, 121, 0.20213432065995873],
    [5, 0, 0.0625],
  ])('has the published or exactly counted value for %i and %i', (b, c, p) => {
    expect(mcNemar(b, c) / p).toBeCloseTo(1, 9);
    expect(mcNemar(c, b)).toBe(mcNemar(b, c));
  });

  it('finds nothing where there is nothing', () => {
    expect([mcNemar(0, 0), mcNemar(8, 8), mcNemar(1, 0), mcNemar(1, 2)]).toEqual([1, 1, 1, 1]);
  });

  it('holds for any number of rows', () => {
    // By the normal approximation: z = (20,000 − 19,000 − 1) / √39,000 = 5.0586.
    expect(mcNemar(20_000, 19_000)).toBeCloseTo(4.22e-7, 8);
    expect(mcNemar(1_000_000, 0)).toBe(0);
  });
});

describe('two answers to the same rows', () => {
  it('are told apart, and then no more rows are needed', () => {
    expect(paired(200, 31, 12)).toMatchObject({ says: 'b', needed: null });
    expect(paired(200, 12, 31)).toMatchObject({ says: 'a', needed: null });
  });

  it('need as many rows as Connor (1987) says for 80 % power at 5 %', () => {
    // (1.959964 √0.1 + 0.841621 √(0.1 − 0.02²))² / 0.02²
    expect(paired(200, 12, 8)).toMatchObject({ rows: 200, better: 12, worse: 8, says: 'even', needed: 1960 });
  });

  it('cannot be told apart by any number of rows where they are equally good', () => {
    expect(paired(200, 9, 9).needed).toBeNull();
    expect(paired(0, 0, 0)).toEqual({ rows: 0, better: 0, worse: 0, p: 1, says: 'even', needed: null });
  });
});
