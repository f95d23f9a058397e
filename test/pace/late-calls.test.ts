import { describe, expect, it } from 'vitest';
import { seeded } from '../support/seeded.js';
import { type BusyServer, callBusyServer, type Minute } from './busy-server.js';

/** About so long, between half and one and a half of it. */
const about = (ms: number) => (random: () => number) => ms * (0.5 + random());

const MINUTE = 60_000;
const sumOf = (minutes: readonly Minute[], what: 'answered' | 'cut'): number =>
  minutes.reduce((sum, minute) => sum + minute[what], 0);

describe('fault 112: more calls at once than a server has room for', () => {
  const ONE: BusyServer = {
    ...{ slots: 1, serviceMs: about(1_000), concurrency: 20, timeoutMs: 10_000 },
    lastMs: 20 * MINUTE,
  };
  const TWO = { ...ONE, slots: 2, concurrency: 64 };
  const uneven = (ms: number) => (random: () => number) => -ms * Math.log(1 - random());
  it.each<[string, BusyServer]>([
    ['20 on one slot', ONE],
    ['20 on one slot that works on calls that were cut', { ...ONE, worksOnCutCalls: true }],
    ['64 on two slots', TWO],
    ['64 on two slots that work on calls that were cut', { ...TWO, worksOnCutCalls: true }],
    ['200 on eight slots', { ...ONE, slots: 8, concurrency: 200 }],
    ['a few too many', { ...ONE, concurrency: 12 }],
    ['with a time-out of three answers', { ...ONE, timeoutMs: 3_000 }],
    [
      'with answers of very different lengths',
      { ...ONE, slots: 4, concurrency: 50, serviceMs: uneven(2_000) },
    ],
  ])('%s: after a minute fewer than one in fifty is cut, and the slots stay full', (_, server) => {
    for (const seed of [1, 2, 3]) {
      const minutes = callBusyServer(server, seeded(seed)).slice(1, 20);
      const cut = sumOf(minutes, 'cut');
      const answered = sumOf(minutes, 'answered');
      expect(cut / (answered + cut), `seed ${seed}`).toBeLessThan(1 / 50);
      const most = (19 * MINUTE * server.slots) / (server.slots === 4 ? 2_000 : 1_000);
      expect(answered / most, `seed ${seed}`).toBeGreaterThan(0.95);
    }
  });
});

describe('calls at once stay as they are', () => {
  /** Each call has a slot. */
  const FREE = { slots: 1_000_000, concurrency: 50, timeoutMs: 10_000, lastMs: 7 * MINUTE };
  const limits = (server: BusyServer, seed: number): number[] =>
    callBusyServer(server, seeded(seed))
      .slice(0, 7)
      .map(({ atOnce }) => atOnce);
  const never = 1_000_000_000;

  it.each([
    [0.03, 1_000],
    [0.03, 4_000],
    [0.1, 1_000],
  ])('where time-outs come by chance: a share of %d, and the others in %d ms', (share, ms) => {
    const serviceMs = (random: () => number): number => (random() < share ? never : about(ms)(random));
    for (const seed of [1, 2, 3]) expect(limits({ ...FREE, serviceMs }, seed)).toEqual(Array(7).fill(50));
  });

  it.each([
    ['one in nine takes', 6_000, 4_500],
    ['half of the calls take', 9_000, 2_000],
  ])('in the end, where %s too long by itself: fewer do not help', (_, least, spread) => {
    const serviceMs = (random: () => number): number => least + spread * random();
    for (const seed of [1, 2, 3])
      expect(limits({ ...FREE, serviceMs }, seed).slice(3)).toEqual(Array(4).fill(50));
  });

  it.each([5_000, 6_000])(
    'but for some minutes, where one in fifty is lost and the others take %d ms',
    (ms) => {
      const serviceMs = (random: () => number): number => (random() < 0.02 ? never : about(ms)(random));
      for (const seed of [1, 2, 3]) {
        const minutes = callBusyServer(
          { ...FREE, serviceMs, concurrency: 20, lastMs: 60 * MINUTE },
          seeded(seed),
        );
        expect(minutes.filter(({ atOnce }) => atOnce === 20).length, `seed ${seed}`).toBeGreaterThan(50);
      }
    },
  );

  it.each([1_000, 6_000])('when a service that answers in %d ms was silent for two minutes', (ms) => {
    const silent = [MINUTE, 3 * MINUTE] as const;
    for (const seed of [1, 2, 3])
      expect(limits({ ...FREE, serviceMs: about(ms), silent }, seed).slice(5)).toEqual(Array(2).fill(50));
  });
});
