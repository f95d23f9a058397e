import { expect, it } from 'vitest';
import { randomFrom } from '../../src/core/random.js';
import { Reservoir, shared } from '../../src/core/reservoir.js';

it('a reservoir keeps each item with the same chance, also when it was made smaller on the way', () => {
  const times = new Array<number>(30).fill(0);
  for (let seed = 0; seed < 3_000; seed++) {
    const sample = new Reservoir<number>(15, randomFrom(seed, ''));
    for (let item = 0; item < 30; item++) {
      sample.offer(() => item);
      if (item === 19) sample.shrink(10);
    }
    sample.shrink(20);
    expect(new Set(sample.kept).size).toBe(10);
    for (const item of sample.kept) times[item] = (times[item] ?? 0) + 1;
  }
  // 1,000 expected; four standard deviations are 103.
  for (const each of times) expect(Math.abs(each - 1_000)).toBeLessThan(103);
});

it('groups have equal room, and what small ones leave goes to the others', () => {
  const sizes = new Map([
    ['a', 100],
    ['b', 2],
    ['c', 50],
    ['d', 100],
  ]);
  expect(Object.fromEntries(shared(sizes, 63))).toEqual({ a: 20, b: 2, c: 20, d: 21 });
  expect(Object.fromEntries(shared(sizes, 1_000))).toEqual(Object.fromEntries(sizes));
});
