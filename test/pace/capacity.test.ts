import { describe, expect, it } from 'vitest';
import { Capacity } from '../../src/pace/capacity.js';

function begin() {
  let now = 1_000_000;
  const capacity = new Capacity(
    () => now,
    () => 0,
  );
  const lacked = (times: number, inFlight = 0) => {
    let isNew = 0;
    for (let i = 0; i < times; i++) if (capacity.lacked(inFlight, now)) isNew++;
    return isNew;
  };
  const pass = (ms: number) => {
    now += ms;
  };
  return { capacity, lacked, pass };
}

describe('the capacity of the flex tier', () => {
  it('has a row wait for a second where most calls find some, and the others go on', () => {
    const { capacity, lacked } = begin();
    for (let i = 0; i < 50; i++) {
      lacked(3);
      for (let found = 0; found < 7; found++) capacity.found();
    }
    expect(capacity.waitingMs).toBe(0);
    expect(capacity.rowMs).toBeGreaterThan(1_000);
    expect(capacity.rowMs).toBeLessThan(2_500);
  });

  it('has all rows wait, longer and longer, where hardly any call finds some, until one does', () => {
    const { capacity, lacked, pass } = begin();
    expect(lacked(100)).toBe(1);
    expect(capacity.waitingMs).toBeGreaterThan(10_000);
    pass(capacity.waitingMs);
    expect(capacity.waitingMs).toBe(0);
    expect(lacked(100)).toBe(1);
    expect(capacity.waitingMs).toBe(60_000);
    capacity.found();
    expect(capacity.waitingMs).toBe(0);
  });

  it('is not lacking because refusals come sooner than answers', () => {
    const { capacity, lacked } = begin();
    // 100 calls are under way, which found some.
    expect(lacked(45, 100)).toBe(0);
    expect(capacity.rowMs).toBeLessThan(2_000);
  });
});
