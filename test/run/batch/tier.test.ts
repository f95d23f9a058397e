import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { pino } from 'pino';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { BatchFaults } from '../../../src/emulator/batches/settings.js';
import type { EmulatorOptions } from '../../../src/emulator/options.js';
import { startEmulator } from '../../../src/emulator/server.js';
import { defineJob, run } from '../../../src/index.js';
import { Workplace } from '../../support/promptmill.js';

const work = new Workplace();
afterAll(() => work.remove());

const PRICES = { prompt: 1, completion: 2, batch: 0.4 };
const SECONDS = 0.4;

interface Line {
  readonly [field: string]: unknown;
  readonly tier?: string;
}

describe('the batch tier', () => {
  const ends: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });
  let names = 0;

  async function emulated(faults: BatchFaults = {}, more: EmulatorOptions = {}) {
    const batches = { seconds: SECONDS, faults, ...more.batches };
    const emulator = await startEmulator({ latency: { baseMs: 1, perTokenMs: 0 }, ...more, batches });
    ends.push(() => emulator.close());
    return emulator;
  }

  function begin({ url, keys }: Awaited<ReturnType<typeof emulated>>, more: object = {}) {
    const name = `batch-${++names}`;
    const output = work.path(`${name}.jsonl`);
    const state = work.path(`state-${name}`);
    const env = {
      ...{ PROMPTMILL_BASE_URL: url, PROMPTMILL_API_KEY: keys[0] ?? '', PROMPTMILL_STATE_DIR: state },
    };
    const { tier = 'batch', service = {}, ...others } = more as { tier?: unknown; service?: object };
    const job = defineJob({
      name,
      service: { operation: 'chat', deployment: 'lm-35-turbo', tier, ...service },
      prompt: 'Is this a positive review? {{ text }}',
      prices: PRICES,
      ...others,
    } as Parameters<typeof defineJob>[0]);
    return {
      output,
      left: () => (existsSync(`${state}/batches`) ? readdirSync(`${state}/batches`) : []),
      go: async (rows: readonly object[], options: object = {}) => {
        const log = pino({ level: 'silent' });
        const { summary } = await run(job, { rows, output, log, env, ...options } as never);
        return summary;
      },
      lines: (): Line[] =>
        readFileSync(output, 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
    };
  }

  const rowsOf = (count: number) =>
    Array.from({ length: count }, (_, i) => ({
      text: `Number ${i + 1} is ${i % 3 === 0 ? 'fine' : 'poor'}.`,
    }));

  const answers = (lines: readonly Line[]) =>
    lines.map(({ tier: _, latency_ms: __, attempts: ___, created: ____, completion_id: _____, ...rest }) =>
      JSON.stringify(rest),
    );

  it('has the answers that calls have, for the price of the batch, and leaves nothing behind', async () => {
    const emulator = await emulated();
    const batch = begin(emulator, { limits: { batch: { requests: 20 } } });
    const summary = await batch.go(rowsOf(50));
    const online = begin(emulator, { tier: 'online' });
    await online.go(rowsOf(50));
    expect(summary).toMatchObject({
      ...{ stopped: null, rows: { total: 50, completed: 50 }, calls: { sent: 0, repeated: 0 } },
      tiers: { batch: { rows: 50 } },
    });
    expect(summary.batches?.map(({ requests, status }) => [requests, status])).toEqual([
      [20, 'completed'],
      [20, 'completed'],
      [10, 'completed'],
    ]);
    expect(answers(batch.lines())).toEqual(answers(online.lines()));
    expect(batch.left()).toEqual([]);
  });

  /** By the emulator's own count, in the prices of the job. */
  function billed({ stats }: Awaited<ReturnType<typeof emulated>>): number {
    const { usage, by_tier } = stats();
    const cost = ({ prompt_tokens: prompt, completion_tokens: completion }: typeof usage) =>
      (prompt * PRICES.prompt + completion * PRICES.completion) / 1000;
    return cost(usage) - (by_tier['batch'] ? cost(by_tier['batch']) * (1 - PRICES.batch) : 0);
  }

  for (const [what, faults, more] of [
    ['expires after 40 % of its requests', { expire: 0.4 }, {}],
    ['has holes that its counts do not show', { holes: 0.1 }, {}],
    ['fails for some requests', { fail: 0.2 }, {}],
    ['is told of in odd spellings', { odd: 1 }, {}],
    ['is created without an answer', { 'lost-create': 1 }, {}],
    ['has no output file any more', { 'no-file': 1 }, {}],
    ['comes down in pieces', { cut: 0.5 }, {}],
    ['is checked slowly', { 'validate-slow': 1 }, {}],
    ['is larger than what may be enqueued', {}, { batches: { enqueuedTokens: 400 } }],
    ['is in the hosted form', { odd: 1 }, { service: { style: 'deployments' } }],
    [
      'is one of completions',
      { holes: 0.1 },
      { service: { operation: 'completions', deployment: 'lm-35-turbo-instruct' } },
    ],
  ] as [string, BatchFaults, { batches?: object; service?: object }][])
    it(`answers every row once where a batch ${what}`, async () => {
      const emulator = await emulated(faults, { batches: more.batches } as EmulatorOptions);
      const { service } = more;
      const batch = begin(emulator, { service, limits: { batch: { requests: 20 } } });
      const summary = await batch.go(rowsOf(50));
      const asked = emulator.stats();
      expect(summary).toMatchObject({ stopped: null, rows: { total: 50, completed: 50 } });
      const isTwice = 'no-file' in faults;
      // The answers of a lost file were paid for, too, and nobody can know what they cost.
      if (!isTwice) expect(summary.cost).toBeCloseTo(billed(emulator), 6);
      expect(summary.calls.sent).toBe(50 - (summary.tiers?.['batch']?.rows ?? 0));
      if (asked.batches.created > 3) expect(what).toMatch(/enqueued/);
      else expect(summary.batches).toHaveLength(asked.batches.created);
      expect(batch.left()).toEqual([]);
      const online = begin(await emulated(), { tier: 'online', service });
      await online.go(rowsOf(50));
      expect(answers(batch.lines())).toEqual(answers(online.lines()));
    });
});
