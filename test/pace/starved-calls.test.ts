import { describe, expect, it } from 'vitest';
import { SlowStart } from '../../src/pace/slow-start.js';
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

describe('where a server starves calls', () => {
  const HALF_AN_HOUR = 1_800_000;

  /** As many as the limit admits are answered for so long. */
  const grow = (start: SlowStart, now: number): number => {
    for (let i = 0; i < 100; i++) start.answered(now);
    return start.limit;
  };

  it('half as many calls are made at once, down to one', () => {
    const start = new SlowStart(50);
    expect(grow(start, 0)).toBe(50);
    const limits = [true, true, true, true, true, false].map((falls) => {
      expect(start.starved(0)).toBe(falls);
      return grow(start, 0);
    });
    expect(limits).toEqual([25, 12, 6, 3, 1, 1]);
  });

  it('twice as many are tried again after half an hour, up to what the user set', () => {
    const start = new SlowStart(50);
    grow(start, 0);
    for (let cut = 0; cut < 2; cut++) start.starved(0);
    const limits = [1, HALF_AN_HOUR - 1, HALF_AN_HOUR, HALF_AN_HOUR + 1, 2 * HALF_AN_HOUR, 3 * HALF_AN_HOUR];
    expect(limits.map((now) => grow(start, now))).toEqual([12, 12, 24, 24, 48, 50]);
  });
});
