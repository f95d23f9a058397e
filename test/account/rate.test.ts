import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type RateWindow, rateOf, sampled } from '../../src/account/rate.js';

/** Samples at the given moments of a run that does `perSecond` rows. */
function run(moments: readonly number[], perSecond: number): RateWindow {
  return moments.reduce<RateWindow>(
    (window, at) => sampled(window, { at, done: (at / 1000) * perSecond }),
    [],
  );
}

const every = (ms: number, until: number) => Array.from({ length: until / ms + 1 }, (_, n) => n * ms);

test('a steady run has its own rate, however often it is sampled', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 300 }), (gaps) => {
      const moments = [0];
      for (const gap of gaps) moments.push((moments.at(-1) ?? 0) + gap);
      expect(rateOf(run(moments, 850))).toBeCloseTo(850, 6);
    }),
    { seed: 20_251_121 },
  );
});

test('the rate is unknown until time has passed', () => {
  expect(rateOf([])).toBeNull();
  expect(rateOf(run([0], 10))).toBeNull();
  expect(rateOf(run([0, 0], 10))).toBeNull();
});

test('rows of an earlier execution are not taken for speed', () => {
  const window = sampled(sampled([], { at: 0, done: 90_000 }), { at: 1000, done: 90_010 });
  expect(rateOf(window)).toBe(10);
});

test('fault 35: outcomes that are lost make the rate 0, and not less', () => {
  expect(rateOf(sampled(sampled([], { at: 0, done: 500 }), { at: 1000, done: 200 }))).toBe(0);
});

test('half a window after a change the rate is half way, and a window after it is the new one', () => {
  let window = run(every(1000, 60_000), 100);
  const stopped = 6000;
  for (const at of every(1000, 15_000).slice(1)) window = sampled(window, { at: 60_000 + at, done: stopped });
  expect(rateOf(window)).toBeCloseTo(50, 6);
  for (const at of every(1000, 15_000).slice(1)) window = sampled(window, { at: 75_000 + at, done: stopped });
  expect(rateOf(window)).toBe(0);
});

test('the window stays small under a sample a millisecond', () => {
  expect(run(every(1, 100_000), 850).length).toBeLessThanOrEqual(64);
});
