import { describe, expect, it } from 'vitest';
import { Spacing } from '../../src/pace/permits.js';
import { tellQuota, type Wave } from '../../src/pace/refusal.js';

const wave = (admitted: number, refused = 1, wait = 1_000): Wave => ({ admitted, refused, wait, ms: 2_000 });

describe('refusals tell a quota', () => {
  it.each<[string, Wave[]]>([
    ['when everybody was refused, twice', [wave(12, 4), wave(60, 3)]],
    ['when they come after the same number of calls, thrice', [wave(10), wave(12), wave(11)]],
    [
      'when they ask for as long as only a window of a minute does',
      [wave(900, 1, 50_000), wave(400, 1, 40_000)],
    ],
  ])('%s', (_, waves) => expect(tellQuota(waves)).toBe(true));

  it.each<[string, Wave[]]>([
    ['when there is one', [wave(10, 20, 50_000)]],
    ['when they are two, and alone', [wave(10), wave(10)]],
    ['when they come after any number of calls', [wave(13), wave(46), wave(15), wave(114)]],
    ['when a wave of many came once', [wave(13), wave(46, 5), wave(15)]],
  ])('not %s', (_, waves) => expect(tellQuota(waves)).toBe(false));
});

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
