import { Queue, Worker } from 'bullmq';
import { expect, test } from 'vitest';
import { describeEachStore } from '../support/stores.js';

describeEachStore('a store', (underTest) => {
  test('carries jobs from a queue to a worker', async () => {
    const store = await underTest().open();
    const queue = new Queue<{ n: number }>('carry', { connection: store.connection }, store.backendFactory);
    const seen: number[] = [];
    let all = (): void => {};
    const finished = new Promise<void>((resolve) => {
      all = resolve;
    });
    const worker = new Worker<{ n: number }>(
      'carry',
      async (job) => {
        seen.push(job.data.n);
        if (seen.length === 20) all();
      },
      { connection: store.connection, concurrency: 4 },
      store.backendFactory,
    );
    await worker.waitUntilReady();
    await queue.addBulk(
      Array.from({ length: 20 }, (_, n) => ({ name: 'chunk', data: { n }, opts: { jobId: `r-${n}` } })),
    );
    await finished;
    expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => n));
    await worker.close();
    await queue.close();
    await store.close();
  });

  test('wakes a waiting worker for a job that comes later', async () => {
    const store = await underTest().open();
    const queue = new Queue('later', { connection: store.connection }, store.backendFactory);
    let done = (): void => {};
    const processed = new Promise<void>((resolve) => {
      done = resolve;
    });
    const worker = new Worker(
      'later',
      async () => done(),
      {
        connection: store.connection,
        // Longer than the test may last: only a notice can wake it.
        drainDelay: 3_600,
      },
      store.backendFactory,
    );
    const idle = new Promise((resolve) => worker.once('drained', () => resolve(null)));
    await queue.add('chunk', {}, { jobId: 'r-1' });
    await processed;
    await idle;
    const again = new Promise<void>((resolve) => {
      done = resolve;
    });
    await queue.add('chunk', {}, { jobId: 'r-2' });
    await again;
    await worker.close();
    await queue.close();
    await store.close();
  });

  test('keeps what it holds when it is closed and opened again', async () => {
    const store = await underTest().open();
    const queue = new Queue('kept', { connection: store.connection }, store.backendFactory);
    await queue.add('chunk', { text: 'x' }, { jobId: 'r-1' });
    await store.ledger.stop('kept', 1, { code: 'c', message: 'm' });
    await queue.close();
    await store.close();

    const again = await underTest().open();
    const same = new Queue('kept', { connection: again.connection }, again.backendFactory);
    // The queue of an embedded store is in the process: a run adds its entries again.
    const isKept = underTest().kind !== 'embedded';
    expect((await same.getJob('r-1'))?.data).toEqual(isKept ? { text: 'x' } : undefined);
    expect((await again.ledger.progress('kept', [])).stop).toEqual({ code: 'c', message: 'm' });
    await same.close();
    await again.close();
  });

  test('describes itself without its password', async () => {
    const { kind, open } = underTest();
    const store = await open();
    expect(store.describe()).not.toContain('loopback-only');
    expect(store.describe()).toMatch({ embedded: /store$/, redis: /^redis:\/\/127/ }[kind]);
    await store.close();
  });

  test('may be closed twice', async () => {
    const store = await underTest().open();
    await store.close();
    await store.close();
  });
});
