import { existsSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import './figures.js';
import { Kills } from '../support/kills.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.js';
import { describeEachStore } from '../support/stores.js';
import { unknownAfter } from '../support/unknown.js';

const ROWS = 900;
const CONCURRENCY = 10;
const KILLS = 2;

/** Rows that fail in the run, and have an answer in the retry. */
const fails = (row: number): boolean => row % 3 === 0;
const RETRIED = ROWS / 3;

describeEachStore('a retry that is killed with SIGKILL', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  const kills = new Kills();
  let isRetry: boolean;

  beforeEach(async () => {
    work = new Workplace();
    isRetry = false;
    service = await startScriptedService(async ({ prompt }) => {
      const row = Number(prompt.slice('row '.length));
      if (!isRetry && fails(row)) return { status: 400, json: { error: { code: 'bad', message: 'no' } } };
      await kills.called(isRetry && row === ROWS);
      return { json: completionBody({ text: ` answer to ${prompt}`, prompt_tokens: row }) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 40: twice, is completed by the same command; every other byte stays, and no row is called twice in silence', {
    timeout: 600_000,
  }, async ({ task }) => {
    const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
    const job = work.job({
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY },
    });
    const run = await work.call(['run', job], env);
    expect(run.code, run.stderr).toBe(1);
    const before = work.read('out.csv').split('\n');
    const first = work.json('out.summary.json');
    const calls = service.requests.length;

    isRetry = true;
    // A retry needs nothing but the output, its summary and the job.
    if (store().kind === 'embedded') rmSync(store().stateDir, { recursive: true, force: true });
    const command = ['retry', 'out.csv'];
    await kills.run({ work, service }, command, env, { kills: KILLS, calls: RETRIED - 50 });
    expect(work.read('out.csv').split('\n')).toEqual(before);
    const finished = await work.call(command, env);

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

describeWithSmallDisk('a disk that fills up while rows are put in their places', () => {
  const COUNT = 500;
  let work: Workplace;
  let service: ScriptedService;
  let disk: SmallDisk;
  let isRetry: boolean;
  beforeEach(async () => {
    work = new Workplace();
    isRetry = false;
    work.rows(COUNT);
    service = await startScriptedService(({ prompt }) => {
      const isBad = !isRetry && Number(prompt.slice('row '.length)) % 50 === 0;
      if (isBad) return { status: 400, json: { error: { code: 'bad', message: 'no' } } };
      return { json: completionBody({ text: ` to ${prompt}` }) };
    });
    // The output takes 100 KiB: there is room for it once, and for a few rows more.
    disk = mountSmallDisk(160);
    symlinkSync(disk.path, work.path('disk'));
  });
  afterEach(async () => {
    await service.close();
    disk.remove();
    work.remove();
  });

  it('fault 49: stops the retry with every row written, and the old output in its place; once there is space the same command does only that', async () => {
    const env = { PROMPTMILL_BASE_URL: service.url };
    const run = await work.call(
      ['run', work.job({ input: { path: 'rows.csv' }, output: { path: 'disk/out.csv' } })],
      env,
    );
    expect(run.code, run.stderr).toBe(1);
    const before = work.read('disk/out.csv');
    isRetry = true;
    const stopped = await work.call(['retry', 'disk/out.csv'], env);
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr.replaceAll(/\s+/g, ' ')).toContain(
      'cannot write disk/out.csv.part.tmp: no space left on device (ENOSPC). Free some space',
    );
    expect(work.read('disk/out.csv')).toBe(before);

    disk.grow(1_024);
    const finished = await work.call(['retry', 'disk/out.csv'], env);
    expect(finished.code, finished.stderr).toBe(0);
    expect(service.calls()).toBe(COUNT + COUNT / 50);
    expect(work.records('disk/out.csv').map(({ text }) => text)).toEqual(
      Array.from({ length: COUNT }, (_, i) => `to row ${i + 1}`),
    );
    expect(readdirSync(disk.path).sort()).toEqual(['out.csv', 'out.summary.json']);
  });
});
