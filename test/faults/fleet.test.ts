import { expect, it } from 'vitest';
import { describeFleet } from '../support/fleet.js';
import { completionBody } from '../support/scripted-service.js';
import { unknownAfter } from '../support/unknown.js';

/** Of each worker. */
const CONCURRENCY = 8;
/** Shorter than a user's, so that a test need not wait for a minute. */
const LOCK_MS = 3_000;

describeFleet('a fleet', (fleet) => {
  it('faults 41 and 45: of four workers one is killed and one is asked to end, and every row is answered once', async (context) => {
    const rows = 2_000;
    const trial = await fleet().begin({
      rows,
      concurrency: 4 * CONCURRENCY,
      chunkSize: CONCURRENCY,
      latencyMs: 20,
    });
    const running = trial.run('--no-work');
    const options = { concurrency: CONCURRENCY, lockMs: LOCK_MS };
    const children = await Promise.all(Array.from({ length: 4 }, () => fleet().fleetWorker(options)));
    for (const child of children) expect(await child.line()).toBe('taking rows of lm-35-turbo-instruct');
    await running.until(trial.called(rows / 4));
    // All of them have as many calls in flight as they may.
    await trial.fill(running);
    const [killed, leaving] = children;
    await killed?.kill('SIGKILL');
    process.kill(leaving?.pid ?? 0, 'SIGTERM');
    trial.release();
    // What the one that leaves had in flight is answered and recorded, and nobody calls it again.
    expect(await leaving?.line()).toBe('left');
    await trial.whole(running, { repeats: unknownAfter(CONCURRENCY) }, context);
  });

  it('fault 19: `promptmill work` whose keys are refused stops the run, says why, and exits with 3', async ({
    task,
  }) => {
    const trial = await fleet().begin({
      rows: 20,
      script: () => ({ status: 401, json: { statusCode: 401, message: 'invalid subscription key' } }),
    });
    const worker = trial.worker();
    const running = trial.run('--no-work');
    const [left, ended] = await Promise.all([worker.ended, running.ended]);
    expect(left.code, left.stderr).toBe(3);
    expect(left.stderr).toContain('promptmill: unauthorized: the service refuses every key');
    expect(ended.code, ended.stderr).toBe(3);
    expect(ended.stderr).toContain('unauthorized');
    task.meta.fault = { rows: 20, calls: trial.service.calls() };
  });

  it('fault 19: a run whose api_version is refused stops, and `promptmill work` goes on with the next', async ({
    task,
  }) => {
    let refuses = true;
    const trial = await fleet().begin({
      rows: 20,
      script: ({ prompt }) =>
        refuses
          ? { status: 400, json: { error: { code: 'BadRequest', message: 'API version not supported' } } }
          : { json: completionBody({ text: ` re ${prompt}` }) },
    });
    // The last row of a trial is answered when it is over.
    const flags = ['--no-work', '--limit', '19'];
    const worker = trial.worker();
    const stopped = await trial.run(...flags).ended;
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr).toContain('api_version_not_supported');
    refuses = false;
    const refused = trial.service.calls();
    const again = await trial.run(...flags).ended;
    expect(again.code, again.stderr).toBe(0);
    expect(trial.service.calls() - refused, 'calls of the second').toBe(19);
    worker.process.kill('SIGTERM');
    const { code, stderr } = await worker.ended;
    expect(code, stderr).toBe(0);
    task.meta.fault = { rows: 19, calls: trial.service.calls() };
  });

  it('fault 45: `promptmill work` that is asked to end finishes its calls, hands the rest back, and exits with 0', async (context) => {
    const trial = await fleet().begin({ rows: 80, concurrency: CONCURRENCY, chunkSize: 4 });
    // It finds a run that comes after it.
    const first = trial.worker('--concurrency', String(CONCURRENCY));
    await first.says(/^working for all deployments at http.*, up to 8 at a time; queue in /m);
    const running = trial.run('--no-work');
    await running.until(trial.called(16));
    await trial.fill(running);
    first.process.kill('SIGTERM');
    await first.says(/^SIGTERM: finishing 8 calls in flight$/m);
    const calls = trial.service.calls();
    trial.release();
    const { code, stderr } = await first.ended;
    expect(code, stderr).toBe(0);
    expect(trial.service.calls(), 'calls after it was asked to end').toBe(calls);
    // And one that was there before it.
    const second = trial.worker('--deployment', 'another', 'lm-35-turbo-instruct');
    await second.says(/^taking rows of lm-35-turbo-instruct$/m);
    await trial.whole(running, { repeats: 0 }, context);
    second.process.kill('SIGINT');
    expect((await second.ended).code).toBe(0);
  });
});
