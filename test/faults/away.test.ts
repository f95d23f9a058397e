import { describe, expect, it, type TestContext } from 'vitest';
import { havePostgres, haveRedis, type Server, startPostgres, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { trialOn } from '../support/trial.js';

const KINDS = [
  { kind: 'redis', have: haveRedis, start: () => startRedis(), needs: 'redis-server or valkey-server' },
  { kind: 'postgres', have: havePostgres, start: () => startPostgres(), needs: 'postgres and initdb' },
] as const;

for (const { kind, have, start, needs } of KINDS) {
  if (!have()) {
    describeMissing(`a store that is away on ${kind}`, needs);
    continue;
  }
  // Beside each other: they wait for deadlines and do little else.
  describe.concurrent(`a store that is away on ${kind}`, () => {
    /** Interrupts a run whose store is away; the run is continued when the store is back. */
    const interrupted = (
      away: (server: Server) => Promise<void>,
      back: (server: Server) => Promise<void>,
      context: TestContext,
    ): Promise<void> =>
      trialOn(start, { rows: 400 }, async (trial, server) => {
        const running = trial.run();
        await running.until(trial.called(50));
        await away(server);
        running.process.kill('SIGTERM');
        const { code, stderr } = await running.ended;
        expect(code, stderr).toBe(143);
        await back(server);
        // What was called and could not be recorded is called again.
        await trial.whole(trial.run(), { repeats: trial.concurrency }, context);
      });

    it('fault 46: does not keep an interrupted run from ending while it is frozen; the run is continued later', (context) =>
      interrupted(
        (server) => server.kill('SIGSTOP'),
        (server) => server.kill('SIGCONT'),
        context,
      ));

    it('fault 46: does not keep an interrupted run from ending while it is down; the run is continued later', (context) =>
      interrupted(
        (server) => server.kill(kind === 'redis' ? 'SIGKILL' : 'SIGQUIT'),
        (server) => server.restart(),
        context,
      ));
  });
}
