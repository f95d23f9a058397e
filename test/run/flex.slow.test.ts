import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import { afterAll, describe, expect, it } from 'vitest';
import type { StoredSummary } from '../../src/account/summary.js';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { startEmulator } from '../../src/emulator/server.js';
import type { Stats } from '../../src/emulator/stats.js';
import { defineJob, retry, run, type Summary } from '../../src/index.js';
import { Workplace } from '../support/promptmill.js';
import {
  chatBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';

const work = new Workplace();
afterAll(() => work.remove());

const PRICES = { prompt: 1, cached: 0.5, completion: 2, flex: 0.4 };
const NO_CAPACITY = {
  status: 429,
  json: { error: { message: 'Resource unavailable', type: 'resource_unavailable', code: null } },
};
const answer = (tier: string | null) => ({
  json: { ...chatBody(), ...(tier !== null && { service_tier: tier }) },
});

/** What the answers cost by the emulator's own count, and what they would cost online. */
function billed(emulator: { stats(): Stats }) {
  const costs = Object.entries(emulator.stats().by_tier).map(([tier, used]) => {
    const { prompt_tokens: prompt, completion_tokens: completion, cached_tokens: cached } = used;
    const online =
      ((prompt - cached) * PRICES.prompt + cached * PRICES.cached + completion * PRICES.completion) / 1000;
    return { paid: online * (tier === 'flex' ? PRICES.flex : 1), online };
  });
  const sum = (of: 'paid' | 'online') => costs.reduce((all, each) => all + each[of], 0);
  return { paid: sum('paid'), online: sum('online') };
}

/** Most of their time they wait for capacity. */
describe.concurrent('the flex tier', () => {
  const ends: (() => Promise<void>)[] = [];
  afterAll(async () => {
    for (const end of ends) await end();
  });
  let names = 0;

  function begin(url: string, tier: unknown, more: object = {}, key = 'a-key') {
    const name = `flex-${++names}`;
    const output = work.path(`${name}.jsonl`);
    const said: { msg: string }[] = [];
    const log = pino({ level: 'info' }, { write: (line) => said.push(JSON.parse(line)) });
    const env = {
      ...{ PROMPTMILL_BASE_URL: url, PROMPTMILL_API_KEY: key },
      PROMPTMILL_STATE_DIR: work.path(`state-${name}`),
    };
    const jobWith = (asked: unknown) =>
      defineJob({
        name,
        service: { operation: 'chat', deployment: 'lm-35-turbo', tier: asked },
        prompt: 'Review {{ id }}',
        prices: PRICES,
        limits: { concurrency: 8, chunk_size: 10 },
        ...more,
      } as Parameters<typeof defineJob>[0]);
    const rowsOf = (count: number) => Array.from({ length: count }, (_, i) => ({ id: i + 1 }));
    return {
      said,
      output,
      go: async (rows: number, asked = tier): Promise<Summary> =>
        (await run(jobWith(asked), { rows: rowsOf(rows), output, log, env })).summary,
      further: { job: jobWith(tier), log, env },
      rowsOf,
      records: () =>
        readFileSync(output, 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
    };
  }

  async function scripted(script: Script): Promise<ScriptedService> {
    const service = await startScriptedService(script);
    ends.push(() => service.close());
    return service;
  }

  async function emulated(options: EmulatorOptions) {
    const emulator = await startEmulator(options);
    ends.push(() => emulator.close());
    return emulator;
  }

  it('is asked for, and the tier that the answer names is recorded and paid', async () => {
    const service = await scripted(({ prompt }) =>
      answer(prompt.endsWith('1') ? 'default' : prompt.endsWith('2') ? null : 'flex'),
    );
    const { go, records } = begin(service.url, 'flex');
    const summary = await go(4);
    expect(service.requests.map(({ body }) => body)).toContainEqual(
      expect.objectContaining({ service_tier: 'flex' }),
    );
    expect(records().map(({ tier }) => tier)).toEqual(['online', 'online', 'flex', 'flex']);
    expect(Object.keys(records()[0]).slice(-4)).toEqual(['latency_ms', 'refusal', 'tier', 'error']);
    // 10 and 2 tokens a row: 0.014 online.
    expect(summary).toMatchObject({
      tiers: {
        online: { rows: 2, usage: { prompt_tokens: 20, completion_tokens: 4 }, cost: 0.028 },
        flex: { rows: 2, usage: { prompt_tokens: 20, completion_tokens: 4 }, cost: 0.0112 },
      },
      cost: 0.0392,
      saved: 0.0168,
    });
  });

  for (const [form, flexRefusal] of [
    ['429', 429],
    ['498', 498],
  ] as const)
    it(`tries rows again for which there is no capacity (${form}): no attempt, no quota, no cost`, async () => {
      const emulator = await emulated({ flexCapacity: 0.7, flexRefusal });
      const { go, records } = begin(
        emulator.url,
        'flex',
        { limits: { concurrency: 8, chunk_size: 10, attempts: 1 } },
        emulator.keys[0],
      );
      const summary = await go(60);
      const stats = emulator.stats();
      const lacks = stats.by_status[form] ?? 0;
      expect(lacks).toBeGreaterThan(5);
      expect(summary).toMatchObject({
        ...{ stopped: null, rows: { completed: 60 } },
        calls: { sent: 60 + lacks, retried: lacks, rate_limited: 0, repeated: 0 },
        tiers: { flex: { rows: 60 } },
      });
      expect(records().every(({ attempts, tier }) => attempts === 1 && tier === 'flex')).toBe(true);
      expect(summary.cost).toBeCloseTo(billed(emulator).paid, 6);
      expect(summary.saved).toBeCloseTo(billed(emulator).online - billed(emulator).paid, 6);
    });

  it('goes online when its time is over, at once for the rows that wait', async () => {
    const service = await scripted(({ body }) =>
      JSON.stringify(body).includes('"service_tier":"flex"') ? NO_CAPACITY : answer('default'),
    );
    const { go } = begin(service.url, { flex: '2s' });
    const summary = await go(30);
    expect(summary).toMatchObject({
      ...{ stopped: null, rows: { completed: 30 }, saved: 0, calls: { rate_limited: 0 } },
      tiers: { online: { rows: 30 } },
    });
    // None has waited out the minute for which it was delayed.
    expect(summary.duration_s).toBeLessThan(60);
  });

  it('makes no call in it where it has no time, and goes on with a run that began in it', async () => {
    const service = await scripted(({ body }) =>
      JSON.stringify(body).includes('"service_tier":"flex"')
        ? {
            status: 400,
            json: {
              error: {
                message: 'Invalid service_tier argument',
                type: 'invalid_request_error',
                param: 'service_tier',
                code: null,
              },
            },
          }
        : answer('default'),
    );
    const { go } = begin(service.url, 'flex');
    const stopped = await go(5);
    expect(stopped.stopped).toContain('service: { tier: { flex: 0s } }');
    expect(service.calls()).toBeLessThanOrEqual(5);
    const before = service.calls();
    const summary = await go(5, { flex: '0s' });
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 5 }, tiers: { online: { rows: 5 } } });
    expect(service.calls() - before).toBe(5);
  });

  it('is paid by call where a row is asked again, and stays in the figures of a retry and of added rows', async () => {
    let asked = 0;
    const service = await scripted(({ prompt }) => {
      // The first row is asked again: its first answer was in flex.
      if (prompt.includes('Review 3') && asked++ === 0)
        return { status: 400, json: { error: { message: 'no', type: 'invalid_request_error' } } };
      if (prompt.includes('positive,') || prompt.length > 12) return answer('default');
      return prompt.endsWith(' 1')
        ? { json: { ...chatBody({ content: 'who knows' }), service_tier: 'flex' } }
        : answer('flex');
    });
    const { go, further, output, rowsOf } = begin(service.url, 'flex', {
      answer: { labels: ['positive', 'negative'], on_invalid: { ask_again: 1 } },
    });
    const first = await go(3);
    const each = { prompt_tokens: 10, completion_tokens: 2 };
    expect(first).toMatchObject({
      rows: { completed: 2, failed: 1 },
      tiers: { online: { rows: 1, usage: each }, flex: { rows: 1, usage: { prompt_tokens: 20 } } },
      cost: 0.014 * (1 + 2 * 0.4),
      saved: 0.0168,
    });
    const again = await retry(output, { ...further, rows: rowsOf(3) });
    expect(again.summary).toMatchObject({
      rows: { completed: 3 },
      tiers: { online: { rows: 1 }, flex: { rows: 2, usage: { prompt_tokens: 30 } } },
    });
    expect(again.summary.cost).toBeCloseTo(0.014 * (1 + 3 * 0.4), 6);
    expect(again.summary.saved).toBeCloseTo(0.014 * 3 * 0.6, 6);
  });

  it('is quoted by check, and adds up where rows are copied, and where others are added to the output', async () => {
    const service = await scripted(() => answer('flex'));
    work.write('six.csv', 'id,review\n1,Good\n2,Good\n3,Bad\n4,Fine\n5,Bad\n6,Odd\n');
    const job = work.job({
      service: { operation: 'chat', deployment: 'lm-35-turbo', tier: 'flex' },
      input: { path: 'six.csv', dedupe: true },
      prompt: 'Review: {{ review }}',
      parameters: { temperature: 0 },
      prices: PRICES,
      output: { path: 'six.out.csv' },
    });
    const env = { PROMPTMILL_BASE_URL: service.url };
    const quoted = JSON.parse((await work.call(['check', job, '--json'], env)).stdout);
    expect(quoted.cost).toEqual({ least: quoted.tiers.flex.least, most: quoted.tiers.online.most });
    expect(quoted.tiers.flex.most).toBeCloseTo(0.4 * quoted.tiers.online.most, 5);
    expect(service.calls()).toBe(0);

    const first = await work.call(['run', job, '--limit', '3'], env);
    expect(first.code, first.stderr).toBe(0);
    const since = () =>
      (work.json('six.out.summary.json') as unknown as StoredSummary).details.state.flex_since;
    const began = since();
    expect(began).toBeGreaterThan(0);
    const { code, stderr } = await work.call(['run', job], env);
    expect(code, stderr).toBe(0);
    // Its time in the tier is that of the run, over all executions.
    expect(since()).toBe(began);
    expect(work.records('six.out.csv').map(({ tier }) => tier)).toEqual([
      ...['flex', '', 'flex', 'flex', '', 'flex'],
    ]);
    expect(service.calls()).toBe(4);
    expect(work.json('six.out.summary.json')).toMatchObject({
      ...{ tiers: { flex: { rows: 4, usage: { prompt_tokens: 40, completion_tokens: 8 }, cost: 0.0224 } } },
      ...{ cost: 0.0224, saved: 0.0336, usage: { prompt_tokens: 40 } },
    });
  });

  it('counts its answers at their price in a budget of money', async () => {
    const service = await scripted(() => answer('flex'));
    // At 0.0056 a row; what is reserved for a row is its price online.
    const { go } = begin(service.url, 'flex', {
      limits: { concurrency: 1, budget: { cost: 0.1 } },
      parameters: { max_tokens: 2 },
    });
    const summary = await go(100);
    expect(summary.stopped).toContain('limits.budget.cost');
    expect(summary.cost).toBeGreaterThan(0.05);
    expect(summary.cost).toBeLessThanOrEqual(0.1);
  });

  // It must not wait for others: its own calls tell how much time the rest needs.
  it.sequential('goes online in time for the deadline, and all rows are answered before it', async () => {
    const emulator = await emulated({ flexCapacity: 0.05, latency: { baseMs: 20, perTokenMs: 0 } });
    const limits = { concurrency: 8, chunk_size: 10, deadline: '12s' };
    const { go, said } = begin(emulator.url, 'flex', { limits }, emulator.keys[0]);
    const summary = await go(100);
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 100 }, calls: { rate_limited: 0 } });
    const { flex, online } = summary.tiers ?? {};
    expect((flex?.rows ?? 0) + (online?.rows ?? 0)).toBe(100);
    expect(online?.rows).toBeGreaterThan(0);
    expect(flex?.rows).toBe(emulator.stats().by_tier['flex']?.answered);
    expect(summary.cost).toBeCloseTo(billed(emulator).paid, 6);
    expect(said.some(({ msg }) => msg.includes('rows are called online'))).toBe(true);
  });
});
