import { readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Encoding } from '../../src/prompt/tokens.js';
import { Workplace } from '../support/promptmill.js';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** The code that is published. */
const files = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' })
  .filter((name) => /^[^/]+\.js$|^bundle\/.*\.js$|\.cjs$/.test(name))
  .map((name) => `dist/${name}`);

it('what is published imports no package: the bundle has them all', () => {
  const imported = files.flatMap((name) =>
    [
      ...read(name).matchAll(
        /^(?:import|export)\b[^'"]*["']([^.'"][^'"]*)["'];$|\bimport\(["']([^.'"][^'"]*)["']\)/gm,
      ),
    ].map(([, from, late = '']) => from ?? late),
  );
  expect(imported).toContain('node:fs');
  // Vega tries that one, and does without.
  expect([...new Set(imported)].filter((name) => !isBuiltin(name))).toEqual(['canvas']);
});

it('what the sources load late is a file of the bundle', () => {
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  const names = sources.flatMap((name) =>
    [...read(`src/${name}`).matchAll(/\bloadPackage\(\s*['`]([^'`]+)['`]/g)].map(([, name = '']) => name),
  );
  expect(names).toContain('jsonrepair');
  const encodings = ['cl100k_base', 'p50k_base', 'o200k_base'] satisfies Encoding[];
  const late = names.flatMap((name) => {
    const [start = '', variable] = name.split('$');
    return variable === undefined ? name : encodings.map((encoding) => start + encoding);
  });
  expect(late.filter((name) => !files.includes(`dist/packages/${name}.cjs`))).toEqual([]);
});

it('every package in the bundle has the text of its licence beside it', () => {
  // esbuild puts the path of each file above what it took from it.
  const folders = files.flatMap((name) =>
    [...read(name).matchAll(/^\/\/ (.*node_modules\/(?:@[^/]+\/)?[^/]+)\/.*$/gm)].map(([, folder]) => folder),
  );
  expect(folders).toContain('node_modules/undici');
  expect(folders).toContain('node_modules/gpt-tokenizer');
  const sections = read('dist/bundle/licences.txt').split(/^(?=\S+ \d+\.\d+\.\d+: .*$)/m);
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
