import { afterAll, describe, expect, it } from 'vitest';
import type { BatchFaults } from '../../../src/emulator/batches/settings.js';
import type { EmulatorOptions } from '../../../src/emulator/options.js';
import { billedBy, type Line, rowsOf, Workbench } from './workbench.js';

const bench = new Workbench();
afterAll(() => bench.rest());

/** Most of their time they wait for a batch. */
describe.concurrent('the batch tier', () => {
  const answers = (lines: readonly Line[]) =>
    lines.map(({ tier: _, latency_ms: __, attempts: ___, created: ____, completion_id: _____, ...rest }) =>
      JSON.stringify(rest),
    );

  it('has the answers that calls have, for the price of the batch, and leaves nothing behind', async () => {
    const emulator = await bench.emulated();
    const batch = bench.begin(emulator, { limits: { batch: { requests: 20 } } });
    const summary = await batch.go(rowsOf(50));
    const online = bench.begin(emulator, { tier: 'online' });
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

  it.each<[what: string, faults: BatchFaults, more?: { batches?: object; service?: object }]>([
    ['expires after 40 % of its requests, of which some failed', { expire: 0.4, fail: 0.2 }],
    [
      'is created without an answer, checked slowly, and told of in odd spellings',
      { 'lost-create': 1, 'validate-slow': 1, odd: 1 },
    ],
    ['has no output file any more', { 'no-file': 1 }],
    ['is larger than what may be enqueued', {}, { batches: { enqueuedTokens: 400 } }],
    ['is in the hosted form', { odd: 1 }, { service: { style: 'deployments' } }],
    [
      'is one of completions, with holes that its counts do not show',
      { holes: 0.1 },
      { service: { operation: 'completions', deployment: 'lm-35-turbo-instruct' } },
    ],
  ])('answers every row once where a batch %s', async (what, faults, { batches, service } = {}) => {
    const emulator = await bench.emulated(faults, { batches } as EmulatorOptions);
    const batch = bench.begin(emulator, { service, limits: { batch: { requests: 20 } } });
    const summary = await batch.go(rowsOf(50));
    const asked = emulator.stats();
    expect(summary).toMatchObject({ stopped: null, rows: { total: 50, completed: 50 } });
    // The answers of a lost file were paid for, too, and nobody can know what they cost.
    if (!('no-file' in faults)) expect(summary.cost).toBeCloseTo(billedBy(emulator).cost, 6);
    expect(summary.calls.sent).toBe(50 - (summary.tiers?.['batch']?.rows ?? 0));
    if (asked.batches.created > 3) expect(what).toMatch(/enqueued/);
    else expect(summary.batches).toHaveLength(asked.batches.created);
    expect(batch.left()).toEqual([]);
    const online = bench.begin(await bench.emulated(), { tier: 'online', service });
    await online.go(rowsOf(50));
    expect(answers(batch.lines())).toEqual(answers(online.lines()));
  });
});
