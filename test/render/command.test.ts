import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import type { RunReport } from '../../src/render/run-report.js';
import { outputFiles } from '../../src/resume/output-files.js';
import { removeReport } from '../../src/resume/report-file.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Ended, Workplace } from '../support/promptmill.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const MARKUP = '<script>alert(1)</script> [x](javascript:1) | **b** `c`';
const ROWS = `id,note
1,fine
2,"${MARKUP}"
3,fails
4,blocked
5,odd
6,fine
`;

/** Of each note what the service answers: also an answer that is none of the labels, and refusals. */
const SCRIPT = ({ prompt }: { readonly prompt: string }) => {
  const refused = (code: string) => ({
    status: 400,
    json: { error: { code, message: `${MARKUP} ${code}` } },
  });
  if (prompt.includes('fails')) return refused('BadRequest');
  if (prompt.includes('blocked')) return refused('content_filter');
  return { json: completionBody({ text: prompt.includes('odd') ? ' no idea' : ' good' }) };
};

const store = oneStore();

describe('promptmill report', () => {
  const place = new MemoryPlace();
  place.script = SCRIPT;
  const { work } = place;
  const report = (...args: readonly string[]): Promise<Ended> => work.call(['report', ...args]);
  const jsonOf = async (...args: readonly string[]): Promise<RunReport> => {
    const { code, stdout, stderr } = await report(...args, '--json');
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout);
  };
  beforeAll(async () => {
    for (const output of ['out.csv', 'lines.jsonl']) {
      const job = work.job({
        input: { path: work.write('rows.csv', ROWS) },
        prompt: 'Is this good? {{ note }}',
        answer: { labels: ['good', 'bad'] },
        output: { path: output },
        limits: { requests_per_minute: 60_000 },
      });
      const { code, said } = await place.run(job);
      expect(code, said).toBe(1);
    }
  });
  afterAll(() => work.remove());

  it.each(['out.csv', 'lines.jsonl'])(
    'has what the run came to, and the rows to look at: %s',
    async (output) => {
      const { verdict, sections, charts, table, summary, prompt } = await jsonOf(output);
      expect(verdict).toMatchObject({
        state: 'some_failed',
        next: [
          { command: `promptmill retry ${output}` },
          { command: `promptmill retry ${output} --invalid` },
        ],
      });
      expect(prompt).toBe('Is this good? {{ note }}');
      const errors = sections.find(({ id }) => id === 'errors')?.rows ?? [];
      expect(errors.map(({ name }) => name).sort()).toEqual([
        ...['answer_not_a_label', 'content_filter', 'invalid_request'],
      ]);
      for (const { sample, advice } of errors)
        expect([sample, advice]).toEqual([expect.any(String), expect.any(String)]);
      const total = (name: 'rows' | 'failed' | 'sent'): number =>
        charts.timeline.reduce((sum, point) => sum + point[name], 0);
      expect([total('rows'), total('failed'), total('sent')]).toEqual([6, 1, summary.calls.sent]);
      expect(charts.requests_per_minute).toBe(60_000);
      expect(sections.map(({ id }) => id)).toContain('quota');

      const columns = table?.columns.map(({ name }) => name);
      expect(columns).toEqual(['answer', 'note', 'text', 'error_code', 'error_message', 'id']);
      expect(table?.rows.map(({ row, outcome, cells }) => [row, outcome, cells.at(-1)])).toEqual([
        [1, 'answered', '1'],
        [2, 'answered', '2'],
        [3, 'failed', '3'],
        [4, 'filtered', '4'],
        [5, 'invalid', '5'],
        [6, 'answered', '6'],
      ]);
      expect(table?.rows[1]?.cells[1]).toBe(MARKUP);
      expect(table).toMatchObject({
        records: 6,
        outcomes: { answered: 3, failed: 1, filtered: 1, invalid: 1 },
      });
    },
  );

  it('says which answers are wrong, where the job can be read', async () => {
    const job = work.job(
      {
        report: true,
        input: { path: work.write('truth.csv', 'note,truth\nfine,good\nworse,bad\nnever told,\n') },
        prompt: 'Is this good? {{ note }}',
        answer: { labels: ['good', 'bad'], gold: 'truth' },
        output: { path: 'truth.out.csv' },
      },
      'truth.yaml',
    );
    const ran = await place.run(job);
    expect(ran.code, ran.said).toBe(0);
    const judged = { wrong: 1, right: 1, answered: 1 };
    const { table } = await jsonOf('truth.out.csv');
    expect(table?.outcomes).toEqual(judged);
    expect(table?.rows.map(({ outcome, gold }) => [outcome, gold])).toEqual([
      ['right', 'good'],
      ['wrong', 'bad'],
      ['answered', ''],
    ]);
    expect(work.read('truth.out.report.html')).toContain('>wrong 1</button>');

    renameSync(work.path(job), work.path('renamed.yaml'));
    const without = await report('truth.out.csv', '--json');
    expect(without.code).toBe(0);
    expect(without.stderr).toMatch(/^warning: wrong answers are not marked: .*--job FILE\.$/m);
    expect(JSON.parse(without.stdout).table.outcomes).toEqual({ answered: 3 });
    expect((await jsonOf('truth.out.csv', '--job', 'renamed.yaml')).table?.outcomes).toEqual(judged);
    expect((await report('truth.out.csv', '--job', job)).code).toBe(2);
  });

  it('is text on the terminal, with what to do next', async () => {
    const { code, stdout, stderr } = await report('out.csv');
    expect([code, stdout]).toEqual([0, '']);
    expect(stderr).toContain('6 rows = 4 completed + 1 filtered + 1 failed + 0 skipped; answers.invalid 1');
    expect(stderr).toContain('promptmill retry out.csv');
    expect(stderr).toMatch(/what to do {6}\S+: /);
    expect(stderr).not.toContain('over time');
    expect(stderr.split('\n').every((line) => line.length <= 100)).toBe(true);
  });

  it('is Markdown without markup of rows, in a file or on standard output', async () => {
    const { stdout } = await report('out.csv', '--markdown', '-');
    expect((await report('out.csv', '--markdown', 'report.md')).code).toBe(0);
    expect(work.read('report.md')).toBe(stdout);
    work.write('report.md', 'mine');
    expect((await report('out.csv', '--markdown', 'report.md', '--overwrite')).code).toBe(0);
    expect(work.read('report.md')).toBe(stdout);
    expect(stdout).toContain('1 failed');
    expect(stdout).not.toContain('<script>alert');
  });

  it('is an HTML page with the same figures, and no markup of rows', async () => {
    const { code, stdout, stderr } = await report('out.csv', '--html', '-');
    expect(code, stderr).toBe(0);
    expect(stdout).toContain('<!doctype html>');
    expect(stdout).toContain('promptmill retry out.csv');
    expect(stdout).toContain('requests a minute, mean');
    expect(stdout).not.toContain('<script>alert');
  });

  it('is made of the summary alone where the output is gone, and says so', async () => {
    work.write('moved/out.summary.json', work.read('out.summary.json'));
    for (const file of ['moved/out.summary.json', 'moved/out.csv']) {
      const { table, table_note: note } = await jsonOf(file);
      expect(table).toBeNull();
      expect(note).toBe('moved/out.csv is not there, so the rows are left out');
    }
    // Moved together, they belong together.
    work.write('moved/out.csv', work.read('out.csv'));
    expect((await jsonOf('moved/out.summary.json')).table?.records).toBe(6);
  });

  it('says why, and writes nothing, where it cannot be made', async () => {
    work.write('other/mine.csv', work.read('out.csv'));
    work.write('other/mine.summary.json', work.read('out.summary.json'));
    work.write('alone/out.csv', work.read('out.csv'));
    work.write('odd.summary.json', '{"hello": 1}');
    work.write('begun/out.csv.part', 'id\n');
    for (const name of ['out.csv', 'out.summary.json']) work.write(`ending/${name}`, work.read(name));
    work.write('ending/out.csv.part', work.read('out.csv'));
    work.write('ending/out.csv.run.json', '{"stage":"finishing"}');
    mkdirSync(work.path('folder'));
    symlinkSync('nowhere', work.path('link'));
    const before = readdirSync(work.folder, { recursive: true }).sort();
    for (const [args, said] of [
      [['other/mine.csv'], 'other/mine.summary.json is the summary of out.csv, and not of other/mine.csv'],
      [['alone/out.csv'], 'alone/out.summary.json does not exist'],
      [['none.csv'], 'none.csv does not exist'],
      [['begun/out.csv'], 'the run that writes begun/out.csv is not finished'],
      [['ending/out.csv'], 'ending/out.csv is about to be replaced by the run of ending/out.csv.run.json'],
      [['ending/out.summary.json'], 'ending/out.csv is about to be replaced'],
      [['report.xlsx'], 'report.xlsx'],
      [['odd.summary.json'], 'odd.summary.json is no summary of a run: run: '],
      [['out.csv', '--markdown', 'out.csv'], 'out.csv is a file of the run itself'],
      [['out.csv', '--html', 'rows.csv'], 'rows.csv is a file of the run itself'],
      [['out.csv', '--html', 'job.yaml'], 'job.yaml is a file of the run itself'],
      [['out.csv', '--html', 'out.review.csv'], 'out.review.csv is a file of the run itself'],
      [['out.csv', '--html', './out.csv.part'], './out.csv.part is a file of the run itself'],
      [['out.csv', '--html', 'lines.jsonl'], 'lines.jsonl exists'],
      [['out.csv', '--html', 'new.md', '--markdown', './new.md'], '--html and --markdown both name new.md'],
      [['out.csv', '--html', 'link'], 'link is a symbolic link'],
      [['out.csv', '--markdown', 'folder'], 'folder is there, and is no plain file'],
      [['out.csv', '--markdown', 'no/such/report.md'], 'cannot write no/such/report.md'],
      [['out.csv', '--json', '--markdown', '-'], 'two forms of the report would go to standard output'],
    ] as const) {
      const { code, stdout, stderr } = await report(
        ...args,
        ...(args.length === 1 ? ['--markdown', 'new.md'] : []),
      );
      expect([code, stdout], stderr).toEqual([2, '']);
      expect(stderr).toContain(said);
    }
    expect(readdirSync(work.folder, { recursive: true }).sort()).toEqual(before);
    rmSync(work.path('folder'), { recursive: true });
    rmSync(work.path('link'));
  });

  it('compares the run with the one before', async () => {
    const job = work.job({
      input: { path: 'rows.csv' },
      prompt: 'Is this good? {{ note }}',
      answer: { labels: ['good', 'bad'] },
      output: { path: 'again.csv' },
    });
    expect((await place.run(job)).code).toBe(1);
    work.write('rows.csv', ROWS.replace('3,fails', '3,fine'));
    expect((await place.run(job, { overwrite: true })).code).toBe(0);
    const { sections, summary } = await jsonOf('again.csv');
    expect(summary.last_run).toMatchObject({ output: 'again.csv', rows: { failed: 1, completed: 4 } });
    const rows = sections.find(({ id }) => id === 'last_run')?.rows.map(({ name, value }) => [name, value]);
    expect(rows).toContainEqual(['failed', '1 → 0']);
    expect(rows).toContainEqual(['rows', '6, as before']);
    expect(rows).toContainEqual(['answer good', '75.0 % → 80.0 %']);
  });
});

describe('the report of a run', () => {
  let place: MemoryPlace;
  let work: Workplace;
  let during: () => void = () => {};
  beforeEach(() => {
    place = new MemoryPlace();
    place.script = () => {
      during();
      return { json: completionBody({ text: ' good' }) };
    };
    work = place.work;
    during = () => {};
  });
  afterEach(() => work.remove());

  const job = (more: object): string =>
    work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' }, ...more });
  const run = (more: object, flags: RunFlags = {}) => place.run(job(more), flags);
  const there = (): boolean => existsSync(work.path('out.report.html'));

  /** The same from the command line. */
  const command = async (more: object, ...flags: string[]): Promise<Ended> => {
    const service = await startScriptedService(place.script);
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    try {
      return await work.call(['run', job(more), ...flags], env);
    } finally {
      await service.close();
    }
  };

  it('is beside its output, the same that the command makes', async () => {
    const { code, stderr } = await command({ report: true });
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/report {3}out\.report\.html/);
    expect(there()).toBe(true);
    const page = work.read('out.report.html');
    expect((await work.call(['report', 'out.csv', '--html', '-'])).stdout).toBe(page);
  });

  it('is left out where the job says so, and where the records go to standard output', async () => {
    expect((await run({ report: false })).code).toBe(0);
    expect((await command({ report: true }, '--output', '-')).code).toBe(0);
    expect(there()).toBe(false);
  });

  it('of another run is not left beside the output, and another file is', async () => {
    expect((await run({ report: true })).code).toBe(0);
    const page = work.read('out.report.html');
    during = () => mkdirSync(work.path('out.report.html.tmp'), { recursive: true });
    const { code, said } = await run({ report: true }, { overwrite: true });
    expect(code, said).toBe(0);
    expect(said).toContain('warning: the output is whole, but its report could not be made');
    expect(there()).toBe(false);
    work.write('out.report.html', page);
    expect((await run({ report: false }, { overwrite: true })).code).toBe(0);
    expect(there()).toBe(false);
    work.write('out.report.html', 'mine');
    await removeReport(outputFiles(work.path('out.csv')));
    expect(work.read('out.report.html')).toBe('mine');
  });

  it('that cannot be written is a warning, and no failed run', async () => {
    during = () => mkdirSync(work.path('out.report.html'), { recursive: true });
    const { code, stderr } = await command({ report: true });
    expect(code, stderr).toBe(0);
    expect(stderr).toContain(
      'warning: the output is whole, but its report could not be made: cannot write out.report.html',
    );
    expect(stderr).not.toMatch(/report {3}out\.report\.html/);
    expect(
      readdirSync(work.folder).filter((name) => name.includes('.run.json') || name.endsWith('.tmp')),
    ).toEqual([]);
  });

  it('fault 65: is written to no link, and to no folder: then nothing is called', async () => {
    for (const make of [
      () => symlinkSync('elsewhere.html', work.path('out.report.html')),
      () => mkdirSync(work.path('out.report.html')),
    ]) {
      make();
      const calls = place.machine.calls();
      const { code, said } = await run({ report: true });
      expect(code).toBe(2);
      expect(said).toContain('out.report.html is a ');
      expect(place.machine.calls()).toBe(calls);
      rmSync(work.path('out.report.html'), { recursive: true });
    }
  });
});
