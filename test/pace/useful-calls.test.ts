import { describe, expect, it } from 'vitest';
import { seeded } from '../support/seeded.js';
import { type BusyServer, callBusyServer, type Minute } from './busy-server.js';

const about = (ms: number) => (random: () => number) => ms * (0.5 + random());
const uneven = (ms: number) => (random: () => number) => -ms * Math.log(1 - random());

const MINUTE = 60_000;
const AUTO = { concurrency: 100, untilAnswered: 20, timeoutMs: 120_000, lastMs: 12 * MINUTE };

const minutesOf = (server: Pick<BusyServer, 'slots' | 'serviceMs' | 'gapMs'>, seed: number): Minute[] =>
  callBusyServer({ ...AUTO, ...server }, seeded(seed)).slice(0, 12);

describe('limits.concurrency: auto', () => {
  it.each([
    ['answers of 250 ms', 250, about, 10],
    ['answers of 5 s', 5_000, about, 10],
    ['answers of very different lengths', 1_000, uneven, 16],
  ])(
    'a server with 4 slots gets few more calls at once, and its slots stay full: %s',
    (_, ms, lengths, most) => {
      for (const seed of [1, 2, 3]) {
        const minutes = minutesOf({ slots: 4, serviceMs: lengths(ms) }, seed);
        const atOnce = minutes.slice(6).map((minute) => minute.atOnce);
        // More are tried now and then.
        expect(
          atOnce.filter((calls) => calls >= 4 && calls <= most).length,
          `${seed}: ${atOnce}`,
        ).toBeGreaterThan(3);
        const answered = minutes.slice(1).reduce((sum, minute) => sum + minute.answered, 0);
        expect((answered * ms) / (11 * MINUTE * 4), `${seed}`).toBeGreaterThan(0.93);
        expect(minutes.map(({ cut }) => cut)).toEqual(Array(12).fill(0));
      }
    },
  );

  it.each([
    ['answers of a second', 1_000, about],
    ['answers of very different lengths', 1_000, uneven],
  ])('all calls that are allowed are made where each has a slot: %s', (_, ms, lengths) => {
    const minutes = minutesOf({ slots: 1_000_000, serviceMs: lengths(ms) }, 1).slice(1, 4);
    expect(minutes.map(({ atOnce }) => atOnce)).toEqual([100, 100, 100]);
    const answered = minutes.reduce((sum, minute) => sum + minute.answered, 0);
    expect((answered * ms) / (3 * MINUTE * 100)).toBeGreaterThan(0.98);
  });

  it('are found also where each next call waits for the store', () => {
    for (const seed of [1, 2]) {
      const atOnce = minutesOf({ slots: 4, serviceMs: about(1_000), gapMs: 20 }, seed).map(
        (minute) => minute.atOnce,
      );
      expect(Math.max(...atOnce.slice(6)), `${seed}: ${atOnce}`).toBeLessThanOrEqual(20);
    }
  });

  it('16 slots are used', () => {
    for (const seed of [1, 2]) {
      const minutes = minutesOf({ slots: 16, serviceMs: about(2_000) }, seed);
      const answered = minutes.slice(1).reduce((sum, minute) => sum + minute.answered, 0);
      expect((answered * 2_000) / (11 * MINUTE * 16), `${seed}`).toBeGreaterThan(0.95);
      for (const { atOnce } of minutes.slice(3)) expect(atOnce).toBeLessThan(50);
    }
  });
});
