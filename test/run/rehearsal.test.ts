import { existsSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const EMULATOR = 'rehearsal, answered by an emulator';

describe('a rehearsal and a real run of one job', () => {
  const store = oneStore();
  const place = scriptedPlace();
  const job = (more: object = {}): string =>
    place.work.job({
      input: { path: 'rows.csv', id: 'id', only_new: true },
      prompt: 'Is it positive or negative? {{ note }}',
      answer: { labels: ['positive', 'negative'] },
      drift: { alarm: 0 },
      report: true,
      ...more,
    });
  const call = async (...args: string[]) => {
    const { code, stdout, stderr } = await place.work.call(args, {
      PROMPTMILL_BASE_URL: place.service.url,
      ...store(),
    });
    return { code, stdout, stderr: stderr.replaceAll(/\s+/g, ' ') };
  };
  const files = () => readdirSync(place.work.path('out')).sort();
  const NAMES = ['csv', 'report.html', 'summary.json'];

  it.each([
    ['the rehearsal first', ['--emulate'], []],
    ['the real run first', [], ['--emulate']],
  ])(
    'fault 104: take no file, no state and no answer of each other, %s, in two steps and once more',
    async (name, first, second) => {
      place.script = () => ({ json: completionBody({ text: 'negative' }) });
      place.work.rows(4);
      const file = job({ name: name.replaceAll(' ', '-'), output: { path: 'out/r.csv' } });
      for (const flags of [first, second]) {
        const begun = await call('run', file, '--limit', '2', ...flags);
        expect(begun.code, begun.stderr).toBe(0);
        expect(begun.stderr).toContain(' 0 rows are known from the last run');
      }
      for (const flags of [second, first]) {
        const rest = await call('run', file, ...flags);
        expect(rest.code, rest.stderr).toBe(0);
        expect(rest.stderr).toContain('continuing run');
        expect(rest.stderr).toContain('no drift yet');
      }
      expect(files()).toEqual(
        ['r', 'r.emulated'].flatMap((name) => NAMES.map((end) => `${name}.${end}`)).sort(),
      );
      expect(place.service.requests.length).toBe(4);
      for (const flags of [first, second]) {
        const again = await call('run', file, '--overwrite', ...flags);
        expect(again.stderr).toContain(' 4 rows are known from the last run');
      }
      expect(place.service.requests.length).toBe(4);
      const models = (name: string) => new Set(place.work.records(name).map(({ model }) => model));
      expect(models('out/r.csv')).toEqual(new Set(['lm-35-turbo-instruct']));
      expect(models('out/r.emulated.csv')).toEqual(new Set(['emulator:lm-35-turbo-instruct']));
      expect(place.work.json('out/r.summary.json')).toMatchObject({ emulated: false });
      expect(place.work.json('out/r.emulated.summary.json')).toMatchObject({ emulated: true });
    },
  );

  it('fault 104: adds rows to its own output, and retries only its own', async () => {
    place.script = () => ({ status: 400, json: { error: { code: 'bad', message: 'bad' } } });
    const input = { path: place.work.rows(3) };
    const more = { input, drift: undefined, output: { path: 'out/r.jsonl.gz' } };
    const file = job(more);
    expect((await call('run', file, '--emulate')).code).toBe(0);
    expect((await call('run', file)).code).toBe(1);
    place.work.rows(5);
    const extended = await call('run', file, '--extend', '--emulate');
    expect(extended.code, extended.stderr).toBe(0);
    expect(place.work.lines('out/r.emulated.jsonl.gz').length).toBe(5);
    expect(place.work.lines('out/r.jsonl.gz').length).toBe(3);
    const calls = place.service.requests.length;

    const paid = await call('retry', 'out/r.emulated.jsonl.gz', '--row', '1');
    expect([paid.code, paid.stderr]).toEqual([
      2,
      expect.stringContaining('r.emulated.jsonl.gz is a rehearsal'),
    ]);
    const mixed = await call('retry', 'out/r.jsonl.gz', '--emulate');
    expect([mixed.code, mixed.stderr]).toEqual([
      2,
      expect.stringContaining('has the answers of the service'),
    ]);
    const own = await call('retry', 'out/r.emulated.jsonl.gz', '--row', '1', '--emulate');
    expect(own.code, own.stderr).toBe(0);
    expect(place.service.requests.length).toBe(calls);
    expect(existsSync(place.work.path('out/r.emulated.emulated.jsonl.gz'))).toBe(false);
  });

  it('fault 104: marks the file of --output, and a run by the service takes no such name', async () => {
    place.script = () => ({ json: completionBody({ text: 'negative' }) });
    place.work.rows(4);
    const file = job({ drift: undefined });
    for (const output of ['out/mine.csv', 'out/mine.emulated.csv'])
      await call('run', file, '--emulate', '--overwrite', '--output', output);
    expect(files()).toEqual(NAMES.map((end) => `mine.emulated.${end}`));
    const refused = await call('run', file, '--output', 'out/mine.emulated.csv', '--overwrite');
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('is the name of a rehearsal'),
    ]);
    const piped = await call('run', file, '--emulate', '--output', '-', '--json', '--quiet');
    expect(piped.code, piped.stderr).toBe(0);
    expect(files()).toEqual(NAMES.map((end) => `mine.emulated.${end}`));
  });
});

describe('every page of a rehearsal', () => {
  const store = oneStore();
  const place = scriptedPlace();

  it('fault 104: says on its first lines that an emulator answered', async () => {
    const { work } = place;
    const job = work.job({
      input: { path: work.rows(3) },
      prompt: 'Is it positive or negative? {{ note }}',
      answer: { labels: ['positive', 'negative'] },
      output: { path: 'r.csv' },
      report: true,
    });
    const out = 'r.emulated.csv';
    const call = (...args: string[]) => work.call(args, store());
    const firstLine = ({ stderr, stdout }: { stderr: string; stdout: string }): string =>
      (stderr + stdout).trimStart().split('\n')[0] ?? '';
    const ran = await call('run', job, '--emulate');
    expect(ran.stderr).toMatch(new RegExp(`^job \\(${EMULATOR}\\), deployment`, 'm'));
    expect(/<h1[^>]*>[^<]*/.exec(work.read('r.emulated.report.html'))?.[0]).toContain(EMULATOR);
    expect(firstLine(await call('report', out))).toContain(EMULATOR);
    expect(firstLine(await call('report', out, '--markdown', '-'))).toContain('emulator');
    expect(firstLine(await call('compare', out, out))).toContain(EMULATOR);
    expect((await call('status')).stdout + (await call('status')).stderr).toContain(EMULATOR);
  });
});
