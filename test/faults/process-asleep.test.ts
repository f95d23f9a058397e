import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.js';
import { describeRedis } from '../support/stores.js';
import { Trial, trialOn } from '../support/trial.js';

/** The fault itself: longer than the lock of a queue entry and the lease of a run, which are 60 seconds. */
const ASLEEP_MS = 65_000;

const OPTIONS = { rows: 400, latencyMs: 20 };

async function sleepAndWake(trial: Trial): Promise<ReturnType<Trial['run']>> {
  const running = trial.run();
  await running.until(trial.called(100));
  running.process.kill('SIGSTOP');
  await running.until(sleep(ASLEEP_MS));
  running.process.kill('SIGCONT');
  return running;
}

const NO_REPEATS = 'fault 43: for longer than its locks and its lease last, goes on and repeats no call';

// Beside each other: they sleep and do little else.
describe.concurrent('a run on a machine that slept', () => {
  describeRedis('its queue', (start) => {
    it(NO_REPEATS, (context) =>
      trialOn(start, OPTIONS, async (trial) => {
        await trial.whole(await sleepAndWake(trial), { repeats: 0 }, context);
      }),
    );
  });

  describe('its queue on embedded', () => {
    it(NO_REPEATS, async (context) => {
      const trial = await Trial.begin({ ...OPTIONS, queue: 'embedded' });
      try {
        await trial.whole(await sleepAndWake(trial), { repeats: 0 }, context);
      } finally {
        await trial.end();
      }
    });
  });
});

describe.concurrent('a run that was frozen until another process had taken its state directory over', () => {
  it('fault 39: stops when it wakes and leaves the other one alone; the same command completes it', async (context) => {
    const trial = await Trial.begin({ ...OPTIONS, queue: 'embedded' });
    try {
      const running = trial.run();
      await running.until(trial.called(100));
      running.process.kill('SIGSTOP');
      const stateDir = trial.work.path('.promptmill');
      moveElsewhere(join(stateDir, 'store', 'lock'));
      const other = await openStore('embedded', {
        ...{ stateDir, preferred: 'store', onWarning: () => {} },
        lockPatience: { beatMs: 20, silentMs: 200 },
      });
      await other.ledger.stop('another run', 1, { code: 'c', message: 'm' });
      running.process.kill('SIGCONT');
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(3);
      expect(stderr).toContain('lock_lost');
      expect(stderr).not.toContain('defect');
      await other.close();

      const again = await openStore('embedded', { stateDir, preferred: 'store', onWarning: () => {} });
      expect((await again.ledger.progress('another run', [])).stop).toMatchObject({ code: 'c' });
      await again.close();
      await trial.whole(trial.run(), { repeats: trial.unknown }, context);
    } finally {
      await trial.end();
    }
  });
});

/** The process that has a lock seems to be in another container: whoever wants the lock can only watch it. */
function moveElsewhere(lock: string): void {
  for (const name of readdirSync(lock)) {
    const claim = JSON.parse(readFileSync(join(lock, name), 'utf8'));
    writeFileSync(join(lock, name), JSON.stringify({ ...claim, space: 'another boot and namespace' }));
  }
}
