import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hold, pause, refuse } from '../../src/pace/refusal.js';
import {
  allowedRate,
  NOTHING,
  newPace,
  quotaOf,
  readPace,
  type SharedPace,
  takePermits,
  textOf,
} from '../../src/pace/shared-pace.js';
import { applyReport } from '../../src/pace/usage.js';

const T = 1_700_000_000_000;
const NO_REPORT = { admitted: 0, since: T, tokens: 0, advertised: NOTHING };
/** Calls of the two seconds before. */
const BUSY = { ...NO_REPORT, admitted: 20, since: T - 2_000 };
/** A refusal came soon after the pause before it, whose end was two seconds ago. */
const SUSPECTED: SharedPace = {
  ...newPace(),
  since: T - 2_000,
  wave: { refused: 1, seen: [{ admitted: 40, ms: 4_000 }], until: T - 2_000, wait: 1_000, soon: 1 },
};
const requests = (perMinute: number) => ({ requestsPerMinute: perMinute, tokensPerMinute: null });
const tokens = (perMinute: number) => ({ requestsPerMinute: null, tokensPerMinute: perMinute });

/** Takes every permit that there is for a while; each call takes so many tokens. */
function takeAll(pace: SharedPace, limits: typeof NOTHING, ms: number, cost = 1): number[] {
  const times: number[] = [];
  let now = T;
  for (let state = pace; now < T + ms; ) {
    const { pace: next, waits, again } = takePermits(state, [cost, cost, cost], limits, now);
    times.push(...waits.map((wait) => now + wait - T));
    state = next;
    now += again;
  }
  return times.filter((time) => time < ms);
}

describe('permits', () => {
  it('come at even distances, a little slower than the quota, and later after the very first', () => {
    const times = takeAll(newPace(), requests(600), 3_000);
    const distances = times.slice(1).map((time, i) => time - (times[i] ?? 0));
    expect(distances[0]).toBeGreaterThan(400);
    for (const distance of distances.slice(1)) expect(distance).toBeCloseTo(100 / 0.985, 2);
  });

  it('never come closer than the quota has them, at any rate and however many ask', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), (perMinute) => {
        const times = takeAll(newPace(), requests(perMinute), 2_000);
        for (const [i, time] of times.entries()) {
          const before = times[i - 1];
          if (before !== undefined) expect(time - before).toBeGreaterThan(60_000 / perMinute);
        }
      }),
      { seed: 51, numRuns: 60 },
    );
  });

  it('wait until the tokens of the calls before have flowed in', () => {
    const times = takeAll(newPace(), tokens(60_000), 10_000, 500);
    const distances = times.slice(1).map((time, i) => time - (times[i] ?? 0));
    for (const distance of distances) expect(distance).toBeCloseTo(500 / 0.99, 2);
  });

  it('come later when calls took more tokens than was reserved, and sooner when they took less', () => {
    const limits = tokens(60_000);
    const used = takePermits(newPace(), [1], limits, T - 10_000).pace;
    const { pace } = takePermits(used, [100], limits, T);
    const next = (extra: number) =>
      takePermits(applyReport(pace, { ...NO_REPORT, tokens: extra }, limits, T), [1], limits, T).waits[0];
    expect(next(50)).toBeCloseTo(150 / 0.99, 2);
    expect(next(-50)).toBeCloseTo(50 / 0.99, 2);
  });

  it('are not saved up', () => {
    const { pace } = takePermits(newPace(), [1], requests(600), T - 60_000);
    expect(takeAll(pace, requests(600), 1_000).length).toBe(10);
  });

  it('begin again at the end of the pause that the service asked for', () => {
    const pace = refuse(newPace(), { startedAt: T - 10, wait: 7_000 }, NO_REPORT, requests(600), T);
    const times = takeAll(pace, requests(600), 8_000);
    expect(times[0]).toBe(7_000);
  });
});

describe('a refusal', () => {
  const limits = requests(600);
  const refused = (pace: SharedPace, startedAt: number, now: number, report = NO_REPORT) =>
    refuse(pace, { startedAt, wait: 1_000 }, report, limits, now);

  it('cuts the rate, and one of a call from before the end of the pause belongs to it', () => {
    const first = refused(SUSPECTED, T - 10, T, BUSY);
    const cut = allowedRate(first, limits);
    expect(cut).toBeLessThan(591);
    const later = { ...NO_REPORT, admitted: 5, since: T + 1_000 };
    expect(allowedRate(refused(first, T + 500, T + 600, later), limits)).toBe(cut);
    expect(allowedRate(refused(first, T + 1_001, T + 1_510, later), limits)).toBeLessThan(cut ?? 0);
  });

  it('that comes alone only makes everybody wait, and so does one of a rate that was taken for longer', () => {
    const stray = refuse(newPace(), { startedAt: T - 10, wait: 1_000 }, BUSY, NOTHING, T);
    expect(stray.waitUntil).toBe(T + 1_000);
    expect(allowedRate(stray, NOTHING)).toBe(null);
    expect(allowedRate(refused(newPace(), T - 10, T, BUSY), limits)).toBe(591);
    const later = refused({ ...SUSPECTED, since: T - 5_000 }, T - 10, T, BUSY);
    expect(allowedRate(later, limits)).toBe(591);
  });

  it('that hits everybody begins with what was admitted in its window', () => {
    const report = { ...NO_REPORT, admitted: 10, since: T - 200 };
    let pace = refuse(newPace(), { startedAt: T - 10, wait: 1_000 }, report, NOTHING, T);
    for (let call = 0; call < 2; call++) {
      expect(allowedRate(pace, NOTHING)).toBe(null);
      pace = refuse(pace, { startedAt: T - 10, wait: 1_000 }, NO_REPORT, NOTHING, T);
    }
    pace = refuse(pace, { startedAt: T - 10, wait: 1_000 }, NO_REPORT, NOTHING, T);
    expect(allowedRate(pace, NOTHING)).toBeCloseTo(591, 0);
  });

  it('tells the quota of a minute when the service asks to wait for long again', () => {
    const stray = refuse(newPace(), { startedAt: T - 10, wait: 1_000 }, BUSY, NOTHING, T);
    const report = { ...NO_REPORT, admitted: 900, since: T + 1_000 };
    const later = T + 6_000;
    const minute = refuse(stray, { startedAt: later - 10, wait: 55_000 }, report, NOTHING, later);
    expect(allowedRate(minute, NOTHING)).not.toBe(null);
  });

  it('that comes soon after the pause before, after hardly any calls, belongs to it: its window is not over', () => {
    const stray = refuse(newPace(), { startedAt: T - 10, wait: 1_000 }, BUSY, NOTHING, T);
    const report = { ...NO_REPORT, admitted: 4, since: T + 1_000 };
    const early = refuse(stray, { startedAt: T + 1_000, wait: 2_000 }, report, NOTHING, T + 1_010);
    expect(early.wave).toEqual({ ...stray.wave, until: T + 3_010 });
    expect(early.waitUntil).toBe(T + 3_010);
  });

  it('of a call that was in flight when the service went down is none of a wave long ago', () => {
    const wave = { refused: 2, seen: [{ admitted: 4, ms: 1_000 }], until: T - 61_000, wait: 1_000, soon: 0 };
    const down = pause({ ...newPace(), since: T - 61_000, wave }, 5_000, T - 5);
    const pace = refuse(down, { startedAt: T - 10, wait: 1_000 }, NO_REPORT, NOTHING, T);
    expect(pace.wave).toEqual(wave);
    expect(allowedRate(pace, NOTHING)).toBe(null);
  });

  it('is a first one again when none came for a minute', () => {
    const stray = refuse(newPace(), { startedAt: T - 10, wait: 1_000 }, BUSY, NOTHING, T);
    const later = T + 62_000;
    const report = { ...NO_REPORT, admitted: 20, since: later - 2_000 };
    const again = refuse(stray, { startedAt: later - 10, wait: 1_000 }, report, NOTHING, later);
    expect(allowedRate(again, NOTHING)).toBe(null);
  });

  it('at a rate far above the calls that were made brings it near to them, by half at once', () => {
    const generous = requests(60_000);
    const pace = refuse(SUSPECTED, { startedAt: T - 10, wait: 1_000 }, BUSY, generous, T);
    expect(pace.found?.peak).toBeLessThanOrEqual(30_000);
  });

  it('lets the rate come back to what it was', () => {
    let pace = refused(SUSPECTED, T - 10, T, BUSY);
    for (let now = T + 1_000; now < T + 30_000; now += 100) pace = takePermits(pace, [1], limits, now).pace;
    expect(pace.found).toBe(null);
    expect(allowedRate(pace, limits)).toBe(591);
  });

  it('is forgotten when the service tells another quota', () => {
    const advertised = requests(1_200);
    const pace = applyReport(refused(SUSPECTED, T - 10, T, BUSY), { ...NO_REPORT, advertised }, NOTHING, T);
    expect(allowedRate(pace, NOTHING)).toBe(1_200 * 0.985);
  });

  it('is forgotten when nobody has called for a minute', () => {
    const pace = refused(SUSPECTED, T - 10, T, BUSY);
    expect(takePermits(pace, [1], limits, T + 60_000).pace.found).not.toBe(null);
    expect(takePermits(pace, [1], limits, T + 62_000).pace.found).toBe(null);
  });
});

it('a job says more than the service about the quota', () => {
  const pace = applyReport(newPace(), { ...NO_REPORT, advertised: requests(1_200) }, requests(600), T);
  expect(allowedRate(pace, requests(600))).toBe(591);
});

it('people are told the quota itself, and a rate that was found where refusals say that it is less', () => {
  expect(quotaOf(newPace(), NOTHING)).toBe(null);
  expect(quotaOf(newPace(), requests(600))).toEqual({
    perMinute: 600,
    isFound: false,
    tokensPerMinute: null,
  });
  expect(quotaOf(newPace(), { requestsPerMinute: null, tokensPerMinute: 9_000 })).toEqual({
    perMinute: null,
    isFound: false,
    tokensPerMinute: 9_000,
  });
  const cut = refuse(SUSPECTED, { startedAt: T - 10, wait: 1_000 }, BUSY, requests(600), T);
  const quota = quotaOf(cut, requests(600));
  expect(quota?.isFound).toBe(true);
  expect(quota?.perMinute).toBeLessThan(591);
});

it('a held rate stays what it is, and grows again afterwards', () => {
  let pace = refuse(SUSPECTED, { startedAt: T - 10, wait: 1_000 }, BUSY, requests(600), T);
  const grow = (from: number, until: number): void => {
    for (let now = from; now < until; now += 100) pace = takePermits(pace, [1], requests(600), now).pace;
  };
  grow(T + 1_000, T + 3_000);
  pace = hold(pace, 5_000, T + 3_000);
  const held = pace.found?.age;
  grow(T + 3_000, T + 8_000);
  expect(pace.found?.age).toBe(held);
  grow(T + 8_000, T + 9_000);
  expect(pace.found?.age).toBeGreaterThan(held ?? 0);
});

describe('what a store holds', () => {
  const pace = refuse(SUSPECTED, { startedAt: T - 10, wait: 1_000 }, BUSY, requests(600), T);

  it('comes back as it was written', () => {
    expect(readPace(textOf(pace, T), T)).toEqual(pace);
  });

  it.each([
    ['nothing', null, T],
    ['no JSON', 'x', T],
    ['no pace', '{"permit":"soon"}', T],
    ['a pace of yesterday', textOf(pace, T), T + 24 * 3_600_000],
    ['a pace whose times are a day ahead', textOf(pace, T - 24 * 3_600_000), T - 24 * 3_600_000],
  ])('is a new pace when it is %s', (_, text, now) => {
    expect(readPace(text, now)).toEqual(newPace());
  });
});
