import { readdirSync, rmSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { sealOfFile } from '../../src/output/writer.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import {
  completionBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { changeSummary } from '../support/written.js';

let place: MemoryPlace;
let work: Workplace;
let statusOf: (prompt: string) => number;
beforeEach(() => {
  place = new MemoryPlace();
  place.script = script;
  work = place.work;
  statusOf = () => 200;
});
afterEach(() => work.remove());

const script: Script = ({ prompt }) => {
  const status = statusOf(prompt);
  if (status !== 200) return { status, json: { error: { message: 'no' } } };
  return { json: completionBody({ text: ` to ${prompt}`, prompt_tokens: 5 }) };
};
const job = (input: string, more: object = {}) =>
  work.job({ input: { path: input }, output: { path: 'out.csv' }, ...more });
const files = () => readdirSync(work.folder).filter((name) => name.startsWith('out'));

describe('promptmill run --extend', () => {
  let service: ScriptedService;
  beforeEach(async () => {
    service = await startScriptedService(script);
  });
  afterEach(() => service.close());

  const store = oneStore();
  const call = (...args: string[]) => work.call(args, { PROMPTMILL_BASE_URL: service.url, ...store() });

  it('ends with 0 where nothing was appended, and after a kill behind the rename does what the killed run had left', async () => {
    let begun: object = {};
    statusOf = (prompt) => {
      begun = work.json('out.csv.run.json');
      return prompt === 'row 2' ? 400 : 200;
    };
    const kill = async () => {
      const left = { ...begun, rows: 2, stage: 'finishing', ...(await sealOfFile(work.path('out.csv'))) };
      work.write('out.csv.run.json', JSON.stringify(left));
    };
    work.write('in.csv', 'id\n1\n2\n');
    const path = job('in.csv', { report: true, on_finish: { command: ['sh', '-c', 'echo told >> hook'] } });
    expect((await call('run', path)).code).toBe(1);
    const none = await call('run', path, '--extend');
    expect(none.code, none.stderr).toBe(0);
    expect(none.stderr).toMatch(/^no row was appended .* nothing was changed\n$/);
    expect(work.read('hook')).toBe('told\n');
    const whole = ['out.csv', 'out.report.html', 'out.summary.json'];
    await kill();
    rmSync(work.path('out.report.html'));
    const left = await call('run', path, '--extend');
    expect(left.code, left.stderr).toBe(1);
    expect(files().sort()).toEqual(whole);
    expect(work.read('hook')).toBe('told\ntold\n');
    await kill();
    work.write('in.csv', 'id\n1\n2\n3\n');
    const extended = await call('run', path, '--extend');
    expect(extended.code, extended.stderr).toBe(1);
    expect(work.json('out.summary.json')).toMatchObject({ rows: { total: 3, failed: 1 } });
    expect(service.calls()).toBe(3);
  });

  it('refuses a queue that cannot be had, and leaves the output a finished one', async () => {
    work.write('in.csv', 'id\n1\n2\n');
    const path = job('in.csv');
    expect((await call('run', path)).code).toBe(0);
    work.write('in.csv', 'id\n1\n2\n3\n');
    const calls = service.calls();
    const refused = await call('run', path, '--extend', '--queue', 'redis://127.0.0.1:1');
    expect(refused.code, refused.stderr).toBe(2);
    expect(refused.stderr).toContain('redis://127.0.0.1:1');
    expect(service.calls()).toBe(calls);
    expect(files().sort()).toEqual(['out.csv', 'out.summary.json']);
  });
});

describe('run --extend', () => {
  it.each<[string, string, string | Buffer, string | Buffer, object]>([
    ['lines', 'in.csv', 'id,note\n1,a\n2,b\n', '3,c\n4,d\n', {}],
    ['lines with CRLF', 'in.csv', 'id,note\r\n1,a\r\n2,b\r\n', '3,c\r\n4,d', {}],
    ['what begins with the end of the last line', 'in.csv', 'id,note\n1,a\n2,b', '\n3,c\n4,d\n', {}],
    [
      'lines of JSON',
      'in.jsonl',
      '{"id":1}\n{"id":2}\n',
      '{"id":3}\n{"id":4}\n',
      { output: { path: 'out.csv.gz' } },
    ],
    ['a member of gzip', 'in.csv.gz', gzipSync('id,note\n1,a\n2,b\n'), gzipSync('3,c\n4,d\n'), {}],
  ])('calls the rows behind those that it has: of %s', async (_, input, first, appended, more) => {
    work.write(input, Buffer.from(first));
    const path = job(input, more);
    const run = await place.run(path);
    expect(run.code, run.said).toBe(0);
    const calls = place.machine.calls();
    work.write(input, Buffer.concat([Buffer.from(first), Buffer.from(appended)]));
    const extended = await place.run(path, { extend: true });
    expect(extended.code, extended.said).toBe(0);
    expect(place.machine.calls() - calls).toBe(2);
    const output = 'output' in more ? 'out.csv.gz' : 'out.csv';
    expect(work.json('out.summary.json')).toMatchObject({
      input: { rows: 4 },
      rows: { total: 4, completed: 4 },
      calls: { sent: 4 },
      usage: { prompt_tokens: 20 },
    });
    expect(files().sort()).toEqual([output, 'out.summary.json']);
    // Its own first rows are no run before it.
    expect(work.json('out.summary.json')).not.toHaveProperty('last_run');
    if (output === 'out.csv')
      expect(work.records('out.csv').map(({ text }) => text)).toEqual(
        [1, 2, 3, 4].map((row) => `to row ${row}`),
      );
    const again = await place.run(path, { extend: true });
    expect(again.code, again.said).toBe(0);
    expect(again.said).toContain(
      `no row was appended to ${input} since ${output} was made: nothing was changed`,
    );
    expect(place.machine.calls() - calls).toBe(2);
  });

  it('adds the rows behind the first ones (--limit), and the appended ones, after some were called again', async () => {
    work.write('in.csv', 'id\n1\n2\n3\n');
    const path = job('in.csv');
    expect((await place.run(path, { limit: 2 })).code).toBe(0);
    expect(files().sort()).toEqual(['out.csv', 'out.summary.json']);
    const retried = await place.retry('out.csv', { row: '1' });
    expect(retried.code, retried.said).toBe(0);
    const { run } = work.json('out.summary.json');
    expect(work.json('out.summary.json')).toMatchObject({ beyond: 1, retried: { rows: 1 } });
    work.write('in.csv', 'id\n1\n2\n3\n4\n');
    const refused = await place.run(path);
    expect(refused.code, refused.said).toBe(2);
    expect(refused.said).toContain('since out.csv was made this changed: the content of the input');
    const calls = place.machine.calls();
    const extended = await place.run(path, { extend: true });
    expect(extended.code, extended.said).toBe(0);
    expect(place.machine.calls() - calls).toBe(2);
    expect(work.records('out.csv')).toHaveLength(4);
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({ run, rows: { total: 4 }, calls: { sent: 5 }, retried: { rows: 1 } });
    expect(summary).not.toHaveProperty('beyond');
    expect(files().sort()).toEqual(['out.csv', 'out.summary.json']);
  });

  it('compares the job with that of the rows, not with that of a retry of some of them', async () => {
    work.write('in.csv', 'id\n1\n2\n3\n');
    expect((await place.run(job('in.csv'), { limit: 2 })).code).toBe(0);
    const path = job('in.csv', { prompt: 'line {{ id }}' });
    for (const row of ['1', '2']) expect((await place.retry('out.csv', { row })).code).toBe(0);
    const calls = place.machine.calls();
    const refused = await place.run(path);
    expect(refused.code, refused.said).toBe(2);
    expect(refused.said.replaceAll(/\s+/g, ' ')).toContain(
      'this changed: prompt ("row {{ id }}" then, "line {{ id }}" now)',
    );
    expect(place.machine.calls()).toBe(calls);
    const rest = await place.run(job('in.csv'));
    expect(rest.code, rest.said).toBe(0);
    expect(work.records('out.csv').map(({ text }) => text)).toEqual(['to line 1', 'to line 2', 'to row 3']);
  });

  it('says how to start over where the input was changed while it was under way', async () => {
    work.write('in.csv', 'id\n1\n');
    const path = job('in.csv');
    expect((await place.run(path)).code).toBe(0);
    work.write('in.csv', 'id\n1\n2\n');
    statusOf = () => 401;
    expect((await place.run(path, { extend: true })).code).toBe(3);
    work.write('in.csv', 'id\n1\n3\n');
    const refused = await place.run(path, { extend: true });
    expect(refused.code, refused.said).toBe(2);
    expect(refused.said.replaceAll(/\s+/g, ' ')).toContain('or start over with --restart --overwrite');
    statusOf = () => 200;
    const anew = await place.run(path, { restart: true, overwrite: true });
    expect(anew.code, anew.said).toBe(0);
    expect(work.records('out.csv').map(({ text }) => text)).toEqual(['to row 1', 'to row 3']);
  });

  it.each<[string, string, string, object, string]>([
    ['another input', 'id\n1\n2\n', 'id\n1\n9\n3\n', {}, 'in.csv is not the input that out.csv was made of'],
    ['a last line that went on', 'id\n1\n2', 'id\n1\n23\n4\n', {}, 'what was appended has become part of it'],
    [
      'another prompt',
      'id\n1\n',
      'id\n1\n2\n',
      { prompt: 'line {{ id }}' },
      'since out.csv was made this changed: prompt',
    ],
  ])('refuses %s', async (_, first, then, more, message) => {
    work.write('in.csv', first);
    expect((await place.run(job('in.csv'))).code).toBe(0);
    const before = [work.read('out.csv'), work.read('out.summary.json')];
    const calls = place.machine.calls();
    work.write('in.csv', then);
    const refused = await place.run(job('in.csv', more), { extend: true });
    expect(refused.code, refused.said).toBe(2);
    expect(refused.said.replaceAll(/\s+/g, ' ')).toContain(message);
    expect(place.machine.calls()).toBe(calls);
    expect([work.read('out.csv'), work.read('out.summary.json')]).toEqual(before);
    expect(files().sort()).toEqual(['out.csv', 'out.summary.json']);
  });

  it.each<[string, RunFlags, string]>([
    [
      'what discards rows',
      { overwrite: true },
      '--extend keeps the rows of the output, and --overwrite discards',
    ],
    ['what discards an unfinished run', { restart: true }, 'and --restart discards rows'],
    [
      'an output that is another each time',
      { output: 'out-{{run}}.csv' },
      'Name the file with --output FILE',
    ],
    ['a limit to what is there', { limit: 2 }, 'out.csv has finished already with its first 2 rows'],
  ])('refuses %s, and leaves the output a finished one', async (_, options, message) => {
    work.write('in.csv', 'id\n1\n2\n');
    const path = job('in.csv');
    expect((await place.run(path)).code).toBe(0);
    work.write('in.csv', 'id\n1\n2\n3\n');
    const calls = place.machine.calls();
    const refused = await place.run(path, { extend: true, ...options });
    expect(refused.code, refused.said).toBe(2);
    expect(refused.said.replaceAll(/\s+/g, ' ')).toContain(message);
    expect(place.machine.calls()).toBe(calls);
    expect(files().sort()).toEqual(['out.csv', 'out.summary.json']);
  });

  it('refuses an output with the summary of another', async () => {
    work.write('in.csv', 'id\n1\n');
    const path = job('in.csv');
    await place.run(path);
    work.write('in.csv', 'id\n1\n2\n');
    changeSummary(work.path('out.summary.json'), { output: 'x.csv' });
    const refused = await place.run(path, { extend: true });
    expect(refused.code, refused.said).toBe(2);
    expect(refused.said).toContain('is the summary of x.csv, and not of out.csv');
    expect(files().sort()).toEqual(['out.csv', 'out.summary.json']);
  });

  it('writes the rows for review anew, unless somebody has filled something in', async () => {
    work.write('in.csv', 'id\n1\n');
    const answer = {
      labels: ['yes', 'no'],
      confidence: 'logprobs',
      abstain_below: 0.5,
      require: { valid: 0 },
    };
    const path = job('in.csv', { answer });
    await place.run(path);
    work.write('in.csv', 'id\n1\n2\n');
    const review = work.read('out.review.csv');
    work.write('out.review.csv', review.replace('1,,', '1,yes,'));
    expect(work.read('out.review.csv')).not.toBe(review);
    const refused = await place.run(path, { extend: true });
    expect(refused.code, refused.said).toBe(2);
    expect(refused.said).toContain('out.review.csv is not as the run wrote it');
    work.write('out.review.csv', review);
    const extended = await place.run(path, { extend: true });
    expect(extended.code, extended.said).toBe(0);
    expect(work.records('out.review.csv').map(({ row }) => row)).toEqual(['1', '2']);
  });
});
