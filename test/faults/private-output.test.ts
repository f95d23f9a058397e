import fs, { appendFileSync, chmodSync, existsSync, readdirSync, statSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const place = scriptedPlace();
const store = oneStore();

/** The mode and the path of every file at the moment when it is opened. */
let opened: string[] = [];
const { open } = fs.promises;
beforeEach(() => {
  opened = [];
  fs.promises.open = async (path, ...more) => {
    const file = await open(path, ...more);
    const found = await file.stat();
    if (found.isFile()) opened.push(`${(found.mode & 0o777).toString(8)} ${path}`);
    return file;
  };
  syncBuiltinESMExports();
});
afterEach(() => {
  fs.promises.open = open;
  syncBuiltinESMExports();
});

it.each(['out.csv', 'out.csv.gz'])(
  'fault 107: nothing that stands for a private %s, or beside it, is ever readable by others',
  async (output) => {
    const { work } = place;
    let failing = new Set([2, 5]);
    place.script = ({ prompt }) => {
      const row = Number(/(\d+)$/.exec(prompt)?.[1]);
      if (failing.has(row)) return { status: 400, json: { error: { message: 'no', code: 'bad' } } };
      return {
        json: completionBody({ text: row % 2 === 0 ? ' good' : ' bad', confidence: row === 3 ? 0.5 : 0.95 }),
      };
    };
    work.job({
      input: { path: work.rows(8) },
      answer: { labels: ['good', 'bad'], confidence: 'logprobs', abstain_below: 0.8 },
      output: { path: output },
      report: true,
    });
    const env = { PROMPTMILL_BASE_URL: place.service.url, ...store() };
    const call = async (...args: string[]): Promise<void> => {
      const { code, stderr } = await work.call(args, env);
      expect([0, 1], stderr).toContain(code);
    };
    const seen = (): string[] =>
      opened.filter((line) => /\/?out\.|new\./.test(line) && !line.includes('/store'));

    // The input is private, and so is what is made of it.
    chmodSync(work.path('rows.csv'), 0o600);
    await call('run', 'job.yaml');
    failing = new Set();
    await call('retry', output);
    appendFileSync(work.path('rows.csv'), '9,row 9\n');
    await call('run', 'job.yaml', '--extend');
    work.write('review.csv', 'row,answer\n1,good\n');
    await call('merge-review', output, 'review.csv');
    await call('score', output, '--gold', 'review.csv');
    await call('report', output, '--html', 'new.html', '--markdown', 'new.md');
    await call('compare', output, output, '--output', 'new.csv');
    expect(seen().length).toBeGreaterThan(20);
    expect(seen().filter((line) => !line.startsWith('600 '))).toEqual([]);
    const files = readdirSync(work.folder).filter((name) => /^(out|new)\./.test(name));
    expect(files).toContain('out.review.csv');
    for (const name of files) expect([name, statSync(work.path(name)).mode & 0o777]).toEqual([name, 0o600]);

    // What is open to a group stays so, also where the umask would take it away.
    chmodSync(work.path('rows.csv'), 0o644);
    chmodSync(work.path(output), 0o664);
    await call('retry', output, '--row', '1');
    expect(statSync(work.path(output)).mode & 0o777).toBe(0o664);
    expect(statSync(work.path('out.report.html')).mode & 0o777).toBe(0o600);
    expect(existsSync(work.path(`${output}.part`))).toBe(false);
  },
);
