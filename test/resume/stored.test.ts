import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSummary } from '../../src/report/read-summary.js';
import { readManifest } from '../../src/resume/manifest.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';

/*
 * Files that earlier versions have written: a finished run, and one that its service has stopped behind row 8. `first` is of the
 * first days, `before` of the version before reports and retries.
 */
const STORED = join(import.meta.dirname, 'stored');

describe.each(['first', 'before'])('what an earlier version has written (%s)', (version) => {
  let work: Workplace;
  let service: ScriptedService;
  beforeEach(async () => {
    work = new Workplace();
    for (const from of ['in.csv', 'job.yaml', version])
      cpSync(join(STORED, from), from === version ? work.folder : work.path(from), { recursive: true });
    service = await startScriptedService(({ prompt }) => {
      const number = Number(String(prompt).split(' ')[1]);
      return { json: completionBody({ text: number % 2 === 0 ? ' positive' : ' negative' }) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  const call = (...args: readonly string[]) => work.call(args, { PROMPTMILL_BASE_URL: service.url });
  const prompts = (): string[] => service.requests.map(({ prompt }) => String(prompt)).sort();
  const answers = (output: string): (string | undefined)[] =>
    work.records(output).map(({ answer }) => answer);
  /** In turns, but for row 3 (failed), row 5 (filtered) and row 6 (no label). */
  const ANSWERS = Array.from({ length: 12 }, (_, i) =>
    [3, 5, 6].includes(i + 1) ? '' : i % 2 === 0 ? 'negative' : 'positive',
  );

  it('is read as a summary and as a manifest', () => {
    expect(readSummary(work.path('finished.summary.json'))).toMatchObject({
      rows: { total: 12, completed: 10, filtered: 1, failed: 1, skipped: 0 },
      answers: { negative: 4, positive: 5 },
      answers_invalid: 1,
      usage: { total_tokens: 80 },
    });
    expect(readManifest(work.path('unfinished.csv.run.json'))).toMatchObject({
      rows: 8,
      calls: { prompt_tokens: 42 },
      tally: { invalid: { answer_not_a_label: 1 } },
    });
  });

  it('goes on as a run from its manifest, and calls only the rows behind it', async () => {
    const { code, stderr } = await call('run', 'job.yaml', '--output', 'unfinished.csv');
    expect(code, stderr).toBe(1);
    expect(prompts()).toEqual(['row 10', 'row 11', 'row 12', 'row 9']);
    expect(answers('unfinished.csv')).toEqual(ANSWERS);
    expect(work.json('unfinished.summary.json')).toMatchObject({
      rows: { total: 12, completed: 10, filtered: 1, failed: 1 },
      answers_invalid: 1,
      errors: { invalid_request: 1, content_filter: 1, answer_not_a_label: 1 },
    });
  });

  it('is mended by a retry, which keeps every other byte', async () => {
    const before = work.read('finished.csv').split('\n');
    const { code, stderr } = await call(
      'retry',
      'finished.csv',
      '--job',
      'job.yaml',
      '--invalid',
      '--status',
      'failed',
    );
    expect(code, stderr).toBe(0);
    expect(prompts()).toEqual(['row 3', 'row 6']);
    const now = work.read('finished.csv').split('\n');
    expect(now.flatMap((line, i) => (line === before[i] ? [] : [i]))).toEqual([3, 6]);
    expect(work.json('finished.summary.json')).toMatchObject({
      rows: { total: 12, completed: 11, filtered: 1, failed: 0 },
      answers: { negative: 5, positive: 6 },
      answers_invalid: 0,
      calls: { sent: 14 },
    });
  });

  it('is scored, and compared with the output of a run of today', async () => {
    const scored = await call('score', 'finished.csv', '--gold', 'gold', '--job', 'job.yaml', '--json');
    expect(JSON.parse(scored.stdout)).toMatchObject({
      records: 12,
      scores: { rows: 10, accuracy: { value: 0.9 } },
    });
    await call('run', 'job.yaml', '--output', 'now.csv', '--quiet');
    const compared = await call('compare', 'finished.csv', 'now.csv', '--json');
    expect(JSON.parse(compared.stdout)).toMatchObject({ rows: 12, changed: 3 });
  });
});
