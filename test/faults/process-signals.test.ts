import { readdirSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { describeOn } from '../support/stores.js';
import { Trial, type TrialRun } from '../support/trial.js';

const ROWS = 300;

describeOn('embedded', 'a run that is interrupted', (store) => {
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
    await running.says(
      /stopping: finishing 8 calls in flight; Ctrl-C again stops at once, and 8 calls may then be paid/,
    );
    expect(running.process.exitCode).toBe(null);
    trial.release();
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(130);
    expect(trial.service.calls(), 'calls after the signal').toBe(called);
    // Whatever is on disk by now: every row that was called is known, and both say so.
    const areWritten = trial.rowsOnDisk() === called;
    const known = areWritten
      ? `${called} rows written; none of them will be called again`
      : `${called} rows known, ${trial.rowsOnDisk()} of them written; none of them will be called again`;
    if (!areWritten) expect(stderr).toContain(known);
    const resumed = trial.run();
    await resumed.says(/continuing run/);
    expect(resumed.said()).toContain(known);
    await trial.whole(resumed, { repeats: 0 }, context);
  });

  it('fault 45: SIGINT at its first word leaves what the same command goes on from, and nothing else', async (context) => {
    const { target, stateDir } = store();
    trial = await Trial.begin({ queue: target, stateDir, rows: ROWS });
    const running = trial.run();
    await running.says(/calling lm-35-turbo-instruct/);
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(130);
    expect(stderr).toContain('Resume with:\n  promptmill run job.yaml');
    const left = readdirSync(trial.work.folder).filter((name) => name.startsWith('out.'));
    expect(left.sort()).toEqual(['out.csv.part', 'out.csv.run.json']);
    await trial.whole(trial.call(), { repeats: 0 }, context);
  });

  it('fault 45: calls that outlast the grace period are no failures; they are made again, and counted', async (context) => {
    const running = await begin();
    running.process.kill('SIGTERM');
    // The service answers nothing for the half minute that is left.
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(143);
    trial.release();
    await trial.whole(trial.call(), { repeats: trial.unknown }, context);
  });

  it('fault 45: a second signal ends it at once, and only what was in flight is called again', async (context) => {
    const running = await begin();
    running.process.kill('SIGTERM');
    await running.says(/stopping: finishing \d+ calls? in flight/);
    running.process.kill('SIGTERM');
    // The service answers nothing, so nothing but the signal can have ended it.
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(143);
    expect(stderr).toContain(
      'stopped at once; what is known is kept. Resume with:\n  promptmill run job.yaml',
    );
    trial.release();
    await trial.whole(trial.call(), { repeats: trial.unknown }, context);
  });
});
