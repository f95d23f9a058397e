import { afterAll, describe, expect, it } from 'vitest';
import { billedBy, rowsOf, Workbench } from './workbench.js';

const bench = new Workbench();
afterAll(() => bench.rest());

/** The batches answer half of their rows and go on for ever. */
describe.concurrent('batches that hang', () => {
  for (const [what, job, other] of [
    ['when the time of the job for them is over', { tier: { batch: '1s' } }, 'online'],
    ['and the rest is asked of the flex tier', { tier: { batch: '1s', flex: '60s' } }, 'flex'],
    ['before the deadline', { limits: { deadline: '20s' } }, 'online'],
  ] as const)
    it(`are cancelled ${what}, with the answers that they have`, async () => {
      const emulator = await bench.emulated({ hang: 1 });
      const hanging = bench.begin(emulator, job);
      const { stopped, rows, tiers, calls, cost, batches } = await hanging.go(rowsOf(40));
      const { rows: batched = 0 } = tiers?.['batch'] ?? {};
      expect([stopped, rows.completed, calls.repeated]).toEqual([null, 40, 0]);
      // On a busy machine they may have no answer yet, or not be cancelled in the time that the deadline leaves.
      expect([0, 20]).toContain(batched);
      expect([calls.sent, tiers?.[other]?.rows]).toEqual([40 - batched, 40 - batched]);
      expect(['cancelled', 'abandoned']).toContain(batches?.[0]?.status);
      if (other === 'online' && batched > 0) expect(cost).toBeCloseTo(billedBy(emulator).cost, 6);
      expect(hanging.left()).toEqual([]);
    });
});
