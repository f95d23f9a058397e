import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Kills, withoutTimes } from '../support/kills.js';
import { Workplace } from '../support/promptmill.js';
import { chatBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { unknownAfter } from '../support/unknown.js';

const ROWS = 300;
const CONCURRENCY = 10;
/** So long that even a busy machine stays in the tier. */
const DEADLINE_S = 600;

/** Kills on the other stores are shown without a tier. */
describe('a run in the flex tier, with a deadline and 30 % lack of capacity', () => {
  const store = oneStore();
  let work: Workplace;
  let service: ScriptedService;
  const kills = new Kills();
  /** Calls that were answered, and so paid; by tier. */
  let paid: Record<string, number>;

  beforeEach(async () => {
    work = new Workplace();
    paid = {};
    service = await startScriptedService(async ({ prompt, body, count }) => {
      await kills.called(prompt.startsWith(`row ${ROWS}:`));
      const tier = JSON.stringify(body).includes('"service_tier":"flex"') ? 'flex' : 'default';
      const number = Number(/\d+/.exec(prompt)?.[0]);
      // Three of ten calls, and never the same row for ever.
      if (tier === 'flex' && (number * 7 + count * 3) % 10 < 3)
        return {
          status: 429,
          json: { error: { message: 'Resource unavailable', type: 'resource_unavailable', code: null } },
        };
      paid[tier] = (paid[tier] ?? 0) + 1;
      return { json: { ...chatBody({ content: ` answer to ${prompt}` }), service_tier: tier } };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('has no row late, and is killed in the middle for the same money', { timeout: 180_000 }, async () => {
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const job = (output: string) =>
      work.job({
        service: { operation: 'chat', deployment: 'lm-35-turbo', tier: 'flex' },
        input: { path: work.rows(ROWS) },
        prompt: 'row {{ id }}: {{ note }}',
        prices: { prompt: 1, completion: 2, flex: 0.4 },
        limits: { concurrency: CONCURRENCY, attempts: 2, deadline: `${DEADLINE_S}s` },
        output: { path: output },
      });
    const whole = await work.call(['run', job('whole.csv')], env);
    expect(whole.code, whole.stderr).toBe(0);
    expect(whole.stderr).toMatch(/saved against online/);
    expect(paid).toEqual({ flex: ROWS });
    const { cost, saved, duration_s, calls } = work.json('whole.summary.json') as Record<string, never>;
    // 10 and 2 tokens a row, 0.014 online.
    expect({ cost, saved }).toEqual({ cost: 1.68, saved: 2.52 });
    expect(duration_s).toBeLessThan(DEADLINE_S);
    expect(calls).toMatchObject({ rate_limited: 0, repeated: 0, sent: service.requests.length });

    paid = {};
    const path = job('out.csv');
    await kills.run({ work, service }, ['run', path], env, { kills: 1, calls: ROWS - 50 });
    const finished = await work.call(['run', path], env);
    expect(finished.code, finished.stderr).toBe(0);
    expect(withoutTimes(work.records('out.csv'))).toEqual(withoutTimes(work.records('whole.csv')));
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({
      cost,
      saved,
      tiers: { flex: { rows: ROWS } },
      calls: { rate_limited: 0 },
    });
    const { repeated } = summary['calls'] as { repeated: number };
    const twice = (paid['flex'] ?? 0) - ROWS;
    expect(paid['default']).toBeUndefined();
    expect(repeated).toBeGreaterThanOrEqual(twice);
    expect(twice).toBeLessThanOrEqual(unknownAfter(CONCURRENCY));
  });
});
