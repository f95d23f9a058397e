import { afterAll, describe, expect, it } from 'vitest';
import { billedBy, rowsOf, Workbench } from './workbench.js';

const bench = new Workbench();
afterAll(() => bench.rest());

describe.concurrent('a run that was interrupted while its batches ran', () => {
  async function interrupted() {
    // No batch goes on before the run is interrupted, however long that takes.
    let heldAt: number | null = performance.now();
    const emulator = await bench.emulated({}, { clock: () => heldAt ?? performance.now() });
    const job = bench.begin(emulator, {
      service: { style: 'openai' },
      limits: { batch: { requests: 10, at_once: 2 }, give_up_after: '1s' },
    });
    const stop = new AbortController();
    const isCreated = () => job.said.filter((line) => /^batch .*: 10 rows of /.test(line)).length === 2;
    const onProgress = () => isCreated() && stop.abort();
    const summary = await job.go(rowsOf(30), {}, { signal: stop.signal, onProgress });
    expect(summary.stopped).toMatch(/^interrupted/);
    heldAt = null;
    expect(job.said).toContain('2 batches go on at the service: the same command comes back for them');
    return { emulator, job };
  }

  it('comes back for them', async () => {
    const { emulator, job } = await interrupted();
    const summary = await job.go(rowsOf(30));
    expect(summary).toMatchObject({ stopped: null, calls: { sent: 0 }, tiers: { batch: { rows: 30 } } });
    expect(emulator.stats().batches.created).toBe(3);
    expect(summary.cost).toBeCloseTo(billedBy(emulator).cost, 6);
    expect(job.left()).toEqual([]);
  });

  it('takes what they have and calls the rest when the job has no time for batches any more', async () => {
    const { emulator, job } = await interrupted();
    const summary = await job.go(rowsOf(30), { tier: { batch: '0s' } });
    const { rows = 0 } = summary.tiers?.['batch'] ?? {};
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 30 }, calls: { sent: 30 - rows } });
    expect(emulator.stats().batches.created).toBe(2);
    expect(summary.cost).toBeCloseTo(billedBy(emulator).cost, 6);
  });

  it('cancels them when it starts over, and not before the service has heard of it', async () => {
    const { emulator, job } = await interrupted();
    const away = {
      PROMPTMILL_BASE_URL: 'http://127.0.0.1:9',
      PROMPTMILL_API_KEY: 'a-key-of-nobody',
      PROMPTMILL_STATE_DIR: job.state,
    };
    const restart = (more: object = {}) => job.go(rowsOf(30), {}, { restart: true, ...more });
    await expect(restart({ env: away })).rejects.toThrow('2 batches are not cancelled: nothing was answered');
    expect(job.left()).toHaveLength(1);
    const summary = await restart();
    expect(summary).toMatchObject({ stopped: null, tiers: { batch: { rows: 30 } } });
    expect(job.said.join('\n')).toMatch(
      /the cancelled batches had answered \d+ rows, which are billed: 0\.\d+/,
    );
    expect(emulator.stats().batches.created).toBe(5);
    expect(job.left()).toEqual([]);
  });
});
