import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, it, type TestContext } from 'vitest';
import type { Ended, Running } from '../support/promptmill.js';
import { Serve } from '../support/serve.js';
import type { Server } from '../support/servers.js';
import { describeRedis } from '../support/stores.js';
import { Trial, trialOn } from '../support/trial.js';
import { unknownAfter } from '../support/unknown.js';

/** What container engines give a process between SIGTERM and SIGKILL, in milliseconds. */
const ENGINE_MS = 10_000;

/** Ends a process as a container engine does; its code is null when it had to be killed. */
async function stopContainer({ process, ended }: Running): Promise<Ended> {
  process.kill('SIGTERM');
  const timer = setTimeout(() => process.kill('SIGKILL'), ENGINE_MS);
  return ended.finally(() => clearTimeout(timer));
}

describeRedis('a store that is away', (start) => {
  const down = (server: Server): Promise<void> => server.kill('SIGKILL');
  const frozen = (server: Server): Promise<void> => server.kill('SIGSTOP');
  const awake = (server: Server): Promise<void> => server.kill('SIGCONT');
  const rows = { rows: 400 };

  /** Interrupts a run whose store is away; the run is continued when the store is back. */
  const interrupted = (
    away: (server: Server) => Promise<void>,
    back: (server: Server) => Promise<void>,
    context: TestContext,
  ): Promise<void> =>
    trialOn(start, rows, async (trial, server) => {
      const running = trial.run();
      await running.until(trial.called(50));
      await away(server);
      const { code, stderr } = await stopContainer(running);
      expect(code, stderr).toBe(143);
      await back(server);
      // What was called and could not be recorded is called again.
      await trial.whole(trial.call(), { repeats: trial.unknown }, context);
    });

  it('faults 46 and 82: does not keep a run from ending in time while it is frozen; the run is continued later', (context) =>
    interrupted(frozen, awake, context));

  it('faults 46 and 82: does not keep a run from ending in time while it is down; the run is continued later', (context) =>
    interrupted(down, (server) => server.restart(), context));

  it('fault 82: does not keep a run without calls of its own, nor its worker, from ending in time', (context) =>
    trialOn(start, rows, async (trial, server) => {
      const [running, working] = [trial.run('--no-work'), trial.worker()];
      await running.until(trial.called(50));
      await down(server);
      const [ran, worked] = await Promise.all([stopContainer(running), stopContainer(working)]);
      expect(ran.code, ran.stderr).toBe(143);
      expect(worked.code, worked.stderr).toBe(143);
      expect(worked.stderr).toMatch(/the queue did not answer: \d+ calls? in flight given up/);
      await server.restart();
      // The worker has a limit of its own, of 20.
      await trial.whole(trial.call(), { repeats: unknownAfter(20) }, context);
    }));

  it('fault 82: does not keep a run from ending that waits for a server that says nothing', async () => {
    const mute = createServer().listen(0, '127.0.0.1');
    await once(mute, 'listening');
    const address = mute.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const trial = await Trial.begin({ ...rows, queue: `redis://127.0.0.1:${port}/0` });
    const running = trial.run();
    await running.until(once(mute, 'connection'));
    const { code, stderr } = await stopContainer(running);
    expect(code, stderr).toBe(143);
    expect(trial.service.calls()).toBe(0);
    await trial.end();
    mute.close();
  });

  it('fault 82: does not keep serve, with a run and a dashboard, from ending in time; the next one completes the run', (context) =>
    trialOn(start, rows, async (trial, server) => {
      const serve = serveNightly(trial);
      await Promise.race([trial.called(50), serve.logs(/^never$/)]);
      await frozen(server);
      const { code, stderr } = await stopContainer(serve.running);
      expect(code, stderr).toBe(0);
      await awake(server);
      await trial.whole(trial.call(), { repeats: trial.unknown }, context);
    }));
});

/** `promptmill serve` with the job of the trial every second. */
function serveNightly(trial: Trial): Serve {
  const job = trial.work.read('job.yaml');
  trial.work.write('job.yaml', `${job}schedule: { cron: "* * * * * *" }\n`);
  const env = { ...trial.env, PROMPTMILL_DASHBOARD_PASSWORD: 'a-password-for-tests-only' };
  return new Serve(trial.work.start(['serve', 'job.yaml', '--port', '0'], env));
}
