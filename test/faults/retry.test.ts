import { existsSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import './figures.js';
import { randomKills, runAndKill } from '../support/kills.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';
import { unknownAfter } from '../support/unknown.js';

const ROWS = 1_500;
const CONCURRENCY = 10;
const KILLS = 5;
const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);

/** Rows that fail in the run, and have an answer in the retry. */
const fails = (row: number): boolean => row % 3 === 0;
const RETRIED = ROWS / 3;

describeEachStore('a retry that is killed with SIGKILL', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  let onCall: () => void = () => {};
  let isRetry: boolean;
  /** The last row is answered when all kills are over: no retry ends before it is killed, however fast it is. */
  let lastAnswer: Promise<void> | null = null;

  beforeEach(async () => {
    work = new Workplace();
    isRetry = false;
    service = await startScriptedService(async ({ prompt }) => {
      onCall();
      const row = Number(prompt.slice('row '.length));
      if (!isRetry && fails(row)) return { status: 400, json: { error: { code: 'bad', message: 'no' } } };
      if (isRetry && row === ROWS) await lastAnswer;
      return { json: completionBody({ text: ` answer to ${prompt}`, prompt_tokens: row }) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 40: five times, is completed by the same command; every other byte stays, and no row is called twice in silence', {
    timeout: 600_000,
  }, async ({ task }) => {
    console.log(`killed at random times, SEED=${SEED}`);
    const env = {
      PROMPTMILL_BASE_URL: service.url,
      PROMPTMILL_QUEUE: store().target,
      PROMPTMILL_STATE_DIR: store().stateDir,
    };
    const job = work.job({
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY },
    });
    const run = await work.run(['run', job], env);
    expect(run.code, run.stderr).toBe(1);
    const before = work.read('out.csv').split('\n');
    const first = work.json('out.summary.json');
    const calls = service.requests.length;

    isRetry = true;
    let killsAreOver = (): void => {};
    lastAnswer = new Promise((resolve) => {
      killsAreOver = resolve;
    });
    // A retry needs nothing but the output, its summary and the job.
    if (store().kind === 'embedded') rmSync(store().stateDir, { recursive: true, force: true });
    const command = ['retry', 'out.csv'];
    const kills = randomKills(KILLS, RETRIED - 50, SEED + store().kind.length);
    await runAndKill({ work, service }, { job, command, env, kills }, (told) => {
      onCall = told;
    });
    expect(work.read('out.csv').split('\n')).toEqual(before);
    killsAreOver();
    const finished = await work.run(command, env);

    expect(finished.code, finished.stderr).toBe(0);
    const after = work.read('out.csv').split('\n');
    expect(after).toHaveLength(before.length);
    for (const [i, line] of after.entries()) {
      if (fails(i) && i > 0 && i <= ROWS) expect(line).toContain(`,answer to row ${i},`);
      else expect(line).toBe(before[i]);
    }
    const made = service.requests.length - calls;
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({
      run: first['run'],
      rows: { total: ROWS, completed: ROWS, failed: 0 },
      errors: {},
      usage: { prompt_tokens: (ROWS * (ROWS + 1)) / 2 },
      retried: { rows: RETRIED },
    });
    const { repeated } = summary['calls'] as { repeated: number };
    task.meta.fault = { rows: RETRIED, calls: made, repeated };
    const unknown = KILLS * unknownAfter(CONCURRENCY);
    expect(made).toBeLessThanOrEqual(RETRIED + unknown);
    expect(repeated).toBeGreaterThanOrEqual(made - RETRIED);
    expect(repeated).toBeLessThanOrEqual(unknown);
    expect(existsSync(work.path('out.csv.run.json'))).toBe(false);
  });
});
