import { describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';
import { haveRedis, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

if (!haveRedis()) {
  describeMissing('a store that is away', 'redis-server or valkey-server');
} else {
  describe('a store that is away', () => {
    it('fault 46: does not keep an interrupted run from ending, and the run is continued later', async () => {
      const redis = await startRedis();
      const work = new Workplace();
      let frozen = false;
      const service = await startScriptedService(async () => {
        if (!frozen && service.requests.length > 50) {
          frozen = true;
          await redis.kill('SIGSTOP');
          running.process.kill('SIGTERM');
        }
        return {};
      });
      const env = { PROMPTMILL_BASE_URL: service.url, PROMPTMILL_QUEUE: redis.url };
      const job = work.job({ input: { path: work.rows(400) }, output: { path: 'out.csv' } });
      const running = work.start(['run', job], env);
      try {
        const { code, stderr } = await running.ended;
        expect(code, stderr).toBe(143);
        await redis.kill('SIGCONT');
        const finished = await work.run(['run', job], env);
        expect(finished.code, finished.stderr).toBe(0);
        expect(work.records('out.csv').length).toBe(400);
        // What was called and not yet recorded when the store froze is called again.
        expect(service.requests.length).toBeLessThanOrEqual(400 + 2 * 20);
      } finally {
        await redis.kill('SIGCONT');
        await redis.stop();
        await service.close();
        work.remove();
      }
    });
  });
}
