import { readdirSync, readFileSync, statSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { commitTo, finish, openCommitter, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { completed } from './records.js';

/** How sure the model is of each row. */
const SURE = [0.95, 0.6, 0.9, 0.5, 0.99];
const LABELS = { labels: ['yes', 'no'], confidence: 'logprobs', abstain_below: 0.8, gold: 'note' };

describe('an output that ends in .gz', () => {
  const store = oneStore();
  let place: MemoryPlace;
  let work: Workplace;
  beforeEach(() => {
    place = new MemoryPlace();
    place.script = ({ prompt }) => {
      const confidence = SURE[Number(prompt.split(' ')[1]) - 1] ?? null;
      return { json: completionBody({ text: ' yes', confidence }) };
    };
    work = place.work;
    work.write('in.csv', 'id,note\n1,yes\n2,"no"\n3,yes\n4,no\n5,\n');
  });
  afterEach(() => work.remove());

  const written = (output: string, job: object = {}): string =>
    work.job({ input: { path: 'in.csv' }, output: { path: output }, ...job });
  const run = async (output: string, job: object = {}, flags: RunFlags = {}) => {
    const { code, said } = await place.run(written(output, job), flags);
    expect(code, said).toBe(0);
  };
  const files = (): string[] => readdirSync(work.folder).filter((name) => name.startsWith('out'));

  it.each(['csv', 'jsonl'])('has the records of one in %s, with its files beside it', async (ending) => {
    const name = `out.${ending}.gz`;
    await run(`plain.${ending}`, { answer: { ...LABELS, gold: undefined } });
    await run(name, { answer: { ...LABELS, gold: undefined } });
    const stable = (file: string): string => work.read(file).replaceAll(/latency_ms":\d+|,\d+,,,/g, '');
    expect(stable(name)).toBe(stable(`plain.${ending}`));
    expect(files()).toEqual([name, 'out.review.csv', 'out.summary.json']);
    expect(work.records('out.review.csv').map(({ row }) => row)).toEqual(['2', '4']);
    expect(work.json('out.summary.json')).toMatchObject({ output: name, rows: { total: 5 } });
    // Neither the time nor the name of a file is in it: the same records give the same bytes.
    const bytes = readFileSync(work.path(name));
    expect([...bytes.subarray(4, 8)]).toEqual([0, 0, 0, 0]);
    expect(bytes.length).toBeLessThan(Buffer.byteLength(work.read(name)));
  });

  it('goes on from its first rows, and calls only those behind them', async () => {
    await run('out.csv.gz', {}, { limit: 2 });
    const beginning = work.read('out.csv.gz');
    expect(work.records('out.csv.gz').map(({ id }) => id)).toEqual(['1', '2']);
    await run('out.csv.gz');
    expect(work.read('out.csv.gz').startsWith(beginning)).toBe(true);
    expect(work.records('out.csv.gz').map(({ id }) => id)).toEqual(['1', '2', '3', '4', '5']);
    expect(place.machine.calls()).toBe(5);
    expect(files()).toEqual(['out.csv.gz', 'out.summary.json']);
  });

  it('takes the answers of people, is scored, mended and compared, and is an input', async () => {
    await run('out.csv.gz', { answer: LABELS });
    work.write('answers.csv', 'row,answer\n2,no\n4,no\n');
    const merged = await work.call(['merge-review', 'out.csv.gz', 'answers.csv']);
    expect(merged.stderr).toBe('merged 2 answers into out.csv.gz; no row of the review is empty\n');
    expect(work.records('out.csv.gz').map(({ answer }) => answer)).toEqual(['yes', 'no', 'yes', 'no', 'yes']);
    const score = await work.call(['score', 'out.csv.gz', '--json']);
    expect(JSON.parse(score.stdout)).toMatchObject({ records: 5, scores: { rows: 4 } });
    const [, first] = work.read('out.csv.gz').split('\n');
    const retried = await place.retry('out.csv.gz', { row: '5' });
    expect(retried.code, retried.said).toBe(0);
    expect(work.read('out.csv.gz').split('\n')[1]).toBe(first);
    expect(place.machine.calls()).toBe(6);
    const same = await work.call(['compare', 'out.csv.gz', 'out.csv.gz', '--json']);
    expect(JSON.parse(same.stdout)).toMatchObject({ rows: 5, changed: 0 });
    await run('again.jsonl', { input: { path: 'out.csv.gz' } });
    expect(work.lines('again.jsonl').map(({ input }) => input.answer)).toEqual([
      ...['yes', 'no', 'yes', 'no', 'yes'],
    ]);
  });

  it('is refused where it is damaged, with a sentence and nothing written', async () => {
    await run('out.csv.gz', { answer: { ...LABELS, gold: undefined } });
    work.write('answers.csv', 'row,answer\n2,no\n');
    const whole = readFileSync(work.path('out.csv.gz'));
    const damages = [
      [whole.subarray(0, -9), 'out.csv.gz is cut off: its gzip stream ends too early'],
      [Buffer.from('id,status\n'), 'out.csv.gz is not sound gzip'],
    ] as const;
    for (const [bytes, message] of damages) {
      work.write('out.csv.gz', bytes);
      const before = statSync(work.path('out.csv.gz')).ino;
      for (const args of [
        ['score', 'out.csv.gz', '--gold', 'note'],
        ['merge-review', 'out.csv.gz', 'answers.csv'],
      ]) {
        const { code, stderr } = await work.call(args);
        expect(code, stderr).toBe(2);
        expect(stderr).toContain(message);
      }
      expect(statSync(work.path('out.csv.gz')).ino).toBe(before);
    }
  });

  it('goes to standard output as plain text', async () => {
    const service = await startScriptedService(place.script);
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const { stdout } = await work.call(['run', written('out.csv.gz'), '--output', '-'], env);
    await service.close();
    expect(stdout.split('\n')[0]).toMatch(/^id,note,status,answer,/);
  });

  it('is written again by the next execution, when the one before was killed with the packed file beside its part file', async () => {
    const settings = settingsFor(work.path('out.csv.gz'));
    const notes = Array.from({ length: 200 }, (_, i) => ({ note: `note ${i}`, outcome: completed }));
    const rows = await rowsOf(settings, notes);
    const killed = await openCommitter(settings, rows);
    await commitTo(killed.committer, rows, 200);
    // What a process leaves that is killed while it packs.
    work.write('out.csv.gz.part.tmp', gzipSync('half'));
    await killed.committer.close();
    const { committer } = await openCommitter(settings, rows);
    expect(work.read('out.csv.gz.part')).toBe(rows.text);
    await finish(committer, summaryOf(committer, 'out.csv.gz'));
    expect(work.read('out.csv.gz')).toBe(rows.text);
    expect(files()).toEqual(['out.csv.gz', 'out.summary.json']);
  });
});
