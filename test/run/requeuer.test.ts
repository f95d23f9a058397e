import { pino } from 'pino';
import { afterEach, expect, it, vi } from 'vitest';
import { NO_CALLS } from '../../src/core/counters.js';
import type { Chunk } from '../../src/queue/chunk.js';
import type { ChunkQueue } from '../../src/queue/chunk-queue.js';
import type { RunLease } from '../../src/resume/lease.js';
import type { Producer } from '../../src/run/producer.js';
import { Requeuer } from '../../src/run/requeuer.js';
import { Window } from '../../src/run/window.js';
import type { Ledger } from '../../src/store/ledger.js';

afterEach(() => {
  vi.restoreAllMocks();
});

it('adds a chunk again that a worker of another version refuses, and fails none of its rows', async () => {
  const chunk = { run: 'run', execution: 1, first: 1, rows: [{ row: 1, prompt: 'one', parameters: null }] };
  const done: string[] = [];
  const queue: Pick<ChunkQueue, 'state' | 'remove' | 'add'> = {
    state: async () => 'refused',
    remove: async (id) => void done.push(`remove ${id}`),
    add: async (chunks) => void done.push(`add ${chunks.map(({ first }) => first).join()}`),
  };
  const ledger: Pick<Ledger, 'write'> = { write: () => Promise.reject(new Error('a row has failed')) };
  const requeuer = new Requeuer(
    new Window(10, 1_000),
    { again: () => chunk as unknown as Chunk } as unknown as Producer,
    queue as ChunkQueue,
    ledger as Ledger,
    {} as RunLease,
    pino({ level: 'silent' }),
  );
  const head = { first: 1, rows: [], sent: 1, bytes: 0, isApart: false };
  await requeuer.onProgress(head, 0);
  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000);
  await requeuer.onProgress(head, 0);
  expect(done).toEqual(['remove run-x1-1', 'add 1']);
});

it('fault 109: adds an entry again that passes for active, when it must have been handed out again if it had a lock', async () => {
  const chunk = { run: 'run', execution: 1, first: 1, rows: [{ row: 1, prompt: 'one', parameters: null }] };
  const again: number[] = [];
  const queue: Pick<ChunkQueue, 'state' | 'addAgain'> = {
    state: async () => 'active',
    addAgain: async (chunks) => again.push(...chunks.map(({ first }) => first)),
  };
  const ledger: Pick<Ledger, 'progress'> = {
    progress: async () => ({ counts: [0], calls: NO_CALLS, opened: true, stop: null }),
  };
  const window = new Window(10, 1_000);
  const head = { first: 1, rows: [], sent: 1, bytes: 0, isApart: false };
  window.add(head);
  const requeuer = new Requeuer(
    window,
    { again: () => chunk as unknown as Chunk } as unknown as Producer,
    queue as ChunkQueue,
    ledger as Ledger,
    { renew: async () => {} } as unknown as RunLease,
    pino({ level: 'silent' }),
  );
  let now = performance.now();
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  await requeuer.onProgress(head, 0);
  now += 100_000;
  await requeuer.onProgress(head, 0);
  expect(again).toEqual([]);
  now += 30_000;
  await requeuer.onProgress(head, 0);
  expect(again).toEqual([1]);
});
