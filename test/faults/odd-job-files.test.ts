import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ask, basic } from '../ops/web/dashboard.js';
import { Workplace } from '../support/promptmill.js';
import { Serve } from '../support/serve.js';

const SCHEDULE = { cron: '* * * * * *', timezone: 'UTC' };
const laughs = (): string => {
  const again = (n: number): string => Array(10).fill(`*a${n}`).join(',');
  const levels = Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${again(i)}]`);
  return ['a0: &a0 [x,x,x,x,x,x,x,x,x,x]', ...levels, ''].join('\n');
};

/** What stands where a job file should, and what is said of it. */
const ODD: readonly (readonly [name: string, said: string, make: (path: string) => unknown])[] = [
  ['unresolved', ':1: not valid YAML: no anchor &nowhere comes before', () => 'service: *nowhere\n'],
  [
    'recursive',
    ':1: not valid YAML: the alias *a is inside of what it stands for',
    () => 'service: &a { a: *a }\n',
  ],
  ['laughs', 'not valid YAML: its aliases unfold to too much', laughs],
  [
    'deep',
    'not valid YAML: nested in more than 200 levels',
    () => `prompt: ${'['.repeat(900)}${']'.repeat(900)}\n`,
  ],
  ['dashes', 'not valid YAML: nested in more than 200 levels', () => `prompt:\n  ${'- '.repeat(300_000)}x\n`],
  ['deeper', 'not valid YAML: nested in more than 200 levels', () => `prompt: ${'['.repeat(300_000)}\n`],
  ['utf16', 'is not UTF-8 text, but UTF-16', () => Buffer.from('\ufeffservice: {}\n', 'utf16le')],
  ['latin', 'is not UTF-8 text', () => Buffer.from('prompt: \u00e9\n', 'latin1')],
  ['folder', 'is a folder', (path) => void mkdirSync(path)],
  ['dangling', 'no job file', (path) => symlinkSync('/nowhere/job.yaml', path)],
  ['pipe', 'is a pipe or a device', (path) => void execFileSync('mkfifo', [path])],
  ['device', 'is a pipe or a device', (path) => symlinkSync('/dev/zero', path)],
  ['huge', 'has 100 MB, and a job file at most 1', () => ''],
];

function putOddFiles(work: Workplace): void {
  for (const [name, , make] of ODD) {
    const content = make(work.path(`jobs/${name}.yaml`));
    if (typeof content === 'string' || Buffer.isBuffer(content)) work.write(`jobs/${name}.yaml`, content);
  }
  truncateSync(work.path('jobs/huge.yaml'), 100_000_000);
}

describe('promptmill run', () => {
  const work = new Workplace();
  beforeAll(() => {
    mkdirSync(work.path('jobs'));
    putOddFiles(work);
  });
  afterAll(() => work.remove());

  it.each(ODD.map(([name, said]) => [name, said]))(
    'fault 83: refuses a job file that is %s',
    async (name, said) => {
      const { code, stderr } = await work.call(['run', `jobs/${name}.yaml`, '--emulate']);
      expect(code, stderr).toBe(2);
      expect(stderr).toContain(`jobs/${name}.yaml`);
      expect(stderr).toContain(said);
    },
  );
});

describe('promptmill serve on embedded', () => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it('fault 83: names the job files that it cannot use and runs the others, and the list and the dashboard name them', async () => {
    work.rows(3);
    for (const name of ['good', 'late'])
      work.job(
        { input: { path: 'rows.csv' }, output: { path: `${name}.csv` }, schedule: SCHEDULE },
        `jobs/${name}.yaml`,
      );
    work.job({ name: 'good', input: { path: 'rows.csv' }, schedule: SCHEDULE }, 'jobs/same-name.yaml');
    putOddFiles(work);
    const password = 'for-tests-only';
    const env = {
      PROMPTMILL_DASHBOARD_PASSWORD: password,
      PROMPTMILL_BASE_URL: 'http://127.0.0.1:9',
      PROMPTMILL_API_KEY: 'none',
    };
    const serve = new Serve(work.start(['serve', '--port', '0'], env));
    const authorization = basic('promptmill', password);
    const problems = async (): Promise<string[]> => {
      const [{ url } = { url: '' }] = serve.logged(/^the dashboard listens/);
      return JSON.parse((await ask('GET', `${url}/api/state`, { authorization })).body).problems;
    };
    try {
      await serve.logs(/^serving the schedule/);
      // There is no service: what matters is that the jobs were begun.
      await serve.logs(/^(stopped early|not started|finished)/, 2);
      const said = [...ODD.map(([, words]) => words), 'are both named good'];
      const { code, stdout, stderr } = await work.call(['schedule', 'list'], env);
      expect(code, stderr).toBe(0);
      expect(stdout).toMatch(/^good {2}/m);
      expect(stdout).toMatch(/^late {2}/m);
      const shown = (await problems()).join('\n');
      for (const words of said) {
        expect(serve.lines.map(({ msg }) => msg).join('\n')).toContain(words);
        expect(stderr).toContain(words);
        expect(shown).toContain(words);
      }
      // Mended, it is named no more, and follows the clock.
      work.job(
        { input: { path: 'rows.csv' }, output: { path: 'mended.csv' }, schedule: SCHEDULE },
        'jobs/latin.yaml',
      );
      const before = serve.logged(/its schedule stays as it was$/).length;
      serve.running.process.kill('SIGHUP');
      await serve.logs(/its schedule stays as it was$/, before + ODD.length);
      await expect.poll(problems, { timeout: 60_000 }).toHaveLength(ODD.length);
    } finally {
      serve.running.process.kill('SIGTERM');
      await serve.running.ended;
    }
  });
});
