import { Job, Worker } from 'bullmq';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Chunk } from '../../src/queue/chunk.js';
import { ChunkQueue } from '../../src/queue/chunk-queue.js';
import { chunkId } from '../../src/queue/names.js';
import type { Store } from '../../src/store/store.js';
import { describeEachStore } from '../support/stores.js';

const QUEUE = 'promptmill-lm-35-turbo-instruct-1234abcd';
/** No lock runs out within a test: an hour, in milliseconds. */
const LOCK_MS = 3_600_000;

const chunk = (run: string, first: number): Chunk => ({
  run,
  execution: 1,
  first,
  endpoints: [
    {
      name: 'lm-35-turbo-instruct',
      operation: 'completions',
      deployment: 'lm-35-turbo-instruct',
      apiVersion: '2023-09-15-preview',
      style: 'deployments',
      timeoutMs: 1_000,
    },
  ],
  promptsPerRequest: 1,
  budget: null,
  hold: false,
  asks: null,
  parameters: {},
  rows: [{ row: first, prompt: 'one', parameters: null }],
});
const id = (run: string, first: number): string => chunkId(run, 1, first);

describeEachStore('what a lost worker holds', (under) => {
  let store: Store;
  let queue: ChunkQueue;
  const workers: Worker[] = [];
  const said: string[] = [];

  /** A worker that takes an entry when it is asked to, and does nothing with it. */
  function worker(name: string): () => Promise<Job> {
    const connection = store.connection;
    const options = { name, connection, lockDuration: LOCK_MS, skipStalledCheck: true };
    const taker = new Worker(QUEUE, null, options, store.backendFactory);
    taker.on('error', () => {});
    workers.push(taker);
    return async () => {
      const job = await taker.getNextJob(`${name}:token`, { block: false });
      if (job === undefined) throw new Error('the queue is empty');
      return job;
    };
  }

  beforeAll(async () => {
    store = await under().open();
    queue = new ChunkQueue(store, QUEUE, 3, pino({ level: 'warn' }, { write: (line) => said.push(line) }));
  });
  afterAll(async () => {
    await queue.close();
    for (const each of workers) await each.close(true);
  });

  it('is taken by another at once, and what others hold stays with them', async () => {
    await queue.add([chunk('ours', 1), chunk('ours', 51), chunk('theirs', 101)]);
    const lost = worker('lost');
    const other = worker('other');
    const held = await lost();
    expect(held.id).toBe(id('ours', 1));
    expect((await other()).id).toBe(id('ours', 51));
    expect((await lost()).id).toBe(id('theirs', 101));

    await queue.requeueHeldBy('ours', new Set(['lost', 'never-seen']));
    expect(await queue.state(id('ours', 1))).toBe('queued');
    expect(await queue.state(id('ours', 51)), 'of another worker').toBe('active');
    expect(await queue.state(id('theirs', 101)), 'of another run').toBe('active');
    expect(said.join('')).toContain('"chunks":1');

    const again = await other();
    expect(again).toMatchObject({ id: id('ours', 1), processedBy: 'other', attemptsMade: 0 });
    // The one that was lost was only asleep. It can do nothing to the entry any more.
    await expect(held.moveToCompleted(null, 'lost:token', false)).rejects.toThrow();
    expect(await held.extendLock('lost:token', LOCK_MS)).toBe(0);
    expect(await queue.state(id('ours', 1))).toBe('active');
    await queue.requeueHeldBy('ours', new Set(['lost']));
    expect(await queue.state(id('ours', 1)), 'it has nothing any more').toBe('active');
  });

  it('is taken back by the next execution when the process of the run dies over it', async () => {
    await queue.add([chunk('dying', 1), chunk('dying', 51)]);
    const lost = worker('lost');
    await lost();
    await lost();
    // It has looked at the first entry, and moves neither.
    const move = vi.spyOn(Job.prototype, 'moveToWait').mockRejectedValue(new Error('killed'));
    await expect(queue.requeueHeldBy('dying', new Set(['lost']))).rejects.toThrow('killed');
    move.mockRestore();
    expect(await queue.state(id('dying', 1))).toBe('active');
    const next = new ChunkQueue(store, QUEUE, 3, pino({ level: 'silent' }));
    await next.requeueHeldBy('dying', new Set(['lost']));
    expect([await next.state(id('dying', 1)), await next.state(id('dying', 51))]).toEqual([
      'queued',
      'queued',
    ]);
    await next.withdraw('dying');
    await next.close();
  });

  it('goes back once more when another has taken it between the look at it and the move', async () => {
    await queue.add([chunk('raced', 1)]);
    await worker('lost')();
    const other = worker('other');
    const { moveToWait } = Job.prototype;
    const move = vi.spyOn(Job.prototype, 'moveToWait').mockImplementationOnce(async function (
      this: Job,
      token,
    ) {
      // BullMQ finds the lock run out in this moment, and another worker is free.
      await moveToWait.call(this, token);
      expect((await other()).id).toBe(id('raced', 1));
      return moveToWait.call(this, token);
    });
    await queue.requeueHeldBy('raced', new Set(['lost']));
    move.mockRestore();
    // The other finds at its next renewal that the entry is not its own: it finishes its calls and leaves the rest.
    expect(await queue.state(id('raced', 1))).toBe('queued');
    expect((await worker('third')()).processedBy).toBe('third');
  });

  it('can be withdrawn at once', async () => {
    await queue.add([chunk('halted', 1)]);
    await worker('lost')();
    await queue.requeueHeldBy('halted', new Set(['lost']));
    await queue.withdraw('halted');
    expect(await queue.state(id('halted', 1))).toBe('missing');
  });

  it('fault 44: that has lost four workers is given up as a chunk', async () => {
    await queue.add([chunk('poisonous', 1)]);
    for (const name of ['first', 'second', 'third', 'fourth']) {
      expect(await queue.state(id('poisonous', 1)), `before the ${name}`).toBe('queued');
      await worker(name)();
      await queue.requeueHeldBy('poisonous', new Set([name]));
    }
    expect(await queue.state(id('poisonous', 1))).toBe('failed');
    // The run takes it apart then, as one that BullMQ has counted.
    await queue.remove(id('poisonous', 1));
    expect(await queue.state(id('poisonous', 1))).toBe('missing');
  });
});
