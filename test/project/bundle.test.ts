import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

it('every package in the bundle has the text of its licence beside it', () => {
  const bundle = readdirSync(join(root, 'dist/cli')).filter((name) => name.endsWith('.js'));
  // esbuild puts the path of each file above what it took from it.
  const folders = bundle.flatMap((name) =>
    [...read(`dist/cli/${name}`).matchAll(/^\/\/ (.*node_modules\/(?:@[^/]+\/)?[^/]+)\/.*$/gm)].map(
      ([, folder]) => folder,
    ),
  );
  expect(folders).toContain('node_modules/pg-types');
  const sections = read('dist/cli/licences.txt').split(/^(?=\S+ \d+\.\d+\.\d+: .*$)/m);
  const texts = new Map(
    sections.map((section): [string, string] => [section.slice(0, section.indexOf('\n')), section]),
  );
  for (const folder of new Set(folders)) {
    const { name, version, license } = JSON.parse(read(`${folder}/package.json`));
    expect(texts.get(`${name} ${version}: ${license}`), name).toMatch(/^.*\n\s*\n[\s\S]*copyright/i);
  }
});

it('the trace of a defect names the source files', async () => {
  const work = new Workplace();
  try {
    work.write('struck.mjs', "Date.prototype.toISOString = () => { throw new Error('struck'); };");
    const job = work.job({ input: { path: work.rows(1) }, output: { path: 'out.csv' } });
    const NODE_OPTIONS = `--import ${work.path('struck.mjs')}`;
    const { code, stderr } = await work.run(['run', job, '--emulate'], { NODE_OPTIONS });
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('this is a defect, please report it\nError: struck'),
    ]);
    const frame = /at newRunId \(file:\/\/(\/\S+?):\d+:\d+\), (src\/\S+)/.exec(stderr);
    expect(frame?.[2], stderr).toBe('src/queue/names.ts');
    expect(readFileSync(frame?.[1] ?? '', 'utf8')).toContain('function newRunId(');
  } finally {
    work.remove();
  }
});

it('there are no source maps, which would be of what was built before the bundle', () => {
  const files = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' });
  expect(files.filter((name) => name.endsWith('.map'))).toEqual([]);
});
