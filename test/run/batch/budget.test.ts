import { afterAll, describe, expect, it } from 'vitest';
import { billedBy, type Emulator, rowsOf, Workbench } from './workbench.js';

const bench = new Workbench();
afterAll(() => bench.rest());

const PART = { requests: 10, at_once: 2 };

describe.concurrent('a budget', () => {
  for (const budget of [{ tokens: 1_500 }, { cost: 0.7 }])
    for (const [what, faults] of [
      ['batches that answer all', {}],
      ['rows called beside batches', { holes: 0.3 }],
      ['batches whose answers are lost', { 'no-file': 1 }],
    ] as const)
      it(`of ${Object.keys(budget)[0]} holds for ${what}, and goes on with batches when it is raised`, async () => {
        const emulator = await bench.emulated(faults);
        const within = (emulator: Emulator, limit: { tokens?: number; cost?: number }): void => {
          const { tokens, cost } = billedBy(emulator);
          if (limit.tokens !== undefined) expect(tokens).toBeLessThanOrEqual(limit.tokens);
          if (limit.cost !== undefined) expect(cost).toBeLessThanOrEqual(limit.cost);
        };
        const limits = { canary: 5, batch: PART };
        const job = bench.begin(emulator, { parameters: { max_tokens: 8 } });
        const stopped = await job.go(rowsOf(60), { limits: { ...limits, budget } });
        expect(stopped.stopped).toMatch(/^budget: .* Raise limits\.budget\./);
        within(emulator, budget);
        const again = await job.go(rowsOf(60), { limits: { ...limits, budget } });
        expect(again.stopped).toMatch(/^budget/);
        within(emulator, budget);
        const more = { tokens: 100_000 };
        const whole = await job.go(rowsOf(60), { limits: { ...limits, budget: more } });
        expect(whole).toMatchObject({ stopped: null, rows: { completed: 60 }, calls: { repeated: 0 } });
        const { rows: batched = 0 } = whole.tiers?.['batch'] ?? {};
        expect(whole.calls.sent).toBe(60 - batched);
        if (what.endsWith('all')) expect(batched).toBe(55);
        expect(job.left()).toEqual([]);
      }, 60_000);

  it('counts the batches of the first rows when the others follow', async () => {
    const emulator = await bench.emulated();
    const limits = { budget: { tokens: 1_000 }, batch: PART };
    const job = bench.begin(emulator, { parameters: { max_tokens: 8 }, limits });
    expect(await job.go(rowsOf(60), {}, { limit: 20 })).toMatchObject({ stopped: null, rows: { total: 20 } });
    expect((await job.go(rowsOf(60))).stopped).toMatch(/^budget/);
    expect(billedBy(emulator).tokens).toBeLessThanOrEqual(1_000);
    expect(billedBy(emulator).tokens).toBeGreaterThan(900);
  }, 60_000);
});

describe('rows that go ahead', () => {
  it('may be more than there are', async () => {
    const job = bench.begin(await bench.emulated(), { limits: { canary: 20 } });
    const { rows, tiers } = await job.go(rowsOf(10));
    expect([rows.completed, tiers?.['online']?.rows]).toEqual([10, 10]);
    expect(job.left()).toEqual([]);
  });
});
