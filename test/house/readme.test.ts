import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const exec = promisify(execFile);

describe('the README', () => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');

  it('begins with the two commands that a stranger types', () => {
    expect(readme).toContain('    npm ci && npx promptmill run jobs/sentiment.yaml --emulate\n');
    expect(readme).toContain('    npm ci && npm test\n');
  });

  it('shows what the first of them ends with', async () => {
    const work = mkdtempSync(join(tmpdir(), 'promptmill-readme-'));
    try {
      for (const folder of ['jobs', 'samples']) symlinkSync(join(root, folder), join(work, folder));
      const args = [join(root, 'dist/cli.js'), 'run', 'jobs/sentiment.yaml', '--emulate'];
      const { stderr } = await exec(process.execPath, args, { cwd: work });
      const [, shown = ''] = /^The first ends like this.*\n\n((?: {4}.*\n|\n)+)/m.exec(readme) ?? [];
      expect(shown).toContain('rows with gold answered');
      expect(stderr).toContain(shown.replaceAll(/^ {4}/gm, '').trim());
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  });

  it('names only files that exist', () => {
    const links = [...readme.matchAll(/\]\(([^)#:]+)\)/g)].flatMap((match) => match[1] ?? []);
    expect(links.length).toBeGreaterThan(5);
    for (const link of links) expect(() => readFileSync(join(root, link)), link).not.toThrow();
  });

  it('shows commands that work', async () => {
    const work = mkdtempSync(join(tmpdir(), 'promptmill-readme-'));
    try {
      const yaml = /```yaml\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
      mkdirSync(join(work, 'jobs'));
      writeFileSync(join(work, 'jobs/reviews.yaml'), yaml);
      writeFileSync(join(work, 'reviews.csv'), readFileSync(join(root, 'samples/reviews.csv')));
      const cli = join(root, 'dist/cli.js');
      const checked = await exec(process.execPath, [cli, 'check', 'jobs/reviews.yaml'], { cwd: work });
      expect(checked.stderr).toContain('348 rows = 338 to send + 0 failing + 10 skipped');
      await exec(process.execPath, [cli, 'run', 'jobs/reviews.yaml', '--limit', '20', '--emulate'], {
        cwd: work,
      });

      const piped =
        `cat reviews.csv | gzip | zcat | '${process.execPath}' '${cli}' run '${join(root, 'jobs/sentiment.yaml')}'` +
        ' --emulate --input - --format csv --output -';
      const { stdout } = await exec('sh', ['-c', piped], { cwd: work, maxBuffer: 16 * 1024 * 1024 });
      expect(stdout).toMatch(/^review_id,/);
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  });

  it('names every script it tells a developer to run', () => {
    const scripts = Object.keys(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).scripts);
    const named = [...readme.matchAll(/npm run ([\w:]+)/g)].flatMap((match) => match[1] ?? []);
    expect(named.filter((name) => !scripts.includes(name))).toEqual([]);
  });
});
