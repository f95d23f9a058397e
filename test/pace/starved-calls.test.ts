import { describe, expect, it } from 'vitest';
import { StarvedCalls } from '../../src/pace/starved-calls.js';

const TIMEOUT_MS = 120_000;

/** Calls that begin one after the other from a time on, a second apart, and are answered after so long. */
function answer(calls: StarvedCalls, count: number, from: number, ms = 3_500): void {
  for (let i = 0; i < count; i++) calls.answered(from + i * 1_000, ms, TIMEOUT_MS);
}

/** So many calls that began at a time have timed out: what came of each. */
const starve = (calls: StarvedCalls, count: number, startedAt: number) =>
  Array.from({ length: count }, () => calls.starved(startedAt, startedAt + TIMEOUT_MS));

describe('a server starves calls', () => {
  it('when three time out while those that began later are answered fast, and each wave counts once', () => {
    const calls = new StarvedCalls();
    answer(calls, 100, 1_000);
    expect(calls.isStarved(0)).toBe(true);
    expect(starve(calls, 47, 0)).toEqual([null, null, 3_500, ...Array(44).fill(null)]);
    answer(calls, 100, 121_000);
    expect(starve(calls, 20, 121_000)).toEqual([null, null, 3_500, ...Array(17).fill(null)]);
  });

  it('not when nothing that began later was answered fast', () => {
    const calls = new StarvedCalls();
    answer(calls, 100, 0);
    expect(calls.isStarved(99_000), 'the service went silent').toBe(false);
    answer(calls, 1, 100_000, 30_001);
    expect(calls.isStarved(99_500), 'it is slow').toBe(false);
    answer(calls, 1, 100_000, 30_000);
    expect(calls.isStarved(99_500)).toBe(true);
  });

  it('not when one call in 200 is lost, for hours', () => {
    const calls = new StarvedCalls();
    for (let i = 0; i < 200_000; i++) {
      calls.answered(i * 50, 1_000, TIMEOUT_MS);
      if (i % 200 === 0) expect(calls.starved(i * 50 - 1, i * 50 + TIMEOUT_MS)).toBeNull();
    }
  });

  it('also when it has answered for days before', () => {
    const calls = new StarvedCalls();
    answer(calls, 100_000, 0);
    const later = 100_000_000 + 3_600_000;
    answer(calls, 100, later);
    expect(starve(calls, 3, later)).toEqual([null, null, 3_500]);
  });
});
