import { describe, expect, it } from 'vitest';
import { SlowStart } from '../../src/pace/slow-start.js';

/** The limit after so many calls, 10 ms apart, each so-many-th of which fails. */
function limitAfter(calls: number, failing: number): number {
  const start = new SlowStart(100);
  for (let call = 1; call <= calls; call++)
    if (call % failing === 0) start.failed(call * 10);
    else start.answered(0, 0, call * 10);
  return start.limit;
}

it('the limit grows to its ceiling where a few calls fail all the time', () => {
  expect(limitAfter(200, 30)).toBe(100);
});

it('the limit stays where every tenth call fails', () => {
  expect(limitAfter(9, 10)).toBe(14);
  expect(limitAfter(2_000, 10)).toBe(14);
});

it('a failed call stops the growth for five seconds where few answers come', () => {
  const start = new SlowStart(100);
  start.failed(0);
  expect(start.waited(4_999)).toBe(false);
  expect(start.waited(5_000)).toBe(true);
  expect(start.limit).toBe(10);
});

it('answers during a pause do not make the limit grow', () => {
  const start = new SlowStart(100);
  start.paused(5_000);
  for (let i = 0; i < 50; i++) start.answered(0, 0, i);
  expect(start.limit).toBe(5);
});

it('calls that nobody has answered make the limit grow to a bound of their own', () => {
  const start = new SlowStart(100, 20);
  expect([1_000, 2_000, 3_000].map((now) => start.waited(now))).toEqual([true, true, false]);
  expect(start.limit).toBe(20);
  start.answered(5_000, 0, 5_000);
  expect(start.limit).toBe(21);
});

describe('where the calls at once are too many for the server', () => {
  const MINUTE = 60_000;
  /** As many as the limit admits are answered. */
  const grow = (start: SlowStart, now: number): number => {
    for (let i = 0; i < 100; i++) start.answered(0, 0, now);
    return start.limit;
  };
  const lowered = (most: number): SlowStart => {
    const start = new SlowStart(50);
    grow(start, 0);
    start.lower(most, 0, 0);
    return start;
  };

  it('fewer are made, and a call that began before shows nothing of that', () => {
    const start = lowered(25);
    expect(start.lower(12, -1, 1)).toBe(false);
    expect(grow(start, 1)).toBe(25);
    expect(start.lower(12, 2, 3)).toBe(true);
    expect(start.lower(12, 4, 5), 'they are no more').toBe(false);
    expect(grow(start, 5)).toBe(12);
  });

  it('one more is tried each minute', () => {
    const start = lowered(5);
    const at = [1, MINUTE - 1, MINUTE, 2 * MINUTE, 3 * MINUTE];
    expect(at.map((now) => grow(start, now))).toEqual([5, 5, 6, 7, 8]);
  });

  it('after twice the time, where that was too many again; and after a minute above where they were lowered', () => {
    const start = lowered(1);
    grow(start, MINUTE);
    expect(start.lower(1, MINUTE, MINUTE)).toBe(true);
    expect([2, 3, 4, 5, 6].map((n) => grow(start, n * MINUTE))).toEqual([1, 2, 2, 3, 4]);
  });

  it('one more is tried sooner where the reason allows', () => {
    const start = new SlowStart(50);
    grow(start, 0);
    start.lower(5, 0, 0, 1_000);
    expect([999, 1_000, 2_000].map((now) => grow(start, now))).toEqual([5, 6, 7]);
    start.lower(3, 2_000, 2_000, 1_000);
    expect(
      [2_999, 3_000].map((now) => grow(start, now)),
      'two more went well before',
    ).toEqual([3, 4]);
    start.lower(3, 3_000, 3_000, 1_000);
    expect(
      [4_999, 5_000].map((now) => grow(start, now)),
      'the first was too many',
    ).toEqual([3, 4]);
  });

  it('none more as long as answers come late', () => {
    const start = lowered(5);
    start.late(MINUTE - 1);
    expect(grow(start, 2 * MINUTE - 2)).toBe(5);
    expect(grow(start, 2 * MINUTE - 1)).toBe(6);
  });

  it('as many as before, where fewer did not help', () => {
    const start = lowered(5);
    start.raise(40, 1);
    expect(grow(start, 1)).toBe(40);
    expect(grow(start, MINUTE + 1)).toBe(41);
  });
});
