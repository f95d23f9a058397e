import { existsSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import { Kills } from '../support/kills.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { unknownAfter } from '../support/unknown.js';

const FIRST = 700;
const ROWS = 1_200;
const CONCURRENCY = 10;
const KILLS = 5;

describe.each(['out.csv', 'out.csv.gz'])('run --extend of %s that is killed with SIGKILL', (output) => {
  let work: Workplace;
  let service: ScriptedService;
  const kills = new Kills();
  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(async ({ prompt }) => {
      await kills.called(prompt === `row ${ROWS}`);
      return { json: completionBody({ text: ` answer to ${prompt}` }) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 40: five times, keeps the output as it is until all rows are in it, each once', async ({
    task,
  }) => {
    const env = { PROMPTMILL_BASE_URL: service.url };
    const job = work.job({
      input: { path: work.rows(FIRST) },
      output: { path: output },
      limits: { concurrency: CONCURRENCY },
    });
    const run = await work.call(['run', job], env);
    expect(run.code, run.stderr).toBe(0);
    const before = work.read(output);
    const calls = service.requests.length;

    work.rows(ROWS);
    const command = ['run', job, '--extend'];
    const added = ROWS - FIRST;
    await kills.run({ work, service }, command, env, { kills: KILLS, calls: added - 50 });
    expect(work.read(output)).toBe(before);
    const finished = await work.call(command, env);

    expect(finished.code, finished.stderr).toBe(0);
    expect(work.read(output).startsWith(before)).toBe(true);
    expect(work.records(output).map(({ text }) => text)).toEqual(
      Array.from({ length: ROWS }, (_, i) => `answer to row ${i + 1}`),
    );
    const made = service.requests.length - calls;
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({ rows: { total: ROWS, completed: ROWS } });
    const { repeated } = summary['calls'] as { repeated: number };
    task.meta.fault = { rows: added, calls: made, repeated };
    const unknown = KILLS * unknownAfter(CONCURRENCY);
    expect(made).toBeLessThanOrEqual(added + unknown);
    expect(repeated).toBeGreaterThanOrEqual(made - added);
    expect(repeated).toBeLessThanOrEqual(unknown);
    expect(existsSync(work.path(`${output}.run.json`))).toBe(false);
  });
});
