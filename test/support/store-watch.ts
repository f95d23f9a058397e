import { setTimeout as sleep } from 'node:timers/promises';
import { QueueEvents } from 'bullmq';
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
  close(): Promise<void>;
}

export async function watchStore(trial: Trial): Promise<StoreWatch> {
  const { PROMPTMILL_QUEUE = '', PROMPTMILL_BASE_URL: base } = trial.env;
  const store = await openStore(PROMPTMILL_QUEUE, { stateDir: '/dev/null/never', onWarning: () => {} });
  const events = new QueueEvents(
    queueName('lm-35-turbo-instruct', `${base}/openai`),
    { connection: store.connectionFor('worker') },
    store.backendFactory,
  );
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
    close: async () => {
      await events.close();
      await store.close();
    },
  };
}
