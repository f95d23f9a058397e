import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RedisAdmin } from '../support/redis-admin.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';

if (!haveRedis()) {
  describeMissing('a store that refuses', 'redis-server or valkey-server');
} else {
  describe('a store that refuses on redis', () => {
    let redis: Server;
    let admin: RedisAdmin;
    let trial: Trial;
    beforeEach(async () => {
      redis = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
      admin = new RedisAdmin(redis.url);
    });
    afterEach(async () => {
      await trial.end();
      admin.leave();
      await redis.stop();
    });

    it('fault 34: while it is full the producer waits and says so once; with more memory the run goes on', async (context) => {
      // More rows than the window holds, so that the producer is still at work when the server is full.
      trial = await Trial.begin({ queue: redis.url, rows: 12_000, chunkSize: 50, latencyMs: 2 });
      const running = trial.run();

      await running.until(trial.called(500));
      const before = running.said();
      // Less than it has: what the run takes out again gives no room.
      await admin.client.config('SET', 'maxmemory', '1');
      await running.until(admin.refused('OOM', 20));
      await admin.client.config('SET', 'maxmemory', '0');

      await trial.whole(running, { repeats: 0 }, context);
      const complaints = running
        .said()
        .slice(before.length)
        .split('\n')
        .filter((line) => /OOM|memory|refuse/i.test(line));
      expect(complaints).toHaveLength(1);
    });

    it('fault 33: a failover that makes it read-only, and back, loses nothing and calls nothing twice', async (context) => {
      const other = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
      const replica = new RedisAdmin(other.url);
      const failOver = async (from: RedisAdmin, to: Server): Promise<void> => {
        await from.tells('replication', /^slave0:.*state=online/m);
        await from.client.call('FAILOVER', 'TO', '127.0.0.1', new URL(to.url).port);
        await from.tells('replication', /^role:slave/m);
      };
      try {
        await replica.client.call('REPLICAOF', '127.0.0.1', new URL(redis.url).port);
        await admin.tells('replication', /^slave0:.*state=online/m);
        trial = await Trial.begin({ queue: redis.url, rows: 600, latencyMs: 20 });
        const running = trial.run();

        await running.until(trial.called(100));
        await failOver(admin, other);
        await running.until(admin.refused('READONLY', 20));
        await failOver(replica, redis);

        await trial.whole(running, { repeats: 0 }, context);
      } finally {
        replica.leave();
        await other.stop();
      }
    });
  });
}
