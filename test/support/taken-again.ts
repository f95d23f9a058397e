import { QueueEvents } from 'bullmq';
import { queueName } from '../../src/queue/names.js';
import { openStore } from '../../src/queue/open-store.js';
import type { Trial } from './trial.js';

/** Watches the queue of a trial for entries whose lock ran out. */
export interface StallWatch {
  /** Resolves when an entry has lost its lock and a worker has taken it again. */
  readonly takenAgain: Promise<void>;
  close(): Promise<void>;
}

export async function watchStalls(trial: Trial): Promise<StallWatch> {
  const { PROMPTMILL_QUEUE = '', PROMPTMILL_BASE_URL: base } = trial.env;
  const store = await openStore(PROMPTMILL_QUEUE, { stateDir: '/dev/null/never', onWarning: () => {} });
  const events = new QueueEvents(
    queueName('lm-35-turbo-instruct', `${base}/openai`),
    { connection: store.connectionFor('worker') },
    store.backendFactory,
  );
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
    close: async () => {
      await events.close();
      await store.close();
    },
  };
}
