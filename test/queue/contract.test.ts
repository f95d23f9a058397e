import {
  type Job,
  type JobsOptions,
  Queue,
  RateLimitError,
  UnrecoverableError,
  WaitingError,
  Worker,
  type WorkerOptions,
} from 'bullmq';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { ENTRY_LIMIT } from '../../src/queue/chunk-queue.js';
import type { Store } from '../../src/store/store.js';
import { describeEachStore } from '../support/stores.js';

/** No lock runs out and no entry is due within a test: an hour, in milliseconds. */
const HOUR = 3_600_000;
const TOKEN = 'a-token';

type Data = { readonly n: number };

/** What Promptmill relies on in BullMQ, whatever the store is. */
describeEachStore('a queue of BullMQ', (under) => {
  let store: Store;
  let queue: Queue<Data>;
  let made = 0;
  const opened: { close(): Promise<void> }[] = [];
  beforeAll(async () => {
    store = await under().open();
  });
  afterAll(() => store.close());
  afterEach(async () => {
    vi.useRealTimers();
    for (const each of opened.splice(0).reverse()) await each.close();
  });

  /** A queue of its own for each test. */
  function begin(): void {
    queue = new Queue(`contract-${++made}`, { connection: store.connection }, store.backendFactory);
    queue.on('error', () => {});
    opened.push(queue);
  }
  const add = (id: string, opts: JobsOptions = {}): Promise<Job<Data>> =>
    queue.add('chunk', { n: 1 }, { jobId: id, ...opts });

  /** A worker that takes an entry when it is asked to. */
  function taker(options: Partial<WorkerOptions> = {}): (token?: string) => Promise<Job<Data> | undefined> {
    const worker = new Worker<Data>(
      queue.name,
      null,
      {
        connection: store.connection,
        ...{ lockDuration: HOUR, skipStalledCheck: true, name: 'taker', ...options },
      },
      store.backendFactory,
    );
    worker.on('error', () => {});
    opened.push(worker);
    return (token = TOKEN) => worker.getNextJob(token, { block: false });
  }

  /** A worker that takes entries by itself. */
  function worker(
    work: (job: Job<Data>, token: string) => Promise<unknown>,
    options: Partial<WorkerOptions> = {},
  ) {
    const made = new Worker<Data>(
      queue.name,
      (job, token = '') => work(job, token),
      {
        connection: store.connection,
        // Longer than a test may last: only what happens to the queue can wake it.
        ...{ lockDuration: HOUR, drainDelay: 3_600, ...options },
      },
      store.backendFactory,
    );
    made.on('error', () => {});
    opened.push(made);
    return made;
  }

  async function takeAll(): Promise<string[]> {
    const take = taker();
    const ids: string[] = [];
    for (let job = await take(); job !== undefined; job = await take()) ids.push(job.id ?? '');
    return ids;
  }
  async function takeOne(take = taker()): Promise<Job<Data>> {
    const job = await take();
    if (job === undefined) throw new Error('there is nothing to take');
    return job;
  }

  describe('hands entries out', () => {
    it('by their priority, and then in the order in which they were added', async () => {
      begin();
      await queue.addBulk(
        ['c-7', 'a-2', 'none', 'b-2', 'd-7', 'e-1'].map((jobId) => ({
          name: 'chunk',
          data: { n: 1 },
          opts: { jobId, ...(jobId !== 'none' && { priority: Number(jobId.slice(2)) }) },
        })),
      );
      expect(await takeAll()).toEqual(['none', 'e-1', 'a-2', 'b-2', 'c-7', 'd-7']);
    });

    it('first of their priority, when a worker puts them back', async () => {
      begin();
      for (const id of ['a', 'b']) await add(id, { priority: 2 });
      await add('first', { priority: 1 });
      const take = taker();
      const first = await takeOne(take);
      const a = await takeOne(take);
      expect([first.id, a.id]).toEqual(['first', 'a']);
      expect(await a.moveToWait(TOKEN)).toBe(0);
      expect(a.attemptsMade).toBe(0);
      expect(await takeAll()).toEqual(['a', 'b']);
    });

    it('with what the worker needs to know of them', async () => {
      begin();
      await add('known', { priority: 3, attempts: 5 });
      const job = await takeOne();
      expect(job).toMatchObject({
        ...{ id: 'known', name: 'chunk', data: { n: 1 }, priority: 3, token: TOKEN, processedBy: 'taker' },
        ...{ attemptsMade: 0, attemptsStarted: 1, stalledCounter: 0 },
      });
      expect(job.opts).toMatchObject({ attempts: 5, jobId: 'known' });
      expect(await queue.getJob('known')).toMatchObject({ attemptsStarted: 1, processedBy: 'taker' });
    });

    it('to a worker that waits, as soon as there is one', async () => {
      begin();
      const taken: string[] = [];
      const busy = worker(async ({ id }) => taken.push(id ?? ''));
      await new Promise((resolve) => busy.once('drained', () => resolve(null)));
      for (const id of ['a', 'b', 'c']) {
        const done = new Promise((resolve) => busy.once('completed', resolve));
        await add(id, { removeOnComplete: true });
        await done;
      }
      expect(taken).toEqual(['a', 'b', 'c']);
    });
  });

  describe('with ids of ours', () => {
    it('keeps the entry that is there when it is added again', async () => {
      begin();
      await add('same', { priority: 4 });
      expect((await queue.add('chunk', { n: 2 }, { jobId: 'same' })).id).toBe('same');
      await queue.addBulk([{ name: 'chunk', data: { n: 3 }, opts: { jobId: 'same', priority: 1 } }]);
      expect(await queue.getJobCounts('prioritized', 'waiting')).toEqual({ prioritized: 1, waiting: 0 });
      expect(await queue.getJob('same')).toMatchObject({ data: { n: 1 }, priority: 4 });
    });

    it('has a place for the id again once the entry has ended or was removed', async () => {
      begin();
      await add('ends', { removeOnComplete: true });
      await (await takeOne()).moveToCompleted(null, TOKEN, false);
      expect(await queue.getJobState('ends')).toBe('unknown');
      await add('ends');
      expect(await queue.remove('ends')).toBe(1);
      expect(await queue.getJobState('ends')).toBe('unknown');
      await add('ends');
      expect(await takeAll()).toEqual(['ends']);
    });

    it('removes nothing that a worker has', async () => {
      begin();
      await add('held');
      await takeOne();
      expect(await queue.remove('held')).toBe(0);
      expect(await queue.getJobState('held')).toBe('active');
    });
  });

  describe('keeps an entry for later', () => {
    it('until it is due, also for a worker that waits', async () => {
      begin();
      const taken: number[] = [];
      const busy = worker(async () => taken.push(Date.now()));
      await new Promise((resolve) => busy.once('drained', () => resolve(null)));
      const done = new Promise((resolve) => busy.once('completed', resolve));
      const { timestamp } = await add('later', { delay: 150 });
      await done;
      // Redis takes the time of the process, and so does the embedded store.
      expect(taken[0]).toBeGreaterThanOrEqual(timestamp + 150);
    });

    it('and before it is due when it is let go', async () => {
      begin();
      for (const id of ['a', 'b']) await add(id, { delay: HOUR });
      expect(await takeAll()).toEqual([]);
      expect(await queue.getJobCounts('delayed')).toEqual({ delayed: 2 });
      await queue.promoteJobs();
      expect((await takeAll()).sort()).toEqual(['a', 'b']);
    });

    it('that a worker puts off, which uses up no attempt', async () => {
      begin();
      await add('off', { attempts: 2 });
      const job = await takeOne();
      await job.moveToDelayed(Date.now() + HOUR, TOKEN);
      expect(await queue.getJobState('off')).toBe('delayed');
      expect(await queue.getJob('off')).toMatchObject({ attemptsMade: 0, attemptsStarted: 1 });
    });
  });

  describe('tries again', () => {
    const settings = { backoffStrategy: () => HOUR };

    it('after the backoff of the worker, and fails the entry after the last attempt', async () => {
      begin();
      await add('fails', { attempts: 2, backoff: { type: 'custom' } });
      const take = taker({ settings });
      await (await takeOne(take)).moveToFailed(new Error('first'), TOKEN, false);
      expect(await queue.getJobState('fails')).toBe('delayed');
      expect(await queue.getJob('fails')).toMatchObject({
        attemptsMade: 1,
        failedReason: 'first',
        delay: HOUR,
      });
      await queue.promoteJobs();
      const again = await takeOne(take);
      expect(again).toMatchObject({ attemptsMade: 1, attemptsStarted: 2 });
      await again.moveToFailed(new Error('last'), TOKEN, false);
      expect(await queue.getJobState('fails')).toBe('failed');
      expect(await queue.getJob('fails')).toMatchObject({ attemptsMade: 2, failedReason: 'last' });
      expect(await queue.remove('fails')).toBe(1);
    });

    it('behind the others of its priority, where there is no backoff', async () => {
      begin();
      for (const id of ['a', 'b']) await add(id, { attempts: 3, priority: 1 });
      const take = taker();
      const a = await takeOne(take);
      await a.moveToFailed(new Error('at once'), TOKEN, false);
      expect(await takeAll()).toEqual(['b', 'a']);
      expect(await queue.getJob('a')).toMatchObject({ attemptsMade: 1, attemptsStarted: 2 });
    });

    it('never what cannot be done', async () => {
      begin();
      await add('never', { attempts: 9 });
      await (await takeOne()).moveToFailed(new UnrecoverableError('refused: why'), TOKEN, false);
      expect(await queue.getJobState('never')).toBe('failed');
      expect((await queue.getJob('never'))?.failedReason).toBe('refused: why');
    });

    it('and keeps so many failed ones as it is told', async () => {
      begin();
      const take = taker();
      for (const id of ['a', 'b', 'c']) {
        await add(id, { removeOnFail: { age: 24 * 3600, count: 2 } });
        const job = await takeOne(take);
        // Of the same millisecond two would be equal.
        while (Date.now() <= (job.processedOn ?? 0) + 1);
        await job.moveToFailed(new Error(id), TOKEN, false);
      }
      expect((await queue.getJobs(['failed'])).map(({ id }) => id)).toEqual(['c', 'b']);
    });

    it('hands out the next entry with the end of one', async () => {
      begin();
      const seen: string[] = [];
      const all = new Promise<void>((resolve) => {
        worker(async ({ id, attemptsMade }) => {
          seen.push(`${id}${attemptsMade}`);
          if (id === 'c') resolve();
          if (id === 'b' && attemptsMade === 0) throw new Error('once');
        });
      });
      await queue.addBulk(
        ['a', 'b', 'c'].map((jobId) => ({
          ...{ name: 'chunk', data: { n: 1 } },
          opts: { jobId, attempts: 2, priority: jobId === 'c' ? 2 : 1, removeOnComplete: true },
        })),
      );
      await all;
      expect(seen).toEqual(['a0', 'b0', 'b1', 'c0']);
    });
  });

  describe('gives an entry to one worker', () => {
    it('and no other can end it, put it off or put it back', async () => {
      begin();
      await add('one', { attempts: 3 });
      const job = await takeOne();
      await expect(job.moveToCompleted(null, 'another', false)).rejects.toThrow();
      await expect(job.moveToFailed(new Error('why'), 'another', false)).rejects.toThrow();
      await expect(job.moveToDelayed(Date.now() + HOUR, 'another')).rejects.toThrow();
      expect(await queue.getJobState('one')).toBe('active');
      await job.moveToCompleted(null, TOKEN, false);
      expect(await queue.getJobState('one')).toBe('completed');
    });

    it('whose lock it renews, and says which it has lost', async () => {
      begin();
      for (const id of ['mine', 'theirs']) await add(id);
      const take = taker();
      await take('me');
      await take('them');
      const renewer = worker(async () => {}, { autorun: false });
      const ids = ['mine', 'theirs', 'gone'];
      expect(await renewer.extendJobLocks(ids, ['me', 'me', 'me'], HOUR)).toEqual(['theirs', 'gone']);
    });

    it('that may be overruled with the token 0', async () => {
      begin();
      await add('taken', { priority: 1 });
      const job = await takeOne();
      await job.moveToWait('0');
      expect(await queue.getJobState('taken')).toBe('prioritized');
      await takeOne(() => taker()('another'));
      await job.moveToCompleted(null, '0', false);
      expect(await queue.getJobState('taken')).toBe('completed');
    });

    it('until it stalls: then another gets it, and it fails when it has lost too many', async () => {
      begin();
      await add('stalls', { attempts: 9 });
      const take = taker({ lockDuration: 1 });
      const found = { stalledInterval: 20, maxStalledCount: 1, skipStalledCheck: false };
      await takeOne(take);
      const second = new Promise<Job<Data>>((resolve) => {
        const other = worker(async (job) => resolve(job), { ...found, autorun: true });
        other.once('stalled', () => other.pause(true));
      });
      expect(await second).toMatchObject({ stalledCounter: 1, attemptsStarted: 2 });
      await expect.poll(() => queue.getJobState('stalls')).toBe('completed');

      await add('again', { attempts: 9 });
      for (const _ of [1, 2]) {
        await takeOne(take);
        const looker = worker(async () => {}, { ...found, autorun: false });
        const stalled = new Promise((resolve) => looker.once('stalled', resolve));
        await looker.startStalledCheckTimer();
        await stalled;
        await looker.close();
      }
      const failed = worker(async () => {});
      await new Promise((resolve) => failed.once('failed', resolve));
      expect((await queue.getJob('again'))?.failedReason).toBe('job stalled more than allowable limit');
    });
  });

  describe('hands out nothing', () => {
    it('while it is paused, and wakes those who wait when it goes on', async () => {
      begin();
      await queue.pause();
      expect(await queue.isPaused()).toBe(true);
      await add('halted');
      const taken = new Promise((resolve) => worker(async ({ id }) => resolve(id)));
      expect(await takeAll()).toEqual([]);
      await queue.resume();
      expect(await queue.isPaused()).toBe(false);
      expect(await taken).toBe('halted');
    });

    it('while it is limited, to workers with a limiter', async () => {
      begin();
      await add('limited');
      await queue.rateLimit(HOUR);
      const take = taker({ limiter: ENTRY_LIMIT });
      expect(await take()).toBeUndefined();
      const left = await queue.getRateLimitTtl(ENTRY_LIMIT.max);
      expect(left).toBeGreaterThan(HOUR / 2);
      expect(left).toBeLessThanOrEqual(HOUR);
      expect(await queue.removeRateLimitKey()).toBe(1);
      expect(await queue.getRateLimitTtl(ENTRY_LIMIT.max)).toBe(0);
      expect((await taker({ limiter: ENTRY_LIMIT })())?.id).toBe('limited');
    });

    it('for a while, when a worker says so; that uses up no attempt', async () => {
      begin();
      await add('back', { attempts: 1 });
      const attempts: number[] = [];
      const done = new Promise<void>((resolve) => {
        worker(
          async ({ attemptsMade }) => {
            attempts.push(attemptsMade);
            if (attempts.length === 3) return resolve();
            await queue.rateLimit(20);
            throw new RateLimitError();
          },
          { limiter: ENTRY_LIMIT },
        );
      });
      await done;
      expect(attempts).toEqual([0, 0, 0]);
    });
  });

  it('lets a worker go that waits for entries', async () => {
    begin();
    const idle = worker(async () => {});
    await new Promise((resolve) => idle.once('drained', () => resolve(null)));
    await idle.close();
    const early = worker(async () => {});
    await early.close();
  });

  describe('schedules', () => {
    const put = (pattern: string, n = 1) =>
      queue.upsertJobScheduler(
        'night',
        { pattern, tz: 'Europe/Berlin' },
        { name: 'tick', data: { n }, opts: { removeOnComplete: true, removeOnFail: true } },
      );

    it('an entry for the next time, and another one when that changes', async () => {
      begin();
      await put('0 0 2 * * *');
      const [scheduler] = await queue.getJobSchedulers(0, 9, true);
      const next = scheduler?.next ?? 0;
      expect(scheduler).toMatchObject({
        key: 'night',
        name: 'tick',
        pattern: '0 0 2 * * *',
        tz: 'Europe/Berlin',
      });
      expect(scheduler?.template).toMatchObject({ data: { n: 1 } });
      const [entry] = await queue.getJobs(['delayed']);
      expect(entry).toMatchObject({
        id: `repeat:night:${next}`,
        name: 'tick',
        data: { n: 1 },
        repeatJobKey: 'night',
      });
      await put('0 0 3 * * *', 2);
      const entries = await queue.getJobs(['delayed']);
      expect(entries.map(({ data }) => data)).toEqual([{ n: 2 }]);
      expect(await queue.getJobSchedulers(0, 9, true)).toHaveLength(1);
      await expect(queue.remove(entries[0]?.id ?? '')).rejects.toThrow();
      expect(await queue.removeJobScheduler('night')).toBe(true);
      expect(await queue.removeJobScheduler('night')).toBe(false);
      expect(await queue.getJobCounts('delayed')).toEqual({ delayed: 0 });
      expect(await queue.getJobSchedulers(0, 9, true)).toEqual([]);
    });

    it('the next entry as soon as one is taken, and only one when that is handed out again', async () => {
      // The stores take the time from this process: no entry becomes due while the test looks.
      vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-11-21T00:59:00Z') });
      begin();
      await put('0 0 2 * * *');
      vi.setSystemTime(new Date('2026-11-21T01:00:00Z'));
      const seen: (readonly [id: string | undefined, delayed: number | undefined])[] = [];
      await new Promise<void>((resolve) => {
        const taking = worker(async (job, token) => {
          seen.push([job.id, (await queue.getJobCounts('delayed'))['delayed']]);
          if (seen.length === 2) return resolve(taking.pause(true));
          await job.moveToWait(token);
          throw new WaitingError();
        });
      });
      const first = `repeat:night:${Date.parse('2026-11-21T01:00:00Z')}`;
      expect(seen).toEqual([
        [first, 1],
        [first, 1],
      ]);
      const [scheduler] = await queue.getJobSchedulers(0, 9, true);
      expect(scheduler?.next).toBe(Date.parse('2026-11-22T01:00:00Z'));
      await queue.removeJobScheduler('night');
    });
  });

  it('shows what it has to those who look on', async () => {
    begin();
    for (const id of ['a', 'b', 'c', 'd']) await add(id, { priority: 1 });
    for (const id of ['w1', 'w2', 'w3']) await add(id);
    for (const [id, delay] of [
      ['d2', 2 * HOUR],
      ['d1', HOUR],
    ] as const)
      await add(id, { delay });
    const ids = async (...look: Parameters<typeof queue.getJobs>): Promise<(string | undefined)[]> =>
      (await queue.getJobs(...look)).map(({ id }) => id);
    expect(await ids(['prioritized'], 0, -1, true)).toEqual(['a', 'b', 'c', 'd']);
    expect(await ids(['prioritized'], 0, 1, true)).toEqual(['a', 'b']);
    expect(await ids(['prioritized'], 0, 1, false)).toEqual(['d', 'c']);
    expect(await ids(['waiting'], 0, -1, true)).toEqual(['w1', 'w2', 'w3']);
    expect(await ids(['waiting'], 0, 1, false)).toEqual(['w3', 'w2']);
    expect(await ids(['delayed'], 0, 0, true)).toEqual(['d1']);
    const take = taker();
    for (let i = 0; i < 4; i++) await take();
    expect(await ids(['active'], 0, -1)).toHaveLength(4);
    expect(await queue.getJobCounts('active', 'waiting', 'prioritized', 'delayed', 'failed')).toEqual({
      ...{ active: 4, waiting: 0, prioritized: 3, delayed: 2, failed: 0 },
    });
    expect(await Promise.all(['a', 'b', 'd1', 'none'].map((id) => queue.getJobState(id)))).toEqual([
      ...['active', 'prioritized', 'delayed', 'unknown'],
    ]);
    expect(await queue.getJob('none')).toBeUndefined();
  });
});
