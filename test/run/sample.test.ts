import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Row } from '../../src/core/model.js';
import type { RunFlags } from '../../src/config/settings.js';
import { retryOf } from '../../src/library/output-job.js';
import { RowSample } from '../../src/run/sample.js';
import { MemoryMachine, type MemoryOptions, type MemoryRows } from '../support/memory-run.js';
import { type Ended, Workplace } from '../support/promptmill.js';
import {
  type Script,
  type ScriptedRequest,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { unknownAfter } from '../support/unknown.js';
import { changeSummary } from '../support/written.js';

describe('the rows of a sample', () => {
  const chosen = (values: readonly string[], rows: number, seed = 0, by: string | null = 'class') => {
    const sample = new RowSample({ rows, seed, by }, 'in.csv');
    for (const [i, value] of values.entries()) {
      const row: Row = { number: i + 1, line: i + 2, fields: new Map([['class', value]]), bytes: 10 };
      sample.offer(row);
    }
    return sample.numbers();
  };
  const inOrder = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b);

  it('are the same for the same seed, others for another, each once and in input order', () => {
    const values = Array.from({ length: 500 }, () => 'x');
    const rows = chosen(values, 40);
    expect(rows).toEqual(chosen(values, 40));
    expect(rows).not.toEqual(chosen(values, 40, 1));
    expect(rows).toEqual(inOrder([...new Set(rows)]));
    expect(rows).toHaveLength(40);
    expect(chosen(values, 500)).toEqual(values.map((_, i) => i + 1));
  });

  it.each([
    ['mixed', (i: number) => (i % 97 === 0 ? 'rare' : i % 3 === 0 ? 'some' : 'most')],
    ['one after the other', (i: number) => (i > 990 ? 'rare' : i < 330 ? 'some' : 'most')],
    ['the rare ones first', (i: number) => (i < 10 ? 'rare' : i > 660 ? 'some' : 'most')],
  ])('are as many of each value, and all of a rare one: %s', (_, classOf) => {
    const values = Array.from({ length: 1_000 }, (_, i) => classOf(i));
    const rows = chosen(values, 100);
    const times = (value: string): number => rows.filter((row) => values[row - 1] === value).length;
    const rare = values.filter((value) => value === 'rare').length;
    expect(times('rare')).toBe(rare);
    expect(rows).toHaveLength(100);
    expect(Math.abs(times('some') - times('most'))).toBeLessThanOrEqual(1);
  });

  it('of a value have the same chance, whatever comes before and behind them', () => {
    const values = Array.from({ length: 40 }, (_, i) => (i < 20 ? 'first' : 'then'));
    const times = new Map<number, number>();
    for (let seed = 0; seed < 2_000; seed++)
      for (const row of chosen(values, 10, seed)) times.set(row, (times.get(row) ?? 0) + 1);
    // 500 expected; four standard deviations are 77.
    for (const row of values.keys()) expect(Math.abs((times.get(row + 1) ?? 0) - 500)).toBeLessThan(77);
  });

  it('are refused for a column with more than 1,000 values', () => {
    const values = Array.from({ length: 1_001 }, (_, i) => String(i));
    expect(chosen(values.slice(1), 10)).toHaveLength(10);
    expect(() => chosen(values, 10)).toThrow(
      expect.objectContaining({
        exit: 2,
        code: 'too_many_values',
        message: expect.stringContaining('--by class'),
      }),
    );
  });
});

const ROWS = 30;
const CONCURRENCY = 4;
const JOB = { parameters: { temperature: 1 }, limits: { concurrency: CONCURRENCY, chunk_size: 5 } };
const CSV = `id,class\n${Array.from({ length: ROWS }, (_, i) => `${i + 1},${i % 10 === 0 ? 'rare' : 'usual'}\n`).join('')}`;

/** Each call has an answer of its own, so that kept ones are known. */
const script: Script = ({ prompt, total }) => ({ answer: { text: ` ${prompt}, call ${total}` } });

/** Ids of the rows that were called, by their prompts. */
const idsOf = (requests: readonly ScriptedRequest[]) =>
  requests.map(({ prompt }) => Number(prompt.replace('row ', '')));

describe('run --sample', () => {
  let work: Workplace;
  let service: ScriptedService;
  let onCall: () => void;
  beforeEach(async () => {
    onCall = () => {};
    work = new Workplace();
    work.write('in.csv', CSV);
    service = await startScriptedService((request) => {
      onCall();
      return script(request);
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  const store = oneStore();
  const reuse = () => `${store().PROMPTMILL_STATE_DIR}/reuse`;
  const env = () => ({ PROMPTMILL_BASE_URL: service.url, ...store() });
  const job = () => work.job({ ...JOB, input: { path: 'in.csv' }, output: { path: 'out.csv' } });
  const call = (...args: string[]): Promise<Ended> => work.call(args, env());
  const run = (...flags: string[]): Promise<Ended> => call('run', 'job.yaml', ...flags);
  const summary = () => work.json('out.summary.json');
  const answers = () => new Map(work.records('out.csv').map(({ id, text }) => [Number(id), text]));
  const called = (from = 0) => idsOf(service.requests.slice(from));
  const inOrder = (numbers: Iterable<number>) => [...numbers].toSorted((a, b) => a - b);
  const plain = (text: string) => text.replaceAll(/\s+/g, ' ');

  it('calls rows at random and writes them in input order; the run over all rows keeps their answers', async () => {
    job();
    const sampled = await run('--sample', '8', '--by', 'class');
    expect(sampled.code, sampled.stderr).toBe(0);
    const first = answers();
    expect([...first.keys()]).toEqual(inOrder(called()));
    expect(first.size).toBe(8);
    expect([1, 11, 21].every((id) => first.has(id))).toBe(true);
    expect(summary()).toMatchObject({
      input: { rows: 8 },
      rows: { total: 8 },
      beyond: 22,
      sample: { rows: 8, seed: 0, by: 'class' },
    });
    expect(sampled.stderr).toContain('8 of 30 rows at random, seed 0, each value of class alike');
    expect(sampled.stderr).toContain('22 rows are left. Go on with:\n  promptmill run job.yaml\n');
    expect((await call('report', 'out.csv', '--markdown', 'report.md')).code).toBe(0);
    expect(work.read('report.md')).toContain('8 of 30 rows at random, seed 0, each value of class alike');

    const whole = await run();
    expect(whole.code, whole.stderr).toBe(0);
    expect(plain(whole.stderr)).toContain(
      '8 rows are known from the sample, which this run replaces at its end',
    );
    expect(inOrder(called())).toEqual(Array.from({ length: ROWS }, (_, i) => i + 1));
    expect([...answers().keys()]).toEqual(inOrder(called()));
    for (const [id, text] of first) expect(answers().get(id)).toBe(text);
    expect(summary()).toMatchObject({
      rows: { total: ROWS },
      calls: { sent: 22 },
      reused: { carried: 8, copied: 0 },
    });
    expect(summary()).not.toHaveProperty('sample');
    expect(summary()).not.toHaveProperty('beyond');
    expect(readdirSync(reuse())).toEqual([]);
    // An output with all rows is no trial.
    expect((await run('--sample', '8')).stderr).toContain('out.csv exists: this job has finished already');
  });

  it('goes on after a kill with its own rows, and so does the run over all rows, beside the sample', async () => {
    job();
    const killedAt = async (calls: number, ...flags: string[]): Promise<void> => {
      const running = work.start(['run', 'job.yaml', ...flags], env());
      onCall = () => {
        if (service.requests.length >= calls) running.process.kill('SIGKILL');
      };
      expect((await running.ended).code).toBe(null);
      onCall = () => {};
    };
    await killedAt(12, '--sample', '16');
    const other = await run('--sample', '16', '--seed', '1');
    expect(other.code).toBe(2);
    expect(plain(other.stderr)).toContain('this changed: --sample.seed (0 then, 1 now)');
    const sampled = await run('--sample', '16');
    expect(sampled.code, sampled.stderr).toBe(0);
    const first = answers();
    const before = called().length;
    expect(first.size).toBe(16);
    expect(before).toBeLessThanOrEqual(16 + unknownAfter(CONCURRENCY));

    const text = work.read('out.csv');
    await killedAt(before + 8);
    expect(work.read('out.csv')).toBe(text);
    const whole = await run();
    expect(whole.code, whole.stderr).toBe(0);
    expect([...answers().keys()]).toEqual(Array.from({ length: ROWS }, (_, i) => i + 1));
    for (const [id, answer] of first) expect(answers().get(id)).toBe(answer);
    expect(called(before).filter((id) => first.has(id))).toEqual([]);
    expect(called(before).length).toBeLessThanOrEqual(14 + unknownAfter(CONCURRENCY));
  });

  it('is quoted by check', async () => {
    job();
    const checked = await call('check', 'job.yaml', '--sample', '8', '--by', 'class', '--json');
    expect(checked.code, checked.stderr).toBe(0);
    expect(JSON.parse(checked.stdout)).toMatchObject({
      input: { rows: 8 },
      sample: { rows: 8, seed: 0, by: 'class', of: ROWS },
      rows: { total: 8, to_send: 8 },
    });
    expect(plain(checked.stderr)).toContain('8 of 30 rows at random, seed 0, each value of class alike');
  });

  it('of standard input is the same as of the file, and all rows where more are asked for', async () => {
    job();
    expect((await run('--sample', '7')).code).toBe(0);
    const ids = [...answers().keys()];
    const piped = ['run', 'job.yaml', '--input', '-', '--format', 'csv', '--output', '-', '--sample', '7'];
    const running = work.start(piped, env(), work.read('in.csv'));
    const { code, stdout, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    expect(
      stdout
        .trim()
        .split('\n')
        .slice(1)
        .map((line) => Number(line.split(',')[0])),
    ).toEqual(ids);
    const all = await run('--sample', '31', '--output', 'all.csv');
    expect(all.code, all.stderr).toBe(0);
    expect(work.json('all.summary.json')).not.toHaveProperty('sample');
    const extended = await run('--extend', '--output', 'all.csv');
    expect(extended.code, extended.stderr).toBe(0);
    expect(extended.stderr).toContain('no row was appended to in.csv');
  });

  it('is refused beside what chooses rows in another way, and with answers of people in it', async () => {
    job();
    for (const [flags, message] of [
      [['--sample', '5', '--limit', '5'], '--sample chooses its rows at random, and --limit by their place'],
      [['--sample', '5', '--extend'], 'and --extend by their place'],
      [['--sample', '5', '--retry-failed'], '--sample and --retry-failed are two steps'],
      [['--seed', '5'], '--seed says how --sample chooses its rows'],
      [['--by', 'class'], '--by says how --sample chooses its rows'],
      [['--sample', '5', '--by', 'clas'], '--by names "clas", but in.csv has no such column'],
    ] as const) {
      const refused = await run(...flags);
      expect(refused.code, refused.stderr).toBe(2);
      expect(plain(refused.stderr)).toContain(message);
    }
    const key = 'a-key-of-the-service';
    const args = ['run', 'job.yaml', '--set', `name=${key}`];
    const told = await work.call(args, { ...env(), PROMPTMILL_API_KEY: key });
    expect([told.code, told.stderr.includes(key)]).toEqual([2, false]);
    expect(service.requests).toEqual([]);
    expect(existsSync(work.path('out.csv'))).toBe(false);
    expect((await run('--sample', '5')).code).toBe(0);
    const before = work.read('out.csv');
    work.job({ input: { path: 'in.csv' }, output: { path: 'out.csv' } }, 'another.yaml');
    const foreign = await call('run', 'another.yaml');
    expect(foreign.code).toBe(2);
    expect(plain(foreign.stderr)).toContain('out.csv exists: it is the output of the job');
    const extended = await run('--extend');
    expect(extended.code).toBe(2);
    expect(plain(extended.stderr)).toContain('out.csv has a sample of its input, and --extend');
    changeSummary(work.path('out.summary.json'), {
      merged_review: { rows: 1, at: new Date(0).toISOString() },
    });
    const replacing = await run();
    expect(replacing.code).toBe(2);
    expect(plain(replacing.stderr)).toContain('out.csv has a sample with answers of people (merge-review)');
    expect(work.read('out.csv')).toBe(before);
    expect(service.requests).toHaveLength(5);
  });
});

describe('a sample', () => {
  let work: Workplace;
  let machine: MemoryMachine;
  /** Answers in place of the script. */
  let other: Script;
  beforeEach(() => {
    work = new Workplace();
    other = script;
    machine = new MemoryMachine((request) => other(request));
  });
  afterEach(() => work.remove());

  const job = (more: object = {}) => ({ ...JOB, output: { path: work.path('out.csv') }, ...more });
  const run = (given: object, flags: RunFlags = {}, rows: MemoryRows = CSV, options: MemoryOptions = {}) => {
    const env = { PROMPTMILL_STATE_DIR: work.path('state') };
    return machine.run(given, rows, { ...options, env, flags });
  };
  const answers = () => new Map(work.records('out.csv').map(({ id, text }) => [Number(id), text]));
  const reuse = () => work.path('state/reuse');

  it('is replaced by another, and by the first rows, and none of their answers is lost', async () => {
    await run(job(), { sample: 6 });
    const first = answers();
    const second = await run(job(), { sample: 10, seed: 7 });
    expect(second).toMatchObject({
      code: 0,
      summary: { sample: { rows: 10, seed: 7, by: null }, beyond: 20 },
    });
    const both = new Map([...first, ...answers()]);
    expect(machine.calls()).toBe(both.size);
    expect((await run(job(), { limit: 12 })).code).toBe(0);
    expect(work.records('out.csv')).toHaveLength(12);
    expect((await run(job())).code).toBe(0);
    expect(machine.calls()).toBe(ROWS);
    for (const [id, text] of both) expect(answers().get(id)).toBe(text);
    expect(readdirSync(reuse())).toEqual([]);
  });

  it('is called again where its prompt was changed since, and with --overwrite', async () => {
    await run(job(), { sample: 6 });
    const changed = await run(job({ prompt: '{{# id }}row {{ id }}{{/ id }}!' }), { sample: 6 });
    expect(changed.code).toBe(0);
    expect(machine.calls()).toBe(12);
    // The answers of the first prompt are known still.
    expect((await run(job(), { sample: 6 })).code).toBe(0);
    expect(machine.calls()).toBe(12);
    expect((await run(job(), { overwrite: true })).code).toBe(0);
    expect(machine.calls()).toBe(12 + ROWS);
  });

  it('of an earlier input stays where the path has a run or a date, and the run begins beside it', async () => {
    const dated = job({ output: { path: work.path('out-{{run}}.csv') } });
    await run(dated, { sample: 6 });
    const outputs = () => readdirSync(work.folder).filter((name) => /^out-.*\.csv$/.test(name));
    const [first = ''] = outputs();
    const sampled = work.read(first);
    expect((await run(dated, {}, 'id,class\n31,usual\n32,usual\n')).code).toBe(0);
    const [second = ''] = outputs().filter((name) => name !== first);
    expect(work.read(first)).toBe(sampled);
    expect(work.records(second).map(({ id }) => id)).toEqual(['31', '32']);
  });

  it('of JSON lines is retried at its own rows, and the new answers are those that are kept', async () => {
    const output = work.path('out.jsonl');
    const rows = Array.from({ length: ROWS }, (_, i) => ({ id: i + 1 }));
    const given = job({ output: { path: output } });
    const records = (): { row: number; input: { id: number }; text: string; status: string }[] =>
      work.lines('out.jsonl');
    const retry = (row?: string) => {
      const { flags, work } = retryOf(output, { row }, { job: 'job.yaml' });
      return run(given, flags, rows, { work });
    };
    other = (request) =>
      request.total === 1 ? { status: 400, json: { error: { message: 'no' } } } : script(request);
    expect((await run(given, { sample: 5 }, rows)).code).toBe(1);
    const bad = idsOf(machine.requests)[0];
    const ids = records().map(({ input }) => input.id);
    const failed = await retry();
    expect(failed.code).toBe(0);
    expect(failed.said.join('\n')).not.toContain('has changed');
    expect(idsOf(machine.requests.slice(5))).toEqual([bad]);
    expect((await retry('3')).code).toBe(0);
    expect(idsOf(machine.requests.slice(6))).toEqual([ids[2]]);
    // A row is the row of the output, as for retry.
    expect(records().map(({ row }) => row)).toEqual([1, 2, 3, 4, 5]);
    expect(records().map(({ input }) => input.id)).toEqual(ids);
    expect(work.json('out.summary.json')).toMatchObject({
      sample: { rows: 5 },
      beyond: 25,
      retried: { rows: 2 },
    });
    const kept = new Map(records().map(({ input, text }) => [input.id, text]));
    expect((await run(given, {}, rows)).code).toBe(0);
    expect(machine.calls()).toBe(7 + 25);
    const now = new Map(records().map(({ input, text }) => [input.id, text]));
    for (const [id, text] of kept) expect(now.get(id)).toBe(text);
    // Rows of the whole output whose answers were taken over can be called again, too.
    expect((await retry(String(ids[0]))).code).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({
      rows: { total: ROWS, completed: ROWS },
      reused: { carried: 4 },
    });
  });

  it('leaves what input.only_new knows', async () => {
    const onlyNew = (name: string) => job({ input: { only_new: true }, output: { path: work.path(name) } });
    expect((await run(onlyNew('a.csv'), { limit: 10 })).code).toBe(0);
    const answered = () => {
      const name = readdirSync(reuse()).find((each) => each.endsWith('.answered.jsonl')) ?? '';
      return readFileSync(`${reuse()}/${name}`, 'utf8');
    };
    const before = answered();
    expect((await run(onlyNew('out.csv'), { sample: 20 })).code).toBe(0);
    expect(answered()).toBe(before);
    expect((await run(onlyNew('out.csv'))).code).toBe(0);
    expect(machine.calls()).toBe(ROWS);
  });
});
