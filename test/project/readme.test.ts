import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';

const root = join(import.meta.dirname, '../..');

describe('the README', () => {
  let work = new Workplace();
  afterEach(() => {
    work.remove();
    work = new Workplace();
  });
  /** Puts folders of the project into the place where its commands run. */
  const link = (...folders: readonly string[]): void => {
    for (const folder of folders) symlinkSync(join(root, folder), work.path(folder));
  };
  const readme = readFileSync(join(root, 'README.md'), 'utf8');

  it('begins with the two commands that a stranger types', () => {
    expect(readme).toContain('    npm ci && npx promptmill run jobs/sentiment.yaml --emulate\n');
    expect(readme).toContain('    npm ci && npm test\n');
  });

  it('shows what the first of them ends with', async () => {
    link('jobs', 'samples');
    const { stderr } = await work.call(['run', 'jobs/sentiment.yaml', '--emulate']);
    const [, shown = ''] = /^The first ends like this.*\n(?:.+\n)*\n((?: {4}.*\n|\n)+)/m.exec(readme) ?? [];
    expect(shown).toContain('accuracy');
    expect(stderr).toContain(shown.replaceAll(/^ {4}/gm, '').trim());
  });

  it('names only files that exist', () => {
    const links = [...readme.matchAll(/\]\(([^)#:]+)\)/g)].flatMap((match) => match[1] ?? []);
    expect(links.length).toBeGreaterThan(5);
    for (const link of links) expect(() => readFileSync(join(root, link)), link).not.toThrow();
  });

  it('is short', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(150);
  });

  it('shows commands for own data that work as they stand, in an empty folder', {
    timeout: 300_000,
  }, async () => {
    const [, section = ''] = /^## Your own data\n([\s\S]*?)^## /m.exec(readme) ?? [];
    work.write('reviews.csv', readFileSync(join(root, 'samples/reviews.csv')));
    const commands = [...section.matchAll(/^ {4}npx promptmill (.*)$/gm)].flatMap((match) => match[1] ?? []);
    expect(commands.map((command) => command.split(' ')[0])).toEqual(['init', 'check', 'run', 'run', 'run']);
    for (const command of commands) {
      // The service's address is another's.
      const isCalled = command.startsWith('run') && !command.includes('--emulate');
      const asked = ['--prompt', 'Classify the sentiment.', '--labels', 'positive,negative,neutral'];
      const more = command.startsWith('init') ? asked : isCalled ? ['--emulate', '--overwrite'] : [];
      const ended = await work.call([...command.split(' '), ...more]);
      expect(ended.code, `${command}\n${ended.stderr}`).toBe(0);
    }
    expect(work.records('out/reviews.emulated.csv')).toHaveLength(348);
  });

  it('shows a job that works', async () => {
    const yaml = /```yaml\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
    const job = work.write('own/reviews.yaml', yaml);
    work.write('reviews.csv', readFileSync(join(root, 'samples/reviews.csv')));
    const checked = await work.call(['check', job]);
    expect(checked.stderr).toContain('348 rows = 338 to send + 0 failing + 10 skipped');
  });

  it('and the page of operations show a pipe that works', async () => {
    link('jobs');
    work.write('reviews.csv', readFileSync(join(root, 'samples/reviews.csv')));
    const page = readFileSync(join(root, 'docs/operations.md'), 'utf8');
    const shown = /^ {4}zcat reviews.csv.gz \| npx promptmill (.*)$/m.exec(page)?.[1] ?? '';
    const piped = `gzip -c reviews.csv | zcat | '${process.execPath}' '${join(root, 'dist/cli.js')}' ${shown}`;
    const { stdout } = await promisify(execFile)('sh', ['-c', piped], {
      cwd: work.folder,
      maxBuffer: 16 * 1024 * 1024,
    });
    expect(stdout).toMatch(/^review_id,/);
  });

  it('names every script it tells a developer to run', () => {
    const scripts = Object.keys(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts);
    const pages = readme + readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
    const named = [...pages.matchAll(/npm run ([\w:]+)/g)].flatMap((match) => match[1] ?? []);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((name) => !scripts.includes(name))).toEqual([]);
  });
});
