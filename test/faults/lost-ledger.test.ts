import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { RedisAdmin } from '../support/redis-admin.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';

const ROWS = 400;

/** A run with rows on disk, in the ledger and in flight loses something of the ledger, and ends by itself with what was called counted. */
async function robbed(
  queue: string,
  rob: (run: string) => Promise<unknown>,
  context: TestContext,
): Promise<void> {
  const trial = await Trial.begin({ queue, rows: ROWS, limits: { requests_per_minute: 60_000 } });
  try {
    const running = trial.run();
    await running.until(trial.called(200));
    await trial.fill(running);
    await expect.poll(() => trial.rowsOnDisk()).toBeGreaterThan(0);
    const paid = trial.service.calls() - trial.rowsOnDisk();
    await rob(String(trial.work.json('out.csv.run.json')['run']));
    trial.release();
    await trial.whole(running, { repeats: paid }, context);
  } finally {
    await trial.end();
  }
}

if (!haveRedis()) {
  describeMissing('a ledger that loses single keys', 'redis-server or valkey-server');
} else {
  describe('a ledger that loses single keys on redis', () => {
    let redis: Server;
    let admin: RedisAdmin;
    beforeAll(async () => {
      redis = await startRedis();
      admin = new RedisAdmin(redis.url);
    });
    afterAll(async () => {
      admin.leave();
      await redis.stop();
    });

    it.for(['head', 'calls', 'chunks', 'stop', 'flight', 'interim', 'written'])(
      'fault 110: the run ends by itself when `%s` of the ledger is deleted',
      (name, context) => robbed(redis.url, (run) => admin.client.del(`promptmill:{${run}}:${name}`), context),
    );

    it('fault 110: the run ends by itself when the outcomes of its chunks are deleted', (context) =>
      robbed(
        redis.url,
        async (run) => {
          const keys = await admin.client.keys(`promptmill:{${run}}:rows:*`);
          if (keys.length > 0) await admin.client.del(...keys);
        },
        context,
      ));

    it.for(['pace', 'run', 'worker'])(
      'fault 110: the run ends by itself when the texts of `%s` are deleted',
      (folder, context) =>
        robbed(redis.url, () => admin.client.del(`promptmill:board:{${folder}}:text`), context),
    );
  });
}
