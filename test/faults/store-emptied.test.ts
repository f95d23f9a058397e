import { afterEach, describe, expect, it, type TestContext } from 'vitest';
import { RedisAdmin } from '../support/redis-admin.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';

const ROWS = 400;

/** Empties the store of a run that has rows on disk, rows in the ledger and rows in flight. */
async function emptied(trial: Trial, empty: () => Promise<unknown>, context: TestContext): Promise<void> {
  const running = trial.run();
  await running.until(trial.called(200));
  trial.hold();
  const called = trial.service.calls();
  await expect.poll(() => trial.rowsOnDisk()).toBeGreaterThan(0);
  const onDisk = trial.rowsOnDisk();
  await empty();
  trial.release();

  // What was paid for and was on its way to the disk is all that can be lost, and far less than a window.
  await trial.whole(running, { repeats: called - onDisk }, context);
  expect(Math.max(...trial.callsOfRows().slice(0, onDisk))).toBe(1);
}

if (!haveRedis()) {
  describeMissing('a store that comes back empty', 'redis-server or valkey-server');
} else {
  describe('a store that comes back empty on redis', () => {
    let redis: Server;
    let trial: Trial;
    afterEach(async () => {
      await trial.end();
      await redis.stop();
    });

    it('fault 35: after FLUSHALL only rows are called again that were not on disk, and they are counted', async (context) => {
      redis = await startRedis();
      const admin = new RedisAdmin(redis.url);
      trial = await Trial.begin({ queue: redis.url, rows: ROWS });
      await emptied(trial, () => admin.client.flushall(), context);
      admin.leave();
    });

    it('fault 35: after a restart without its file only rows are called again that were not on disk', async (context) => {
      redis = await startRedis({ appendonly: false });
      trial = await Trial.begin({ queue: redis.url, rows: ROWS });
      await emptied(trial, () => redis.restart(), context);
    });
  });
}
