import { pino } from 'pino';
import { afterEach, expect, it, vi } from 'vitest';
import type { Chunk } from '../../src/queue/chunk.js';
import type { ChunkQueue } from '../../src/queue/chunk-queue.js';
import type { RunLease } from '../../src/resume/lease.js';
import type { Producer } from '../../src/run/producer.js';
import { Rescue } from '../../src/run/rescue.js';
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
  const rescue = new Rescue(
    new Window(10, 1_000),
    { again: () => chunk as unknown as Chunk } as unknown as Producer,
    queue as ChunkQueue,
    ledger as Ledger,
    {} as RunLease,
    pino({ level: 'silent' }),
  );
  const head = { first: 1, rows: [], sent: 1, bytes: 0 };
  await rescue.looked(head, 0);
  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000);
  await rescue.looked(head, 0);
  expect(done).toEqual(['remove run-x1-1', 'add 1']);
});
