import { describe, expect, it } from 'vitest';
import { PaceCell, type PaceValues } from '../../src/pace/pace-cell.js';
import { type SharedPace, takePermits } from '../../src/pace/shared-pace.js';
import type { Cell } from '../../src/store/key-value.js';

const HOUR = 3_600_000;
const LIMITS = { requestsPerMinute: 600, tokensPerMinute: null };

/** A store whose clock can be set. */
class SettablePace implements PaceValues {
  text: string | null = null;
  now = 1_700_000_000_000;
  /** What the clock is set by when the next change arrives. */
  setAtSwap = 0;

  async get(): Promise<Cell> {
    return { text: this.text, written: false, now: this.now };
  }

  async swap(_folder: 'pace', _name: string, before: string | null, after: string): Promise<Cell> {
    this.now += this.setAtSwap;
    this.setAtSwap = 0;
    if (this.text !== before) return { text: this.text, written: false, now: this.now };
    this.text = after;
    return { text: after, written: true, now: this.now };
  }
}

/** Two workers of one queue, and the time that passes for both and for the store. */
function fleet() {
  const store = new SettablePace();
  let local = 5_000;
  const worker = () =>
    new PaceCell(
      store,
      'queue',
      () => local,
      (error) => expect.unreachable(String(error)),
    );
  return {
    store,
    workers: [worker(), worker()] as const,
    passes: (ms: number): void => {
      local += ms;
      store.now += ms;
    },
  };
}
/** For how long everybody waits, as a worker sees it. */
const pauseOf = (worker: PaceCell): number => Math.max(0, worker.pace.waitUntil - worker.now);
const paused = (ms: number) => (pace: SharedPace, now: number) => ({
  pace: { ...pace, waitUntil: now + ms, permit: now, since: now },
  result: null,
});

describe('a store whose clock is set', () => {
  it.each([
    ['back by an hour', -HOUR],
    ['back by a minute', -60_000],
    ['back by a day', -24 * HOUR],
    ['forward by a day', 24 * HOUR],
  ])('fault 90: %s, a pause of ten seconds is over after ten seconds, for all workers', async (_, ms) => {
    const { store, workers, passes } = fleet();
    const [first, second] = workers;
    await first.look();
    await first.change(paused(10_000));
    await second.look();
    passes(4_000);
    store.now += ms;
    for (const worker of workers) {
      await worker.look();
      expect(pauseOf(worker)).toBe(6_000);
    }
    passes(6_000);
    for (const worker of workers) {
      await worker.look();
      expect(pauseOf(worker)).toBe(0);
      const permits = await worker.change((pace, now) => {
        const given = takePermits(pace, [1], LIMITS, now);
        return { pace: given.pace, result: given };
      });
      expect(permits.again).toBe(0);
      expect(permits.waits[0]).toBeLessThan(250);
    }
  });

  it('fault 90: a worker that comes after the clock was set back waits no longer than the others', async () => {
    const { store, workers, passes } = fleet();
    const [first, late] = workers;
    await first.look();
    await first.change(paused(10_000));
    passes(4_000);
    store.now -= HOUR;
    await late.look();
    expect(pauseOf(late)).toBeLessThanOrEqual(10_000);
    await late.change((pace) => ({ pace, result: null }));
    await first.look();
    expect(pauseOf(first)).toBeLessThanOrEqual(10_000);
  });

  it('fault 90: set while a change is on its way, the pause is as long as it was meant', async () => {
    const { store, workers } = fleet();
    const [first, second] = workers;
    await first.look();
    await second.look();
    store.setAtSwap = -HOUR;
    await first.change(paused(10_000));
    await second.look();
    expect(pauseOf(first)).toBe(10_000);
    expect(pauseOf(second)).toBe(10_000);
  });
});
