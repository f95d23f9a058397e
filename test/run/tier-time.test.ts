import { describe, expect, it } from 'vitest';
import { type TierProgress, TierTime } from '../../src/run/tier-time.js';

const HOUR = 3_600_000;
const FLEX = { forMs: null };
const calm: TierProgress = { ranMs: HOUR, toCall: 1_000, perSecond: 10, longestMs: 30_000 };

const isOver = (time: TierTime, progress: TierProgress, since: number | null = null, now = 0): boolean => {
  time.looked(since, now, progress);
  return time.isOver;
};

describe('the time in the flex tier', () => {
  it('has no end by itself, and is none in a job that asks for no tier', () => {
    expect(isOver(new TierTime(FLEX, null, null, 0), calm)).toBe(false);
    expect(new TierTime(null, null, null, 0).isOver).toBe(true);
    expect(new TierTime({ forMs: 0 }, null, null, 0).isOver).toBe(true);
  });

  it('runs from the first call in it, over all executions', () => {
    const time = new TierTime({ forMs: 20_000 }, null, null, 0);
    expect(isOver(time, calm, null, 100_000)).toBe(false);
    expect(isOver(time, calm, 100_000, 119_999)).toBe(false);
    expect(isOver(time, calm, 100_000, 120_000)).toBe(true);
    expect(new TierTime({ forMs: 20_000 }, null, 100_000, 130_000).isOver).toBe(true);
    expect(new TierTime({ forMs: 40_000 }, null, 100_000, 130_000).isOver).toBe(false);
  });

  it('ends when the rest, a quarter more and the longest answer fit just before the deadline, and does not come again', () => {
    const time = new TierTime(FLEX, 8 * HOUR, null, 0);
    // 100 s, a quarter more, 30 s for the longest answer and 5 s.
    const at = (beforeEnd: number) => ({ ...calm, ranMs: 8 * HOUR - beforeEnd });
    expect(isOver(time, at(160_001))).toBe(false);
    expect(isOver(time, at(160_000))).toBe(true);
    expect(isOver(time, { ...at(160_000), toCall: 1 })).toBe(true);
  });

  it('is half of the deadline while nothing was answered, and a tenth at least whatever the first answers say', () => {
    const unknown = { ...calm, perSecond: null };
    expect(isOver(new TierTime(FLEX, 8 * HOUR, null, 0), { ...unknown, ranMs: 4 * HOUR })).toBe(false);
    expect(isOver(new TierTime(FLEX, 8 * HOUR, null, 0), { ...unknown, ranMs: 4 * HOUR + 1 })).toBe(true);
    const slow = { ...calm, perSecond: 0.01 };
    expect(isOver(new TierTime(FLEX, 8 * HOUR, null, 0), { ...slow, ranMs: 0.7 * HOUR })).toBe(false);
    expect(isOver(new TierTime(FLEX, 8 * HOUR, null, 0), { ...slow, ranMs: 0.8 * HOUR })).toBe(true);
  });

  it('does not end where no row is left to call', () => {
    const none = { ...calm, ranMs: 8 * HOUR - 1, toCall: 0 };
    expect(isOver(new TierTime(FLEX, 8 * HOUR, null, 0), none)).toBe(false);
  });
});
