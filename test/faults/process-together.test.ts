import { symlinkSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { Trial, type TrialRun } from '../support/trial.js';

describe('runs at the same time on embedded', () => {
  let state: Workplace;
  const trials: Trial[] = [];
  beforeEach(() => {
    state = new Workplace();
  });
  afterEach(async () => {
    for (const trial of trials.splice(0)) await trial.end();
    state.remove();
  });

  async function begin(rows = 200): Promise<Trial> {
    const trial = await Trial.begin({ queue: 'embedded', stateDir: state.folder, rows });
    trials.push(trial);
    return trial;
  }

  it('fault 39: two in one state directory both end well, and the second says where its queue is', async (context) => {
    const [first, second] = [await begin(), await begin()];
    const one = first.run();
    await one.until(first.called(20));
    const two = second.run();
    await two.until(second.called(20));
    expect(two.said()).toContain(`this run keeps its queue in ${state.path('store-2')}`);
    expect(two.said()).toContain(`process ${one.process.pid}`);
    await second.whole(two, { repeats: 0 }, context);
    await first.whole(one, { repeats: 0 }, context);
  });

  it('fault 39: an unfinished run whose store a living process uses does not start without what it paid for', async (context) => {
    const [first, second] = [await begin(), await begin()];
    const killed = first.run();
    await killed.until(first.called(50));
    killed.process.kill('SIGKILL');
    await killed.ended;
    const calls = first.service.calls();

    const other = second.run();
    await other.until(second.called(20));
    const refused = await first.call().ended;
    expect(refused.code, refused.stderr).toBe(2);
    expect(refused.stderr).toContain(state.path('store'));
    expect(refused.stderr).toContain(`process ${other.process.pid}`);
    expect(first.service.calls()).toBe(calls);

    await second.whole(other, { repeats: 0 }, context);
    await first.whole(first.call(), { repeats: first.unknown }, context);
  });

  it('fault 39: the lock of a killed process holds nobody up', async (context) => {
    const [first, second] = [await begin(), await begin()];
    const killed = first.run();
    await killed.until(first.called(50));
    killed.process.kill('SIGKILL');
    await killed.ended;
    const next = second.run();
    await second.whole(next, { repeats: 0 }, context);
    expect(next.said()).not.toContain('store-2');
    await first.whole(first.call(), { repeats: first.unknown }, context);
  });

  /** Starts a second run to the output of one that is at work, and expects that it is refused before it calls anything. */
  async function expectRefusal(
    trial: Trial,
    first: TrialRun,
    second: Pick<TrialRun, 'ended'>,
  ): Promise<void> {
    const called = trial.called(trial.service.calls() + 1).then(() => {
      throw new Error('a second run to one output called the service');
    });
    const { code, stderr } = await Promise.race([second.ended, called]);
    expect(code, stderr).toBe(2);
    expect(stderr).toContain('writing out.csv');
    expect(stderr).toContain(`process ${first.process.pid}`);
  }

  it('fault 48: the second of two to one output is refused and calls nothing; the first goes on', async (context) => {
    const trial = await begin();
    const first = trial.run();
    await first.until(trial.called(20));
    await trial.fill(first);
    await expectRefusal(trial, first, trial.call());
    await expectRefusal(trial, first, trial.call('--output', './sub/../out.csv'));
    await expectRefusal(trial, first, trial.call('--restart'));
    await expectRefusal(trial, first, trial.call('--overwrite'));
    trial.release();
    await trial.whole(first, { repeats: 0 }, context);
  });

  it('fault 48: the output is the same under another name of its folder', async (context) => {
    const trial = await begin();
    const first = trial.run();
    await first.until(trial.called(20));
    await trial.fill(first);
    symlinkSync('.', trial.work.path('here'));
    await expectRefusal(trial, first, trial.call('--output', 'here/out.csv'));
    trial.release();
    await trial.whole(first, { repeats: 0 }, context);
  });

  it('fault 48: the output is the same for a run that keeps its state elsewhere', async (context) => {
    const trial = await begin();
    const first = trial.run();
    await first.until(trial.called(20));
    await trial.fill(first);
    await expectRefusal(trial, first, trial.runWith({ PROMPTMILL_STATE_DIR: trial.work.path('elsewhere') }));
    trial.release();
    await trial.whole(first, { repeats: 0 }, context);
  });

  it('fault 48: of two that start at the same moment exactly one runs', async (context) => {
    const trial = await begin();
    const runs = [trial.run(), trial.run()];
    const loser = await Promise.race(runs.map(async (running) => ({ running, ended: await running.ended })));
    expect(loser.ended.code, loser.ended.stderr).toBe(2);
    const winner = runs.find((running) => running !== loser.running);
    if (winner === undefined) throw new Error('there were two');
    await trial.whole(winner, { repeats: 0 }, context);
  });
});
