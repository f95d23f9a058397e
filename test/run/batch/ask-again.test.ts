import { afterAll, describe, expect, it } from 'vitest';
import { billedBy, rowsOf, Workbench } from './workbench.js';

const bench = new Workbench();
afterAll(() => bench.rest());

describe('an answer of a batch that does not fit', () => {
  const answer = { labels: ['positive', 'negative'], on_invalid: { ask_again: 2 } };
  const limits = { batch: { requests: 10 } };

  it('is asked again online, and both are paid by their tiers', async () => {
    const emulator = await bench.emulated();
    const job = bench.begin(emulator, { answer, limits });
    const summary = await job.go(rowsOf(40));
    const stats = emulator.stats();
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 40 }, calls: { repeated: 0 } });
    expect(summary.calls.sent).toBeGreaterThan(0);
    expect(stats.by_tier['batch']?.answered).toBe(40);
    expect(summary.cost).toBeCloseTo(billedBy(emulator).cost, 6);
    const { batch, online } = summary.tiers ?? {};
    expect(batch?.usage?.total_tokens).toBe(stats.by_tier['batch']?.total_tokens);
    expect(online?.usage?.total_tokens).toBe(stats.by_tier['default']?.total_tokens);
    expect(summary.answer_sources.asked_again).toBeGreaterThan(0);
  });

  it('is asked again once only by a run that was interrupted', async () => {
    const emulator = await bench.emulated({}, { latency: { baseMs: 150, perTokenMs: 0 } });
    const job = bench.begin(emulator, { answer, limits });
    const stop = new AbortController();
    const onEvent = ({ type }: { type: string }) => type === 'call ended' && stop.abort();
    const halted = await job.go(rowsOf(40), {}, { signal: stop.signal, onEvent });
    expect(halted.stopped).toMatch(/interrupted/);
    const summary = await job.go(rowsOf(40));
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 40 } });
    expect(emulator.stats().by_tier).toMatchObject({
      batch: { answered: 40 },
      default: { answered: summary.calls.sent },
    });
    // Every answer that was paid for is in the output.
    expect(summary.cost).toBeCloseTo(billedBy(emulator).cost, 6);
  });
});
