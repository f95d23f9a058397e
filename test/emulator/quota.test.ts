import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { estimateOf, Quota, type QuotaSettings } from '../../src/emulator/quota.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, SENTIMENT } from './call.js';

const NONE: QuotaSettings = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  requestWindowSeconds: 1,
  estimate: 'full',
};

/** How many of `tries` requests are admitted at one time. */
function admittedAt(quota: Quota, now: number, tries: number): number {
  return Array.from({ length: tries }, () => quota.admit(1, now)).filter(({ admitted }) => admitted).length;
}

describe('the quota of requests', () => {
  it('admits 600 a minute as 10 a second, or as 100 in 10 seconds', () => {
    const perSecond = new Quota({ ...NONE, requestsPerMinute: 600 });
    expect([0, 999, 1000, 1999, 2000].map((now) => admittedAt(perSecond, now, 50))).toEqual([
      10, 0, 10, 0, 10,
    ]);
    const perTen = new Quota({ ...NONE, requestsPerMinute: 600, requestWindowSeconds: 10 });
    expect([0, 9999, 10_000].map((now) => admittedAt(perTen, now, 500))).toEqual([100, 0, 100]);
  });

  it('counts from the first request, and says how long its window lasts', () => {
    const quota = new Quota({ ...NONE, requestsPerMinute: 60 });
    expect(quota.admit(1, 5_000_300)).toMatchObject({ admitted: true, remaining: { requests: 0 } });
    expect(quota.admit(1, 5_000_400)).toMatchObject({
      admitted: false,
      limit: 'requests',
      retryAfterMs: 900,
    });
  });

  it('names the next window that admits anything when a second is too short for one request', () => {
    const quota = new Quota({ ...NONE, requestsPerMinute: 6 });
    expect(quota.admit(1, 0).admitted).toBe(true);
    expect(quota.admit(1, 1500)).toMatchObject({ admitted: false, retryAfterMs: 8500 });
    expect(quota.admit(1, 10_000).admitted).toBe(true);
  });

  it('is exact over a minute, whatever the quota and the window', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), fc.constantFrom(1, 2, 5, 10, 30, 60), (limit, window) => {
        const quota = new Quota({ ...NONE, requestsPerMinute: limit, requestWindowSeconds: window });
        for (const minute of [0, 1]) {
          const seconds = Array.from({ length: 60 }, (_, second) => (minute * 60 + second) * 1000);
          const admitted = seconds.reduce((sum, now) => sum + admittedAt(quota, now, limit + 1), 0);
          expect(admitted).toBe(limit);
        }
      }),
      { seed: 17, numRuns: 30 },
    );
  });

  it('lets whoever waits as long as it says come in', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 0, max: 200_000 }), (limit, start) => {
        const quota = new Quota({ ...NONE, requestsPerMinute: limit, tokensPerMinute: 1000 });
        let now = start;
        for (let request = 0; request < 20; request++) {
          const first = quota.admit(90, now);
          if (first.admitted) continue;
          now += first.retryAfterMs;
          expect(quota.admit(90, now).admitted).toBe(true);
        }
      }),
      { seed: 17, numRuns: 50 },
    );
  });
});

describe('the quota of tokens', () => {
  it('adds estimates up until its minute is over', () => {
    const quota = new Quota({ ...NONE, tokensPerMinute: 100 });
    expect(quota.admit(60, 0)).toEqual({ admitted: true, remaining: { requests: -1, tokens: 40 } });
    expect(quota.admit(60, 20_000)).toMatchObject({ admitted: false, limit: 'tokens', retryAfterMs: 40_000 });
    expect(quota.admit(40, 59_999).admitted).toBe(true);
    expect(quota.admit(60, 60_000).admitted).toBe(true);
  });

  it('tells a request that is larger than the whole quota to come back in a day', () => {
    const quota = new Quota({ ...NONE, tokensPerMinute: 100 });
    expect(quota.admit(101, 0)).toMatchObject({ admitted: false, retryAfterMs: 86_400_000 });
    expect(quota.admit(100, 0).admitted).toBe(true);
  });

  it('does not use up a request that it refuses', () => {
    const quota = new Quota({ ...NONE, requestsPerMinute: 60, tokensPerMinute: 100 });
    expect(quota.admit(101, 0).admitted).toBe(false);
    expect(quota.admit(50, 0).admitted).toBe(true);
  });

  it.each([
    ['full', 2 * 3 * 10 + 5 + 7],
    ['max-tokens', 2 * 10],
  ] as const)('estimates two prompts as %s: %i', (estimate, tokens) => {
    expect(estimateOf({ maxTokens: 10, bestOf: 3 }, [5, 7], estimate)).toBe(tokens);
  });
});

describe('an emulator with a quota', () => {
  const PLAIN = { target: '/v1/completions' };

  async function withEmulator(
    options: EmulatorOptions,
    run: (emulator: Emulator, clock: { now: number }) => Promise<void>,
  ): Promise<void> {
    const clock = { now: 0 };
    const emulator = await startEmulator({ ...options, clock: () => clock.now });
    try {
      await run(emulator, clock);
    } finally {
      await emulator.close();
    }
  }

  it('fault 17: says in which second to come back, and admits then', async () => {
    await withEmulator({ quota: { requestsPerMinute: 60 } }, async (emulator, clock) => {
      expect((await call(emulator, { prompt: SENTIMENT })).status).toBe(200);
      const { status, headers, body } = await call(emulator, { prompt: SENTIMENT });
      expect([status, headers.get('retry-after')]).toEqual([429, '1']);
      expect(body.error.code).toBe('429');
      expect(body.error.message).toMatch(/exceeded call rate limit .* Please retry after 1 seconds\./);
      clock.now = 1000;
      expect((await call(emulator, { prompt: SENTIMENT })).status).toBe(200);
      expect(emulator.stats().rate_limited).toEqual({ requests: 1, tokens: 0 });
    });
  });

  it('keeps another quota as soon as it is told, and says so', async () => {
    await withEmulator({ quota: { requestsPerMinute: 60 } }, async (emulator) => {
      const statusOf = async () => (await call(emulator, { prompt: SENTIMENT })).status;
      expect([await statusOf(), await statusOf()]).toEqual([200, 429]);
      emulator.setQuota({ requestsPerMinute: 120 });
      const { status, headers } = await call(emulator, { prompt: SENTIMENT });
      expect([status, headers.get('x-ratelimit-limit-requests')]).toEqual([200, '120']);
      expect([await statusOf(), await statusOf()]).toEqual([200, 429]);
    });
  });

  it('says what remains, and of what', async () => {
    const quota = { requestsPerMinute: 120, tokensPerMinute: 5000 };
    await withEmulator({ quota }, async (emulator) => {
      const { headers, body } = await call(emulator, { prompt: SENTIMENT, max_tokens: 100, best_of: 2 });
      const rate = (name: string) => Number(headers.get(`x-ratelimit-${name}`));
      expect([rate('limit-requests'), rate('limit-tokens'), rate('remaining-requests')]).toEqual([
        120, 5000, 1,
      ]);
      expect(rate('remaining-tokens')).toBe(5000 - body.usage.prompt_tokens - 200);
    });
  });

  it.each([
    ['seconds', { 'retry-after': '1' }, /Please retry after 1 seconds/],
    ['ms', { 'retry-after-ms': '1000' }, /Please retry after 1 seconds/],
    ['date', { 'retry-after': expect.stringMatching(/ GMT$/) }, /Please retry after 1 seconds/],
    ['words', {}, /Please retry after 1 seconds/],
    ['none', {}, /^(?!.*after)/],
  ] as const)('fault 17: gives its hint as %s', async (hint, expected, words) => {
    await withEmulator({ hint, quota: { requestsPerMinute: 60 } }, async (emulator) => {
      await call(emulator, { prompt: SENTIMENT });
      const { headers, body } = await call(emulator, { prompt: SENTIMENT });
      const hints = [...headers].filter(([name]) => name.startsWith('retry-after'));
      expect(Object.fromEntries(hints)).toEqual(expected);
      expect(body.error.message).toMatch(words);
    });
  });

  it('hints a day at a request that can never pass', async () => {
    await withEmulator({ quota: { tokensPerMinute: 50 } }, async (emulator) => {
      const { status, headers, body } = await call(emulator, { prompt: SENTIMENT, max_tokens: 100 });
      expect([status, headers.get('retry-after')]).toEqual([429, '86400']);
      expect(body.error.message).toContain('token rate limit');
    });
  });

  it('has one for each deployment, and counts nothing that is refused before', async () => {
    await withEmulator({ quota: { requestsPerMinute: 60 } }, async (emulator) => {
      expect((await call(emulator, { prompt: SENTIMENT, n: 0 })).status).toBe(400);
      expect((await call(emulator, { prompt: SENTIMENT })).status).toBe(200);
      const other = await call(emulator, { prompt: SENTIMENT }, { deployment: 'text-davinci-003' });
      expect(other.status).toBe(200);
    });
  });

  it('says it as a plain server where it is called as one', async () => {
    await withEmulator({ quota: { requestsPerMinute: 60 } }, async (emulator) => {
      const options = { ...PLAIN, headers: { authorization: `Bearer ${emulator.keys[0]}` } };
      const ask = { model: 'lm-35-turbo-instruct', prompt: SENTIMENT };
      expect((await call(emulator, ask, options)).status).toBe(200);
      expect((await call(emulator, ask, options)).body.error).toMatchObject({
        type: 'requests',
        code: 'rate_limit_exceeded',
        message: expect.stringContaining('Please try again in 1s.'),
      });
    });
  });
});
