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
    const [, shown = ''] = /^The first ends like this.*\n\n((?: {4}.*\n|\n)+)/m.exec(readme) ?? [];
    expect(shown).toContain('rows with gold answered');
    expect(stderr).toContain(shown.replaceAll(/^ {4}/gm, '').trim());
  });

  it('names only files that exist', () => {
    const links = [...readme.matchAll(/\]\(([^)#:]+)\)/g)].flatMap((match) => match[1] ?? []);
    expect(links.length).toBeGreaterThan(5);
    for (const link of links) expect(() => readFileSync(join(root, link)), link).not.toThrow();
  });

  it('shows commands that work', async () => {
    const yaml = /```yaml\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
    link('jobs');
    const job = work.write('own/reviews.yaml', yaml);
    work.write('reviews.csv', readFileSync(join(root, 'samples/reviews.csv')));
    const checked = await work.call(['check', job]);
    expect(checked.stderr).toContain('348 rows = 338 to send + 0 failing + 10 skipped');
    const { code, stderr } = await work.call(['run', job, '--limit', '20', '--emulate']);
    expect(code, stderr).toBe(0);

    const piped =
      `cat reviews.csv | gzip | zcat | '${process.execPath}' '${join(root, 'dist/cli.js')}'` +
      ` run jobs/sentiment.yaml --emulate --input - --format csv --output -`;
    const { stdout } = await promisify(execFile)('sh', ['-c', piped], {
      cwd: work.folder,
      maxBuffer: 16 * 1024 * 1024,
    });
    expect(stdout).toMatch(/^review_id,/);
  });

  it('names every script it tells a developer to run', () => {
    const scripts = Object.keys(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts);
    const named = [...readme.matchAll(/npm run ([\w:]+)/g)].flatMap((match) => match[1] ?? []);
    expect(named.filter((name) => !scripts.includes(name))).toEqual([]);
  });
});
