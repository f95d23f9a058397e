import { afterAll, describe, expect, it } from 'vitest';
import { billedBy, rowsOf, Workbench } from './workbench.js';

const bench = new Workbench();
afterAll(() => bench.rest());

const PART = { requests: 10, at_once: 2 };

describe.concurrent('a budget', () => {
  it.each([
    ['tokens', 'batches that answer all', { tokens: 1_500 }, {}],
    ['cost', 'rows called beside batches', { cost: 0.7 }, { holes: 0.3 }],
    ['tokens', 'batches whose answers are lost', { tokens: 1_500 }, { 'no-file': 1 }],
  ])('of %s holds for %s, and goes on with batches when it is raised', async (unit, what, budget, faults) => {
    const emulator = await bench.emulated(faults);
    const within = (): void => {
      const { [unit as 'tokens' | 'cost']: billed } = billedBy(emulator);
      expect(billed).toBeLessThanOrEqual(Object.values(budget)[0] ?? 0);
    };
    const limits = { canary: 5, batch: PART };
    const job = bench.begin(emulator, { parameters: { max_tokens: 8 } });
    const stopped = await job.go(rowsOf(60), { limits: { ...limits, budget } });
    expect(stopped.stopped).toMatch(/^budget: .* Raise limits\.budget\./);
    within();
    const again = await job.go(rowsOf(60), { limits: { ...limits, budget } });
    expect(again.stopped).toMatch(/^budget/);
    within();
    const whole = await job.go(rowsOf(60), { limits: { ...limits, budget: { tokens: 100_000 } } });
    expect(whole).toMatchObject({ stopped: null, rows: { completed: 60 }, calls: { repeated: 0 } });
    const { rows: batched = 0 } = whole.tiers?.['batch'] ?? {};
    expect(whole.calls.sent).toBe(60 - batched);
    if (what.endsWith('all')) expect(batched).toBe(55);
    expect(job.left()).toEqual([]);
  });

  it('counts the batches of the first rows when the others follow', async () => {
    const emulator = await bench.emulated();
    const limits = { budget: { tokens: 1_000 }, batch: PART };
    const job = bench.begin(emulator, { parameters: { max_tokens: 8 }, limits });
    expect(await job.go(rowsOf(60), {}, { limit: 20 })).toMatchObject({ stopped: null, rows: { total: 20 } });
    expect((await job.go(rowsOf(60))).stopped).toMatch(/^budget/);
    expect(billedBy(emulator).tokens).toBeLessThanOrEqual(1_000);
    expect(billedBy(emulator).tokens).toBeGreaterThan(900);
  });
});

describe('rows that go ahead', () => {
  it('may be more than there are', async () => {
    const job = bench.begin(await bench.emulated(), { limits: { canary: 20 } });
    const { rows, tiers } = await job.go(rowsOf(10));
    expect([rows.completed, tiers?.['online']?.rows]).toEqual([10, 10]);
    expect(job.left()).toEqual([]);
  });
});
