import { afterEach, expect, it } from 'vitest';
import { describeEachStore } from '../support/stores.js';
import { Trial, type TrialRun } from '../support/trial.js';

const ROWS = 300;

describeEachStore('a run that is interrupted', (store) => {
  let trial: Trial;
  afterEach(() => trial.end());

  async function begin(): Promise<TrialRun> {
    const { target, stateDir } = store();
    trial = await Trial.begin({ queue: target, stateDir, rows: ROWS });
    const running = trial.run();
    await running.until(trial.called(50));
    await trial.fill(running);
    return running;
  }

  // The other signal is shown by test/run/run.test.ts, beside what a person is told.
  it('fault 45: SIGINT ends it when the calls in flight are answered and kept, and no call is repeated', async (context) => {
    const running = await begin();
    const called = trial.service.calls();
    running.process.kill('SIGINT');
    await running.says(/stopping: finishing the calls in flight/);
    expect(running.process.exitCode).toBe(null);
    trial.release();
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(130);
    expect(trial.service.calls(), 'calls after the signal').toBe(called);
    await trial.whole(trial.run(), { repeats: 0 }, context);
  });

  it('fault 45: calls that outlast the grace period are no failures; they are made again, and counted', async (context) => {
    const running = await begin();
    running.process.kill('SIGTERM');
    // The service answers nothing for the half minute that is left.
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(143);
    trial.release();
    await trial.whole(trial.run(), { repeats: trial.concurrency }, context);
  });

  it('fault 45: a second signal ends it at once, and only what was in flight is called again', async (context) => {
    const running = await begin();
    running.process.kill('SIGTERM');
    await running.says(/stopping: finishing the calls in flight/);
    running.process.kill('SIGTERM');
    // The service answers nothing, so nothing but the signal can have ended it.
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(143);
    trial.release();
    await trial.whole(trial.run(), { repeats: trial.concurrency }, context);
  });
});
