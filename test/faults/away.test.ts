import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { havePostgres, haveRedis, type Server, startPostgres, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';

const KINDS = [
  { kind: 'redis', have: haveRedis, start: () => startRedis(), needs: 'redis-server or valkey-server' },
  { kind: 'postgres', have: havePostgres, start: () => startPostgres(), needs: 'postgres and initdb' },
] as const;

for (const { kind, have, start, needs } of KINDS) {
  if (!have()) {
    describeMissing(`a store that is away on ${kind}`, needs);
    continue;
  }
  describe(`a store that is away on ${kind}`, () => {
    let server: Server;
    let trial: Trial;
    beforeEach(async () => {
      server = await start();
      trial = await Trial.begin({ queue: server.url, rows: 400 });
    });
    afterEach(async () => {
      await server.kill('SIGCONT');
      await trial.end();
      await server.stop();
    });

    it('fault 46: does not keep an interrupted run from ending while it is frozen, and the run is continued later', async (context) => {
      const running = trial.run();
      await running.until(trial.called(50));
      await server.kill('SIGSTOP');
      running.process.kill('SIGTERM');
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(143);
      await server.kill('SIGCONT');
      // What was called and could not be recorded is called again.
      await trial.whole(trial.run(), { repeats: trial.concurrency }, context);
    });

    it('fault 46: does not keep an interrupted run from ending while it is down, and the run is continued later', async (context) => {
      const running = trial.run();
      await running.until(trial.called(50));
      await server.kill(kind === 'redis' ? 'SIGKILL' : 'SIGQUIT');
      running.process.kill('SIGTERM');
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(143);
      await server.restart();
      await trial.whole(trial.run(), { repeats: trial.concurrency }, context);
    });
  });
}
