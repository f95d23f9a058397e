import { expect, it } from 'vitest';
import { SlowStart } from '../../src/pace/slow-start.js';

/** The limit after so many calls, 10 ms apart, each so-many-th of which fails. */
function limitAfter(calls: number, failing: number): number {
  const start = new SlowStart(100);
  for (let call = 1; call <= calls; call++)
    if (call % failing === 0) start.failed(call * 10);
    else start.answered(call * 10);
  return start.limit;
}

it('the limit grows to its ceiling where a few calls fail all the time', () => {
  expect(limitAfter(200, 30)).toBe(100);
});

it('the limit stays where every tenth call fails', () => {
  expect(limitAfter(9, 10)).toBe(19);
  expect(limitAfter(2_000, 10)).toBe(19);
});

it('a failed call stops the growth for five seconds where few answers come', () => {
  const start = new SlowStart(100);
  start.failed(0);
  expect(start.waited(4_999)).toBe(false);
  expect(start.waited(5_000)).toBe(true);
  expect(start.limit).toBe(20);
});

it('answers during a pause do not make the limit grow', () => {
  const start = new SlowStart(100);
  start.paused(5_000);
  for (let i = 0; i < 50; i++) start.answered(i);
  expect(start.limit).toBe(10);
});
