import { setTimeout as sleep } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { havePostgres, haveRedis, startPostgres, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { Trial, trialOn } from '../support/trial.js';

/** The fault itself: longer than the lock of a queue entry and the lease of a run, which are 60 seconds. */
const ASLEEP_MS = 65_000;

const KINDS = [
  { kind: 'redis', have: haveRedis, start: () => startRedis(), needs: 'redis-server or valkey-server' },
  { kind: 'postgres', have: havePostgres, start: () => startPostgres(), needs: 'postgres and initdb' },
] as const;

const OPTIONS = { rows: 400, latencyMs: 20 };

async function sleepAndWake(trial: Trial): Promise<ReturnType<Trial['run']>> {
  const running = trial.run();
  await running.until(trial.called(100));
  running.process.kill('SIGSTOP');
  await running.until(sleep(ASLEEP_MS));
  running.process.kill('SIGCONT');
  return running;
}

// Beside each other: they sleep and do little else.
for (const { kind, have, start, needs } of KINDS) {
  if (!have()) {
    describeMissing(`a run on a machine that slept, on ${kind}`, needs);
    continue;
  }
  describe.concurrent(`a run on a machine that slept, on ${kind}`, () => {
    it('fault 43: for longer than its locks and its lease last, goes on and repeats no call', (context) =>
      trialOn(start, OPTIONS, async (trial) => {
        await trial.whole(await sleepAndWake(trial), { repeats: 0 }, context);
      }));
  });
}

describe.concurrent('a run on a machine that slept, on embedded', () => {
  it('fault 43: for longer than its locks and its lease last, goes on and repeats no call', async (context) => {
    const trial = await Trial.begin({ ...OPTIONS, queue: 'embedded' });
    try {
      await trial.whole(await sleepAndWake(trial), { repeats: 0 }, context);
    } finally {
      await trial.end();
    }
  });
});
