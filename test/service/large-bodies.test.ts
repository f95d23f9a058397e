import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LargeBodies } from '../../src/service/large-bodies.js';

const MB = 1024 * 1024;

describe('large bodies', () => {
  it('are read four at a time, in the order in which they became large', async () => {
    const bodies = new LargeBodies();
    const resumed: number[] = [];
    const calls = Array.from({ length: 6 }, (_, i) => ({
      body: bodies.reader(),
      wake: () => resumed.push(i),
    }));
    const reads = () => calls.map(({ body, wake }) => body.mayReadOn(MB, wake));
    expect(reads()).toEqual([true, true, true, true, true, true]);
    expect(reads()).toEqual([true, true, true, true, false, false]);
    expect(reads()).toEqual([true, true, true, true, false, false]);
    calls[2]?.body.end();
    calls[2]?.body.end();
    await nextTurn();
    expect(resumed).toEqual([4]);
    // One that is given up while it waits frees no place, and is not woken.
    calls[5]?.body.end();
    for (const i of [0, 1, 3, 4]) calls[i]?.body.end();
    await nextTurn();
    expect(resumed).toEqual([4]);
    const next = Array.from({ length: 5 }, () => bodies.reader());
    expect(next.map((body) => body.mayReadOn(2 * MB, () => {}))).toEqual([true, true, true, true, false]);
  });

  it('leave small ones alone', () => {
    const bodies = new LargeBodies();
    const small = Array.from({ length: 100 }, () => bodies.reader());
    expect(small.every((body) => body.mayReadOn(1_000, () => {}))).toBe(true);
  });
});
