import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  advanced,
  beginTimeline,
  MOST_BUCKETS,
  periodsOf,
  pointsOf,
  type RunningTotals,
  type Timeline,
  timelineSchema,
} from '../../src/account/timeline.js';

const NOTHING: RunningTotals = {
  ...{ rows: 0, failed: 0, prompt_tokens: 0, completion_tokens: 0, sent: 0, rate_limited: 0 },
};
const figure = fc.nat(1_000_000);
const totals: fc.Arbitrary<RunningTotals> = fc.record({
  rows: figure,
  failed: figure,
  prompt_tokens: figure,
  completion_tokens: figure,
  sent: figure,
  rate_limited: figure,
});
/** A commit: how long after the one before, and the figures then, higher or lower. */
const commit = fc.record({
  after: fc.oneof(fc.nat(1_000), fc.nat(90_000), fc.nat(30 * 24 * 3_600_000)),
  totals,
  latencies: fc.array(fc.nat(100_000), { maxLength: 5 }),
});

const total = (timeline: Timeline, name: keyof RunningTotals): number =>
  timeline[name].reduce((sum, n) => sum + n, 0);

describe('a timeline', () => {
  it('has sums that are the figures of the run, whatever the commits, and never more buckets than it may', () => {
    fc.assert(
      fc.property(fc.nat(10_000), totals, fc.array(commit, { maxLength: 200 }), (worked, before, commits) => {
        let timeline = beginTimeline(worked, before);
        let at = worked;
        let last = worked === 0 ? NOTHING : before;
        const all: number[] = [];
        for (const { after, totals: now, latencies } of commits) {
          at += after;
          all.push(...latencies);
          // A manifest lies between any two commits.
          timeline = advanced(timelineSchema.parse(JSON.parse(JSON.stringify(timeline))), at, now, latencies);
          last = now;
          expect(timeline.rows.length).toBeLessThanOrEqual(MOST_BUCKETS);
        }
        for (const name of Object.keys(NOTHING) as (keyof RunningTotals)[])
          expect(total(timeline, name)).toBe(last[name]);
        const points = pointsOf(timeline);
        expect(timeline.timed.reduce((sum, n) => sum + n, 0)).toBe(all.length);
        expect(Math.max(0, ...timeline.latency_max_ms)).toBe(Math.max(0, ...all));
        expect(timeline.latency_sum_ms.reduce((sum, n) => sum + n, 0)).toBe(
          all.reduce((sum, n) => sum + n, 0),
        );
        expect(points.at(-1)?.to_s ?? 0).toBeCloseTo(commits.length > 0 || worked > 0 ? at / 1000 : 0, 3);
      }),
    );
  });

  it('puts what happened into the bucket of its time', () => {
    let timeline = beginTimeline(0, NOTHING);
    timeline = advanced(timeline, 100, { ...NOTHING, rows: 3, sent: 5 }, [10, 30]);
    timeline = advanced(timeline, 250, { ...NOTHING, rows: 4, sent: 5 }, [80]);
    timeline = advanced(timeline, 900, { ...NOTHING, rows: 9, sent: 9, failed: 1 });
    expect(pointsOf(timeline)).toMatchObject([
      { from_s: 0, to_s: 0.25, rows: 4, sent: 5, failed: 0, latency_mean_ms: 40, latency_max_ms: 80 },
      { from_s: 0.25, to_s: 0.5, rows: 1, latency_mean_ms: null, latency_max_ms: null },
      { from_s: 0.5, to_s: 0.75, rows: 2 },
      { from_s: 0.75, to_s: 0.9, rows: 2, sent: 1, failed: 1 },
    ]);
  });

  it('spreads what a row held up over the time in which it was held up', () => {
    fc.assert(
      fc.property(fc.nat(100_000), fc.integer({ min: 1, max: 200_000 }), figure, (at, held, sent) => {
        const before = advanced(beginTimeline(0, NOTHING), at, NOTHING);
        const { width_ms, ...timeline } = advanced(before, at + held, { ...NOTHING, sent });
        // No bucket has more than its part of that time, but for what is rounded.
        const most = (sent * width_ms) / held + 1;
        expect(Math.max(...timeline.sent)).toBeLessThanOrEqual(Math.max(1, Math.min(sent, most)));
        expect(Math.min(...timeline.sent)).toBeGreaterThanOrEqual(0);
        expect(total({ width_ms, ...timeline }, 'sent')).toBe(sent);
      }),
    );
  });

  it('is listed from a minute on, in few periods', () => {
    const timeline = advanced(beginTimeline(0, NOTHING), 59_999, { ...NOTHING, rows: 100 });
    expect(periodsOf(timeline, 8)).toEqual([]);
    const periods = periodsOf(advanced(timeline, 60_000, { ...NOTHING, rows: 101 }), 8);
    expect(periods.length).toBeGreaterThan(3);
    expect(periods.length).toBeLessThanOrEqual(8);
    expect(periods.reduce((sum, { rows }) => sum + rows, 0)).toBe(101);
  });

  it('begins with the time of the executions before, where a version that kept none began the run', () => {
    const timeline = advanced(beginTimeline(60_000, { ...NOTHING, rows: 500 }), 61_000, {
      ...NOTHING,
      rows: 520,
    });
    expect(timeline.width_ms).toBe(60_000);
    expect(timeline.rows).toEqual([500, 20]);
  });
});
