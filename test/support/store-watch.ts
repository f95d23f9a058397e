import { setTimeout as sleep } from 'node:timers/promises';
import { type Job, Queue, QueueEvents } from 'bullmq';
import { readWorkers } from '../../src/ops/heartbeat.js';
import { queueName } from '../../src/queue/names.js';
import { openStore } from '../../src/store/open.js';
import type { Trial } from './trial.js';

/** Pause between two looks, in milliseconds. */
const LOOK_MS = 20;

/** What the store of a trial tells somebody who looks on. */
export interface StoreWatch {
  /** Resolves when an entry of the queue has lost its lock and a worker has taken it again. */
  readonly takenAgain: Promise<void>;
  /** Resolves when the ledger knows of so many calls in flight. */
  inFlight(calls: number): Promise<void>;
  /** Resolves when no entry is with the worker of this process. */
  takenFrom(pid: number): Promise<void>;
  /** Resolves when the worker of this process has said twice more that it lives. */
  awake(pid: number): Promise<void>;
  close(): Promise<void>;
}

export async function watchStore(trial: Trial): Promise<StoreWatch> {
  const { PROMPTMILL_QUEUE = '', PROMPTMILL_BASE_URL: base } = trial.env;
  const store = await openStore(PROMPTMILL_QUEUE, { stateDir: '/dev/null/never', onWarning: () => {} });
  const name = queueName('lm-35-turbo-instruct', `${base}/openai`);
  const events = new QueueEvents(name, { connection: store.connection }, store.backendFactory);
  const queue = new Queue(name, { connection: store.connection }, store.backendFactory);
  queue.on('error', () => {});
  events.on('error', () => {});
  await events.waitUntilReady();
  const stalled = new Set<string>();
  const takenAgain = new Promise<void>((resolve) => {
    events.on('stalled', ({ jobId }) => stalled.add(jobId));
    events.on('active', ({ jobId }) => {
      if (stalled.has(jobId)) resolve();
    });
  });
  return {
    takenAgain,
    inFlight: async (calls) => {
      const run = String(trial.work.json('out.csv.run.json')['run']);
      while ((await store.ledger.progress(run, [])).calls.in_flight !== calls) await sleep(LOOK_MS);
    },
    takenFrom: async (pid) => {
      const isIts = ({ processedBy = '' }: Job): boolean => processedBy.includes(`-${pid}-`);
      while ((await queue.getJobs(['active'])).some(isIts)) await sleep(LOOK_MS);
    },
    awake: async (pid) => {
      let last = 0;
      for (let beats = 0; beats < 2; await sleep(LOOK_MS)) {
        const workers = readWorkers(await store.keyValue.list('worker'));
        const ageMs = workers.find(({ beat }) => beat.pid === pid)?.ageMs ?? Number.POSITIVE_INFINITY;
        if (ageMs < last) beats++;
        last = ageMs;
      }
    },
    close: async () => {
      await events.close();
      await queue.close();
      await store.close();
    },
  };
}
