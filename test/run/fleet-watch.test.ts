import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { watchFleet } from '../../src/run/fleet-watch.js';
import { workerBeat } from '../ops/samples.js';
import { MemoryBeats } from '../ops/web/beats.js';

const QUEUE = 'promptmill-lm-35-1234';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('a worker that is killed is told once, when others have its rows; one that ended in order is not', async () => {
  const beats = new MemoryBeats();
  const taken: string[] = [];
  const told: object[] = [];
  const here = ['alive', 'killed', 'ended', 'elsewhere'];
  const beat = (id: string, ageMs = 0): Promise<void> => {
    const worker = workerBeat({ id, ...(id === 'killed' && { host: 'web2', pid: 99 }) });
    const queues = worker.queues.map((place) => ({ ...place, queue: id === 'elsewhere' ? 'other' : QUEUE }));
    return beats.put('worker', id, JSON.stringify({ ...worker, queues }), ageMs);
  };
  for (const id of here) await beat(id);
  const watch = watchFleet({
    keyValue: beats,
    queue: QUEUE,
    log: pino({ level: 'silent' }),
    requeueHeldBy: async (lost) => {
      taken.push(...lost);
    },
    onLost: (worker) => told.push(worker),
  });
  await vi.advanceTimersByTimeAsync(12_000);
  expect(watch.seen).toMatchObject({ workers: 3, quota: null });
  await beats.remove('worker', 'ended');
  for (let ms = 2_000; ms <= 14_000; ms += 2_000) {
    for (const id of ['killed', 'elsewhere']) await beat(id, ms);
    await vi.advanceTimersByTimeAsync(2_000);
  }
  watch.stop();
  expect(taken.sort()).toEqual(['elsewhere', 'ended', 'killed']);
  expect(told).toEqual([{ host: 'web2', pid: 99, silentMs: 12_000, inFlight: 12 }]);
});
