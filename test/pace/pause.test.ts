import { describe, expect, it } from 'vitest';
import { backoffMs } from '../../src/core/backoff.js';
import { Pause } from '../../src/pace/pauses.js';

describe('a wait for the quota', () => {
  it('lasts as long as asked, and a later hint only makes it longer', () => {
    const wait = new Pause();
    expect(wait.refused(5_000, 0, 100)).toBe(5_000);
    expect(wait.refused(2_000, 0, 200)).toBe(4_900);
    expect(wait.remaining(1_100)).toBe(4_000);
    expect(wait.remaining(6_000)).toBe(0);
  });

  it('fault 17: lasts at least a second for a date in the past, and at most an hour', () => {
    expect(new Pause().refused(0, 0, 0)).toBe(1_000);
    expect(new Pause().refused(8 * 3_600_000, 0, 0)).toBe(3_600_000);
  });

  it('without a hint doubles from one second to a minute', () => {
    const wait = new Pause();
    const pauses = Array.from({ length: 8 }, (_, i) => {
      const now = i * 100_000;
      return wait.refused(null, now, now);
    });
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  });

  it('counts the calls that saw one refusal together as one', () => {
    const wait = new Pause();
    for (let call = 0; call < 200; call++) {
      expect(wait.refused(0, 10, 20 + call)).toBeGreaterThan(0);
    }
  });

  it('fault 18: is given up after 30 refusals with nothing admitted between them', () => {
    const wait = new Pause();
    const waits = Array.from({ length: 31 }, (_, i) => wait.refused(1_000, i * 10_000, i * 10_000));
    expect(waits.indexOf(null)).toBe(30);
    wait.admitted();
    expect(wait.refused(1_000, 400_000, 400_000)).toBe(1_000);
  });
});

describe('the pause between attempts', () => {
  it('grows exponentially to a minute, with full jitter', () => {
    expect([1, 2, 3, 7, 20].map((attempt) => backoffMs(attempt, 0.5))).toEqual([
      500, 1000, 2000, 30_000, 30_000,
    ]);
    expect(backoffMs(1, 0)).toBe(50);
    expect(backoffMs(20, 0.999)).toBeLessThanOrEqual(60_000);
  });
});
