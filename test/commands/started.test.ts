import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, test } from 'vitest';
import { nodeProblem } from '../../src/core/node-version.js';
import { asStarted } from '../../src/core/started.js';
import { scriptedPlace } from '../support/scripted-place.js';

const ROOT = join(import.meta.dirname, '../..');
const NPX = { npm_command: 'exec', npm_lifecycle_event: 'npx', npm_lifecycle_script: "'promptmill'" };
const place = scriptedPlace();

test.each([
  ['Go on with it: promptmill retry out.csv', 'Go on with it: npx promptmill retry out.csv'],
  ['(promptmill run --help says more)', '(npx promptmill run --help says more)'],
  ['promptmill: no job file', 'promptmill: no job file'],
  ['node_modules/promptmill run', 'node_modules/promptmill run'],
  ['npx promptmill run', 'npx promptmill run'],
])('commands begin as npx has started them: %s', (text, shown) => {
  expect(asStarted(text, NPX)).toBe(shown);
  expect(asStarted(text, {})).toBe(text);
  // A shell that npx has started, in which a promptmill of the PATH is used.
  expect(asStarted(text, { ...NPX, npm_lifecycle_script: "'bash'" })).toBe(text);
});

test.each([
  ['/home/me/reviews/node_modules/.bin/promptmill', 'npx promptmill check'],
  ['/home/me/.npm/_npx/0a1b2c/node_modules/.bin/promptmill', 'npx promptmill check'],
  ['C:\\reviews\\node_modules\\.bin\\promptmill', 'npx promptmill check'],
  ['/usr/local/bin/promptmill', 'promptmill check'],
  ['/home/me/promptmill/dist/cli.js', 'promptmill check'],
])('commands begin as the path of this one lets them be found: %s', (program, shown) => {
  expect(asStarted('promptmill check', {}, program)).toBe(shown);
});

it('each command that names another says npx where npx has started it', async () => {
  const { work } = place;
  work.write('reviews.csv', 'id,text\n1,fine\n2,bad\n');
  const job = work.job({ input: { path: work.rows(2) }, output: { path: 'out.csv' } });
  const env = { PROMPTMILL_BASE_URL: place.service.url, ...NPX };
  const said = async (...words: string[]): Promise<string> => {
    const { stdout, stderr } = await work.call(words, env);
    return stdout + stderr;
  };
  expect(await said('reviews.csv')).toContain('with: npx promptmill init reviews.csv');
  expect(await said('run', 'reviews.csv')).toContain('with: npx promptmill init reviews.csv');
  expect(await said('run', job, '--limti', '1')).toContain('(npx promptmill run --help says more)');
  expect(await said('check', '--help')).toContain('$ npx promptmill check jobs/sentiment.yaml');
  expect(await said('init', 'reviews.csv', '--yes', '--prompt', 'Is {{ text }} good?')).toContain(
    '  npx promptmill check jobs/reviews.yaml\n',
  );
  expect(await said('run', job, '--limit', '1')).toContain('Go on with:\n  npx promptmill run job.yaml\n');
  expect(await said('schedule', 'list')).toContain('npx promptmill schedule sync');
  place.script = () => ({ status: 422, json: { error: { message: 'no' } } });
  await said('run', job, '--overwrite');
  expect(await said('report', 'out.csv', '--markdown', '-')).toContain('npx promptmill retry out.csv');
});

it('names of files and deployments reach the terminal without what it would obey', async () => {
  const { work } = place;
  const odd = 'a\u001b[31mb';
  work.rows(2, `${odd}.csv`);
  place.script = () => ({ status: 422, json: { error: { message: 'no' } } });
  const job = work.job({
    service: { deployment: odd },
    input: { path: `${odd}.csv` },
    output: { path: `out/${odd}.csv` },
  });
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  for (const words of [
    ['run', job],
    ['run', job],
    ['retry', `out/${odd}.csv`],
    ['check', job],
    ['check', `${odd}.yaml`],
    [odd],
    ['run', odd],
    ['report', `${odd}.csv`],
    ['status', odd],
  ]) {
    const { stdout, stderr } = await work.call(words, env);
    expect(stdout + stderr, words.join(' ')).not.toContain('\u001b');
    expect(stdout + stderr, words.join(' ')).toMatch(/a\\u(\{1b\}|001b)\[31mb/);
  }
});

test.each([
  ['18.20.8', false],
  ['20.18.3', false],
  ['20.19.0', true],
  ['21.7.3', false],
  ['22.1.0', false],
  ['22.2.0', true],
  ['24.0.0', true],
])('Node.js %s is taken: %s', (version, taken) => {
  expect(nodeProblem(version) === null).toBe(taken);
});

it('an older Node.js is named in a sentence, by each command, before anything that it does not understand is loaded', async () => {
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect(engines.node).toBe('^20.19 || >=22.2');
  const older = place.work.path(
    place.work.write('older.cjs', "Object.defineProperty(process.versions, 'node', { value: '18.20.8' });"),
  );
  for (const words of [['--help'], ['run', 'job.yaml'], ['--version']]) {
    const args = ['--require', older, join(ROOT, 'dist/cli.js'), ...words];
    await expect(promisify(execFile)(process.execPath, args)).rejects.toMatchObject({
      code: 2,
      stdout: '',
      stderr:
        'promptmill: this is Node.js 18.20.8, and Promptmill needs 20.19 or a later 20, or 22.2 or later\n' +
        'Install it from https://nodejs.org, and run the same command again.\n',
    });
  }
  // What is loaded before that takes nothing from Node.js that 18 does not have.
  const loaded = new Set<string>();
  const load = (file: string): void => {
    const text = readFileSync(file, 'utf8');
    for (const [, from = ''] of text.matchAll(/^(?:import|export) (?:[^'"]* from )?["']([^"']+)["'];$/gm)) {
      loaded.add(from.startsWith('.') ? 'dist' : from);
      if (from.startsWith('.')) load(join(file, '..', from));
    }
  };
  load(join(ROOT, 'dist/cli.js'));
  expect([...loaded].sort()).toEqual(['dist', 'node:fs', 'node:module', 'node:v8']);
});
