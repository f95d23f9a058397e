import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NOTHING } from '../../src/pace/shared-pace.js';
import { Fleet, type FleetOptions } from './fleet.js';

/** One seed for all; a failure names it in its title. */
const SEED = 20_261_121;
const REQUESTS = { requestsPerMinute: 600, tokensPerMinute: null };
const TOKENS = { requestsPerMinute: null, tokensPerMinute: 90_000 };

let fleet: Fleet;
beforeEach(() => {
  vi.useFakeTimers({ now: 1_700_000_000_000 });
});
afterEach(() => {
  fleet.close();
  vi.useRealTimers();
});

/** Runs for a while, and tells what the time after the first seconds was used for. */
async function run(options: Omit<FleetOptions, 'seed'>, skipped: number, seconds: number) {
  fleet = new Fleet({ ...options, seed: SEED });
  await fleet.pass(skipped);
  const from = Date.now();
  await fleet.pass(seconds);
  return fleet.since(from);
}

describe.each([1, 4, 10])(`%i workers with the quota in the job (seed ${SEED})`, (workers) => {
  it('use 97 % of a quota of requests, and 1 % of the calls is refused at most', async () => {
    const { admitted, refusedShare } = await run({ workers, limits: REQUESTS, quota: REQUESTS }, 10, 60);
    expect(admitted / 600).toBeGreaterThanOrEqual(0.97);
    expect(refusedShare).toBeLessThanOrEqual(0.01);
  });

  it('use 97 % of a quota of tokens, and 1 % of the calls is refused at most', async () => {
    const { admitted, refusedShare } = await run({ workers, limits: TOKENS, quota: TOKENS }, 10, 60);
    expect((admitted * 100) / 90_000).toBeGreaterThanOrEqual(0.97);
    expect(refusedShare).toBeLessThanOrEqual(0.01);
  });

  it('keep both quotas when both bind in turn', async () => {
    const both = { requestsPerMinute: 600, tokensPerMinute: 54_000 };
    const { admitted, refusedShare } = await run({ workers, limits: both, quota: both }, 10, 60);
    expect((admitted * 100) / 54_000).toBeGreaterThanOrEqual(0.97);
    expect(refusedShare).toBeLessThanOrEqual(0.01);
  });
});

describe.each([1, 4])(`%i workers without the quota in the job (seed ${SEED})`, (workers) => {
  it('use 85 % of a quota of requests that the service does not tell, with 5 % refused at most', async () => {
    const { admitted, refusedShare } = await run({ workers, quota: REQUESTS }, 10, 120);
    expect(admitted / 1_200).toBeGreaterThanOrEqual(0.85);
    expect(refusedShare).toBeLessThanOrEqual(0.05);
  });

  it.each([600, 1_200])(
    'use most of %i requests a minute, which the service does not tell, from the first seconds on',
    async (requestsPerMinute) => {
      fleet = new Fleet({ workers, quota: { requestsPerMinute }, seed: SEED });
      await fleet.pass(20);
      const settled = Date.now();
      await fleet.pass(25);
      const all = fleet.since(0);
      expect(all.admitted / (requestsPerMinute * 0.75)).toBeGreaterThanOrEqual(0.9);
      expect(all.refusedShare).toBeLessThanOrEqual(0.03);
      const after = fleet.since(settled);
      expect(after.admitted / ((requestsPerMinute * 25) / 60)).toBeGreaterThanOrEqual(0.95);
      expect(after.refusedShare).toBeLessThanOrEqual(0.005);
    },
  );

  it('use 85 % of a quota of tokens that the service does not tell, with 5 % refused at most', async () => {
    const { admitted, refusedShare } = await run({ workers, quota: TOKENS }, 0, 300);
    expect((admitted * 100) / 450_000).toBeGreaterThanOrEqual(0.85);
    expect(refusedShare).toBeLessThanOrEqual(0.05);
  });

  it('use 97 % of a quota that the service tells in its answers', async () => {
    const requests = await run({ workers, quota: REQUESTS, advertised: REQUESTS }, 10, 60);
    expect(requests.admitted / 600).toBeGreaterThanOrEqual(0.97);
    fleet.close();
    const tokens = await run({ workers, quota: TOKENS, advertised: TOKENS }, 10, 60);
    expect((tokens.admitted * 100) / 90_000).toBeGreaterThanOrEqual(0.97);
  });

  it('fault 29: settle within 20 s when the quota halves, within 30 s when it doubles; each cut says its reason', async () => {
    await run({ workers, quota: REQUESTS }, 0, 60);
    for (const [perMinute, seconds] of [
      [300, 20],
      [600, 30],
    ] as const) {
      fleet.setQuota({ requestsPerMinute: perMinute });
      await fleet.pass(seconds);
      const settled = Date.now();
      await fleet.pass(40);
      const { admitted, refusedShare } = fleet.since(settled);
      expect(admitted / ((perMinute * 40) / 60)).toBeGreaterThanOrEqual(0.85);
      expect(refusedShare).toBeLessThanOrEqual(0.05);
    }
    const reasons = new Set(fleet.changes.map(({ reason }) => reason));
    expect(reasons).toContain('slow_start');
    expect(reasons).toContain('refused');
    expect(reasons).toContain('growth');
  });
});

describe.each([SEED, SEED + 1])('a quota that only refusals tell (seed %i)', (seed) => {
  const admittedOf = async (options: Omit<FleetOptions, 'seed'>, seconds: number): Promise<number> => {
    fleet = new Fleet({ ...options, seed });
    await fleet.pass(seconds);
    return fleet.since(0).admitted;
  };

  it.each([
    { workers: 1, hints: false },
    { workers: 4, hints: false },
    { workers: 1, hints: 1_000 },
  ] as const)(
    'is used by 70 % although pauses end before its window of ten seconds (workers: $workers, hint: $hints)',
    async ({ workers, hints }) => {
      const quota = { requestsPerMinute: 600, requestWindowSeconds: 10 };
      expect((await admittedOf({ workers, quota, hints }, 120)) / 1_200).toBeGreaterThanOrEqual(0.7);
    },
  );

  it.each([10, 20, 30])(
    'is used by four fifths where it is %i a minute, counted by the second',
    async (perMinute) => {
      const quota = { requestsPerMinute: perMinute };
      const admitted = await admittedOf({ workers: 1, quota }, 180);
      expect(admitted / (perMinute * 3)).toBeGreaterThanOrEqual(0.8);
    },
  );
});

describe.each([
  { name: '600 a minute, 120 ms', perMinute: 600, latency: 120, refusalMs: 0 },
  { name: '1200 a minute, 300 ms', perMinute: 1_200, latency: 300, refusalMs: 300 },
])(`on a busy machine, with $name (seed ${SEED})`, ({ perMinute, latency, refusalMs }) => {
  it.each([1, 4])(
    '%i workers use 87 % of a quota that only refusals tell, with 1 percent refused at most',
    async (workers) => {
      // Every process stands still a tenth of the time, in the midst of what it asks of the store too.
      const busy = { everyMs: 400, forMs: 40 };
      const quota = { requestsPerMinute: perMinute };
      const { admitted, refusedShare } = await run({ workers, quota, latency, refusalMs, busy }, 10, 120);
      expect(admitted / (perMinute * 2)).toBeGreaterThanOrEqual(0.87);
      expect(refusedShare).toBeLessThanOrEqual(0.01);
    },
  );
});

describe.each([1, 4])(`%i workers whose calls are refused by chance (seed ${SEED})`, (workers) => {
  it('fault 79: one in fifty costs its pauses, and the run is nearly as fast as they allow', async () => {
    await run({ workers, quota: NOTHING, stray: 0.02 }, 0, 60);
    const { admitted } = fleet.since(0);
    // Each pause is a second and comes after fifty calls; a worker has 160 a second, after a slow start.
    const most = 60 / (1 / 50 + 1 / (160 * workers));
    expect(admitted / most).toBeGreaterThanOrEqual(0.6);
  });

  it('fault 79: they are no quota beside a quota that the job says', async () => {
    const { admitted } = await run({ workers, limits: REQUESTS, quota: REQUESTS, stray: 0.02 }, 10, 120);
    // A pause of a second for each fifty calls, which take five seconds.
    expect(admitted / 1_200).toBeGreaterThanOrEqual((5 / 6) * 0.8);
  });
});

describe(`a fleet (seed ${SEED})`, () => {
  it('shares the quota between its workers', async () => {
    await run({ workers: 2, limits: REQUESTS, quota: REQUESTS }, 10, 60);
    const shares = [0, 1].map((worker) => fleet.visits.filter((visit) => visit.worker === worker).length);
    expect(Math.min(...shares) / Math.max(...shares)).toBeGreaterThan(0.8);
  });

  it('makes no call while one of its workers was told to wait', async () => {
    fleet = new Fleet({ workers: 4, quota: { requestsPerMinute: 60 }, seed: SEED });
    await fleet.pass(30);
    fleet.setQuota({ tokensPerMinute: 500 });
    await fleet.pass(40);
    const refusals = fleet.visits.filter(({ admitted }) => !admitted);
    const last = refusals.at(-1)?.at ?? 0;
    // What was under way when the first was told, and what the others asked before they heard of it.
    const during = fleet.visits.filter(({ at }) => at > last && at < last + 15_000);
    expect(during).toEqual([]);
  });

  it('fault 29: many calls see one wave of refusals, and the rate is cut once', async () => {
    await run({ workers: 10, quota: REQUESTS }, 0, 0.9);
    const refusals = fleet.visits.filter(({ admitted }) => !admitted).length;
    expect(refusals).toBeGreaterThan(2);
    expect(fleet.changes.filter(({ reason }) => reason === 'refused').length).toBe(1);
    await fleet.pass(3);
    expect(fleet.visits.filter(({ admitted }) => !admitted).length).toBe(refusals);
  });

  it('fault 29: a stray refusal costs its pause, and no rate is taken from it', async () => {
    fleet = new Fleet({ workers: 2, quota: NOTHING, seed: SEED });
    await fleet.pass(3);
    const before = fleet.since(Date.now() - 1_000).admitted;
    fleet.refuseNext();
    await fleet.pass(2.5);
    expect(fleet.visits.filter(({ admitted }) => !admitted).length).toBe(1);
    const from = Date.now();
    await fleet.pass(1);
    expect(fleet.since(from).admitted).toBeGreaterThan(before * 0.9);
    expect(fleet.changes.map(({ reason }) => reason)).not.toContain('refused');
  });

  it('neither cuts nor grows its rate while the service answers 503', async () => {
    await run({ workers: 2, quota: REQUESTS }, 0, 40);
    const found = () => JSON.parse(fleet.values.texts.get('q') ?? '{}').found;
    fleet.trouble(8_000);
    await fleet.pass(1);
    const { peak, age } = found();
    await fleet.pass(6);
    expect(found()).toMatchObject({ peak, age });
  });

  it('reaches its ceiling within a second where nothing limits it', async () => {
    fleet = new Fleet({ workers: 1, quota: NOTHING, latency: 50, seed: SEED });
    await fleet.pass(1.5);
    expect(fleet.pacers[0]?.concurrency).toBe(20);
    expect(fleet.values.texts.size).toBe(0);
  });

  it('reaches its ceiling within seconds also where an answer takes a minute', async () => {
    fleet = new Fleet({ workers: 1, quota: NOTHING, latency: 60_000, ceiling: 64, seed: SEED });
    await fleet.pass(8);
    expect(fleet.pacers[0]?.concurrency).toBe(64);
  });
});
