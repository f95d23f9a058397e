import { afterEach, beforeEach, expect, it } from 'vitest';
import './figures.js';
import { Kills, withoutTimes } from '../support/kills.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';
import { unknownAfter } from '../support/unknown.js';

const ROWS = 1_000;
const CONCURRENCY = 10;
const KILLS = 10;

describeEachStore('a run that is killed with SIGKILL', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  const kills = new Kills();

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(async ({ prompt }) => {
      await kills.called(prompt.startsWith(`row ${ROWS}:`));
      return { json: completionBody({ text: ` answer to ${prompt}`, prompt_tokens: prompt.length }) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  // Twelve processes one after the other.
  it('fault 40: ten times, is completed by the same command; nothing is missing, doubled or repeated in silence', {
    timeout: 600_000,
  }, async ({ task }) => {
    const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
    const job = {
      input: { path: work.rows(ROWS) },
      prompt: 'row {{ id }}: {{ note }}',
      limits: { concurrency: CONCURRENCY },
    };
    const undisturbed = await work.call(['run', work.job({ ...job, output: { path: 'whole.csv' } })], env);
    expect(undisturbed.code, undisturbed.stderr).toBe(0);
    const before = service.requests.length;
    expect(before).toBe(ROWS);

    const path = work.job({ ...job, output: { path: 'out.csv' } });
    await kills.run({ work, service }, ['run', path], env, { kills: KILLS, calls: ROWS - 50 });
    const finished = await work.call(['run', path], env);

    expect(finished.code, finished.stderr).toBe(0);
    expect(withoutTimes(work.records('out.csv'))).toEqual(withoutTimes(work.records('whole.csv')));
    const calls = service.requests.length - before;
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({ rows: { total: ROWS, completed: ROWS, failed: 0 } });
    const { repeated } = summary['calls'] as { repeated: number };
    task.meta.fault = { rows: ROWS, calls, repeated };
    const unknown = KILLS * unknownAfter(CONCURRENCY);
    expect(calls).toBeLessThanOrEqual(ROWS + unknown);
    expect(repeated).toBeGreaterThanOrEqual(calls - ROWS);
    expect(repeated).toBeLessThanOrEqual(unknown);
  });
});
