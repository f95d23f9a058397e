import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type IQueueBackend, type Job, Queue, WaitingError, Worker } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openStore } from '../../src/store/open.js';
import type { Store } from '../../src/store/store.js';

const HOUR = 3_600_000;

let stateDir: string;
let store: Store;
let opened: { close(): Promise<void> }[];
let warnings: string[];

const open = async (): Promise<Store> => {
  store = await openStore('embedded', { stateDir, onWarning: (message) => warnings.push(message) });
  return store;
};
function queueOf(name = 'a-queue'): Queue {
  const queue = new Queue(name, { connection: store.connection }, store.backendFactory);
  queue.on('error', () => {});
  opened.push(queue);
  return queue;
}
function workerOf(work: (job: Job, token: string) => Promise<unknown>, name = 'a-queue'): Worker {
  const connection = store.connection;
  const worker = new Worker(
    name,
    (job, token = '') => work(job, token),
    { connection },
    store.backendFactory,
  );
  worker.on('error', () => {});
  opened.push(worker);
  return worker;
}
const close = async (): Promise<void> => {
  for (const each of opened.splice(0).reverse()) await each.close();
  await store.close();
};

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'promptmill-state-'));
  opened = [];
  warnings = [];
  await open();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await close();
  rmSync(stateDir, { recursive: true, force: true });
});

it('an entry that comes back at once leaves timers and sockets their turn', async () => {
  let rounds = 0;
  let roundsUntilTurn = 0;
  const queue = queueOf();
  const worker = workerOf(async (job, token) => {
    rounds++;
    if (roundsUntilTurn > 0) return;
    await job.moveToWait(token);
    throw new WaitingError();
  });
  const completed = new Promise((resolve) => worker.once('completed', resolve));
  await queue.add('chunk', {}, { jobId: 'r-1' });
  setTimeout(() => {
    roundsUntilTurn = rounds;
  }, 0);
  await completed;
  // One turn of the loop is a millisecond at most, in which a timer of 0 is due.
  console.log(roundsUntilTurn);
  expect(roundsUntilTurn).toBeLessThan(10_000);
});

it('a worker that waits does not look for entries meanwhile', async () => {
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const worker = workerOf(async () => {});
  await new Promise((resolve) => worker.once('drained', () => resolve(null)));
  await new Promise(setImmediate);
  // BullMQ's own: it looks after the locks, and for stalled entries.
  expect(timers.mock.calls.map(([, ms]) => ms).filter((ms) => ms !== 0)).toEqual([7_500, 30_000]);
});

it('an entry that is due is found soon after the clock was set forward', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] });
  try {
    const taken: unknown[] = [];
    const worker = workerOf(async ({ id }) => taken.push(id));
    await queueOf().add('chunk', {}, { jobId: 'r-1', delay: 8 * HOUR });
    await vi.advanceTimersByTimeAsync(10_000);
    const completed = new Promise((resolve) => worker.once('completed', resolve));
    vi.setSystemTime(Date.now() + 8 * HOUR);
    expect(taken).toEqual([]);
    await vi.advanceTimersByTimeAsync(5_000);
    await completed;
    expect(taken).toEqual(['r-1']);
  } finally {
    vi.useRealTimers();
  }
});

it('what Promptmill never asks for says that it is not here', async () => {
  const queue = queueOf();
  await expect(queue.obliterate()).rejects.toThrow('obliterate is not in the embedded store');
  await expect(queue.setGlobalConcurrency(1)).rejects.toThrow('(concurrency) is not in the embedded store');
  await expect(queue.add('chunk', {}, { deduplication: { id: 'a' } })).rejects.toThrow('deduplication');
});

it('fault 39: of a directory that was moved is said that it was', async () => {
  renameSync(join(stateDir, 'store'), join(stateDir, 'elsewhere'));
  await expect(store.ping()).rejects.toMatchObject({
    code: 'lock_lost',
    message: expect.stringMatching(/store, which has the queue, was moved or removed/),
  });
});

it('fault 39: nothing can be done in a directory that is another process’s', async () => {
  const queue = queueOf();
  const job = await queue.add('chunk', {}, { jobId: 'r-1' });
  const worker = workerOf(async () => {});
  await worker.pause();
  const faults: string[] = [];
  store.health.onProblem(({ code }) => faults.push(code));
  rmSync(join(stateDir, 'store', 'lock'), { recursive: true });
  const backend: IQueueBackend = queue.getBackend();
  const asks: Readonly<Record<string, () => Promise<unknown>>> = {
    ping: () => store.ping(),
    add: () => queue.add('chunk', {}),
    addBulk: () => queue.addBulk([{ name: 'chunk', data: {} }]),
    take: () => worker.getNextJob('token', { block: false }),
    complete: () => job.moveToCompleted(null, '0', false),
    fail: () => job.moveToFailed(new Error('why'), '0', false),
    delay: () => job.moveToDelayed(Date.now() + HOUR, '0'),
    wait: () => job.moveToWait('0'),
    retry: () => backend.retryJob('r-1', false, '0'),
    stalled: () => backend.moveStalledJobsToWait(),
    promote: () => queue.promoteJobs(),
    pause: () => queue.pause(),
    locks: () => worker.extendJobLocks(['r-1'], ['token'], HOUR),
    remove: () => queue.remove('r-1'),
    schedule: () => queue.upsertJobScheduler('s', { pattern: '* * * * *' }),
    unschedule: () => queue.removeJobScheduler('s'),
    schedulers: () => queue.getJobSchedulers(),
    state: () => queue.getJobState('r-1'),
    data: () => queue.getJob('r-1'),
    counts: () => queue.getJobCounts(),
    list: () => queue.getJobs(['active']),
    isPaused: () => queue.isPaused(),
    limit: () => queue.rateLimit(1),
    unlimit: () => queue.removeRateLimitKey(),
    limited: () => queue.getRateLimitTtl(1),
    waiting: () => backend.waitForJob(1),
    note: () => backend.setQueueMeta({ version: '1' }),
  };
  await worker.resume();
  for (const [what, ask] of Object.entries(asks)) {
    if (what === 'take') continue;
    await expect(ask(), what).rejects.toMatchObject({ code: 'lock_lost' });
  }
  expect(faults).toEqual(['lock_lost']);
});

describe('a schedule', () => {
  const file = (): string => join(stateDir, 'store', 'schedulers.json');
  const put = (queue: Queue, name: string, pattern: string) =>
    queue.upsertJobScheduler(name, { pattern, tz: 'UTC' }, { name: 'tick', data: { name }, opts: KEPT_NOT });
  const KEPT_NOT = { removeOnComplete: true, removeOnFail: true };
  /** As another process finds it, after this one has ended or was killed. */
  const next = async (): Promise<Queue> => {
    await close();
    await open();
    return queueOf();
  };
  const listed = (queue: Queue) => queue.getJobSchedulers(0, 9, true);

  it('is there for the next process, with what was due meanwhile', async () => {
    await put(queueOf(), 'night', '0 2 * * *');
    await put(queueOf(), 'noon', '0 12 * * *');
    const before = await listed(queueOf());
    const again = await next();
    expect(await listed(again)).toEqual(before);
    expect(await again.getJobCounts('delayed', 'waiting')).toEqual({ delayed: 2, waiting: 0 });
    expect(await again.removeJobScheduler('noon')).toBe(true);

    const later = await next();
    expect((await listed(later)).map(({ key }) => key)).toEqual(['night']);
    const due = Number((await listed(later))[0]?.next);
    await close();
    vi.spyOn(Date, 'now').mockReturnValue(due + 9 * HOUR);
    await open();
    const caughtUp = new Promise<Job>((resolve) => workerOf(async (job) => resolve(job)));
    expect(await caughtUp).toMatchObject({ id: `repeat:night:${due}`, data: { name: 'night' } });
    await vi.waitUntil(async () => (await queueOf().getJobCounts('active'))['active'] === 0);
    // One for all that was missed.
    expect((await listed(queueOf()))[0]?.next).toBe(due + 24 * HOUR);
  });

  it('has an entry again that was taken by a process that was killed', async () => {
    const queue = queueOf();
    await put(queue, 'tick', '* * * * * *');
    const never = new Promise(() => {});
    const taken = await new Promise<Job>((resolve) => {
      const worker = workerOf(async (job) => {
        resolve(job);
        await never;
      });
      opened.splice(opened.indexOf(worker), 1);
    });
    const left = readFileSync(file());
    await close();
    writeFileSync(file(), left);
    await open();
    const again = await new Promise<Job>((resolve) => workerOf(async (job) => resolve(job)));
    expect(again.id).toBe(taken.id);
    expect(again.data).toEqual({ name: 'tick' });
    await queueOf().removeJobScheduler('tick');
  });

  it('is refused when its file is damaged, with what to do', async () => {
    await put(queueOf(), 'night', '0 2 * * *');
    const whole = readFileSync(file(), 'utf8');
    await close();
    for (const damaged of [
      '',
      '{',
      'null',
      '{"v":2,"queues":{}}',
      whole.replace('"next":', '"next":"x","_":'),
    ]) {
      writeFileSync(file(), damaged);
      await expect(open(), damaged).rejects.toMatchObject({
        ...{ exit: 2, code: 'bad_state_dir', message: expect.stringContaining(file()) },
        hint: expect.stringContaining('promptmill schedule sync'),
      });
    }
    writeFileSync(file(), whole);
    await open();
    expect(await listed(queueOf())).toHaveLength(1);
  });

  it('fault 39: that cannot be written is told to whoever changes it, and what is at work goes on', async () => {
    const queue = queueOf();
    await put(queue, 'tick', '* * * * * *');
    mkdirSync(`${file()}.new`);
    await expect(put(queue, 'night', '0 2 * * *')).rejects.toThrow('EISDIR');
    await expect(queue.removeJobScheduler('night')).rejects.toThrow('EISDIR');
    const ticks: unknown[] = [];
    await new Promise<void>((resolve) => {
      workerOf(async ({ id }) => {
        ticks.push(id);
        if (ticks.length === 2) resolve();
      });
    });
    expect(new Set(ticks).size).toBe(2);
    expect(warnings[0]).toContain(`cannot note the schedule in ${file()}`);
    rmSync(`${file()}.new`, { recursive: true });
    await queue.removeJobScheduler('tick');
    expect(readdirSync(join(stateDir, 'store')).sort()).toEqual(['ledger', 'lock', 'schedulers.json']);
  });
});
