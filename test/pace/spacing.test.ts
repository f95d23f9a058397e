import { describe, expect, it } from 'vitest';
import { Spacing } from '../../src/pace/permits.js';

describe('calls that come late', () => {
  it('push back those whose permit is a window later, and no others', () => {
    const spacing = new Spacing();
    expect(spacing.at(0, 0)).toBe(0);
    expect(spacing.at(100, 350)).toBe(350);
    expect(spacing.at(200, 350)).toBe(350);
    expect(spacing.at(300, 350)).toBe(350);
    expect(spacing.at(1_000, 1_000), 'a window after the first').toBe(1_000);
    expect(spacing.at(1_100, 1_100), 'a window after a late one').toBe(1_350);
    expect(spacing.at(1_350, 1_350)).toBe(1_350);
  });

  it('never have a window with more of them than it has permits, however late they are', () => {
    const spacing = new Spacing();
    const made: number[] = [];
    let now = 0;
    for (let i = 0; i < 2_000; i++) {
      const permit = i * 101;
      // The machine stands still now and then.
      now = Math.max(now, permit) + (i % 37 === 0 ? 400 : 0);
      made.push(spacing.at(permit, now));
    }
    made.sort((a, b) => a - b);
    for (const [i, at] of made.entries())
      expect((made[i + 10] ?? Number.POSITIVE_INFINITY) - at).toBeGreaterThanOrEqual(999);
  });
});
