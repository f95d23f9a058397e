import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { Kills } from '../support/kills.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import {
  completionBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

/** The same for a call as in a file. */
const bodyFor = (note: string) => completionBody({ text: ` about ${note}` });

const BLOCKED = { error: { code: 'content_filter', message: 'blocked', status: 400 } };

const isBlocked = (note: string): boolean => note.endsWith('13');

const reply: Script = ({ prompt }) =>
  isBlocked(prompt) ? { status: 400, json: BLOCKED } : { json: bodyFor(prompt) };

const line = (custom_id: unknown, status_code: number, body: unknown, error: unknown = null): string =>
  JSON.stringify({
    id: `b-${custom_id}`,
    custom_id,
    response: { status_code, request_id: 'q', body },
    error,
  });

const noteOf = (row: number): string => `note ${row}`;

/** As a hosted batch has it. */
const answer = (row: number, id: unknown = `r-${row}`): string =>
  isBlocked(noteOf(row)) ? line(id, 400, BLOCKED) : line(id, 200, bodyFor(noteOf(row)));

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);

const lines = (all: readonly string[]): string => `${all.join('\n')}\n`;

const input = (rows: readonly number[]): string =>
  `custom_id,note\n${rows.map((row) => `r-${row},${noteOf(row)}\n`).join('')}`;

/** What a row that was not called has of its own. */
const same = (records: readonly Record<string, string>[]) =>
  records.map(({ latency_ms: _, tier: __, ...record }) => record);

// What is known never reaches the store: the embedded one shows it.
describe('a run of which answers are known', () => {
  const store = oneStore();
  let place: MemoryPlace;
  let work: Workplace;
  let service: ScriptedService;
  const kills = new Kills();

  beforeEach(async () => {
    place = new MemoryPlace();
    place.script = reply;
    work = place.work;
    service = await startScriptedService(async (request) => {
      await kills.called(request.prompt === noteOf(600));
      return reply(request);
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  const job = (change: object = {}, output = 'out.csv'): string =>
    work.job({
      input: { path: 'rows.csv', done: 'results.jsonl' },
      prompt: '{{ note }}',
      parameters: { temperature: 0 },
      prices: { prompt: 1, completion: 2, batch: 0.4 },
      output: { path: output },
      limits: { concurrency: 20 },
      ...change,
    });
  const env = () => ({ PROMPTMILL_BASE_URL: service.url, ...store() });

  const notes = (rows: readonly number[]): string[] => rows.map(noteOf);

  /** A half-done batch: of 1,000 rows the first 400 have an answer, in no order. */
  function halfDone(): void {
    work.write('rows.csv', input(range(1, 1000)));
    const holes = range(401, 410).map((row) => line(`r-${row}`, 0, null));
    const others = [
      line('r-411', 500, { error: { message: 'down' } }),
      JSON.stringify({ id: 'b', custom_id: 'r-412', response: null, error: { code: 'batch_expired' } }),
      ...[5001, 5002, 5003].map((row) => answer(row)),
      answer(1),
      'no line of a batch',
    ];
    work.write(
      'results.jsonl',
      lines([...range(1, 400).map((row) => answer(row)), ...holes, ...others].reverse()),
    );
  }

  it('calls the others only, and has the same records', async () => {
    halfDone();
    expect((await place.run(job({ input: { path: 'rows.csv' } }, 'whole.csv'))).code).toBe(0);
    const { code, said, shown } = await place.run(job());
    expect(code, said).toBe(0);
    expect(said).toContain(
      'results.jsonl: 400 rows are answered already; 12 lines without an answer, 3 of no row, 1 twice, 1 that are no results',
    );
    const called = place.machine.requests.slice(1000).map(({ prompt }) => prompt);
    expect(called.sort()).toEqual(notes(range(401, 1000)).sort());
    expect(same(work.records('out.csv'))).toEqual(same(work.records('whole.csv')));
    const tiers = work
      .records('out.csv')
      .map(({ tier, latency_ms, attempts }) => [tier, latency_ms === '', attempts]);
    expect(tiers.slice(0, 400)).toEqual(range(1, 400).map(() => ['done', true, '1']));
    // A refused prompt has no tier.
    expect(new Set(tiers.slice(400).map(String))).toEqual(new Set(['online,false,1', ',false,1']));
    // 10 and 2 tokens a row; of 396 known and 594 called.
    expect(work.json('out.summary.json')).toMatchObject({
      usage: { prompt_tokens: 9900, completion_tokens: 1980 },
      cost: 8.316,
      saved: 3.3264,
      tiers: { done: { rows: 400, cost: 2.2176 }, online: { rows: 594, cost: 8.316 } },
      calls: { sent: 600, repeated: 0 },
    });
    expect(shown).toContain('already paid elsewhere: 400 rows, 4,752 tokens, 2.2176');
  });

  it('is killed in the middle, and continued', { timeout: 180_000 }, async () => {
    halfDone();
    const path = job();
    await kills.run({ work, service }, ['run', path], env(), { kills: 2, calls: 150 });
    const before = service.requests.length;
    const last = await work.call(['run', path], env());
    expect(last.code, last.stderr).toBe(0);
    const called = service.requests.slice(before).map(({ prompt }) => prompt);
    expect(called.filter((note) => !notes(range(401, 1000)).includes(note))).toEqual([]);
    const records = work.records('out.csv');
    expect(records.map(({ custom_id }) => custom_id)).toEqual(range(1, 1000).map((row) => `r-${row}`));
    expect(records.filter(({ tier }) => tier === 'done')).toHaveLength(400);
    expect(work.json('out.summary.json')).toMatchObject({
      tiers: { done: { rows: 400 } },
      rows: { total: 1000 },
    });
  });

  it('may name its answers on the command line, which a retry then knows', async () => {
    work.write('rows.csv', `${input(range(1, 29))}r-30,\n`);
    work.write('results.jsonl', lines(range(1, 20).map((row) => answer(row))));
    const path = job({ input: { path: 'rows.csv' } });
    const named = await work.call(['run', path, '--done', 'results.jsonl'], env());
    expect(named.code, named.stderr).toBe(1);
    expect(service.requests.map(({ prompt }) => prompt).sort()).toEqual(notes(range(21, 29)));
    rmSync(work.path('results.jsonl'));
    const before = service.requests.length;
    const failed = await work.call(['retry', 'out.csv'], env());
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('retrying 1 of 30 rows')]);
    const completed = await work.call(['retry', 'out.csv', '--status', 'completed'], env());
    expect(completed.code, completed.stderr).toBe(1);
    expect(service.requests.length - before).toBe(28);
    // What is left is the blocked prompt.
    expect(work.records('out.csv').filter(({ tier }) => tier === 'done')).toHaveLength(1);
    const again = await work.call(['run', path, '--done', 'results.jsonl', '--overwrite'], env());
    expect(again.code).toBe(2);
    expect(again.stderr.replaceAll(/\s+/g, ' ')).toContain(
      'input.done names results.jsonl, which cannot be read',
    );
  });
});

describe('the files of input.done', { timeout: 180_000 }, () => {
  let place: MemoryPlace;
  let work: Workplace;

  beforeEach(() => {
    place = new MemoryPlace();
    place.script = reply;
    work = place.work;
    work.write('rows.csv', input(range(1, 30)));
    work.write('results.jsonl', lines(range(1, 20).map((row) => answer(row))));
  });
  afterEach(() => work.remove());

  const job = (
    change: object = {},
    done: unknown = 'results.jsonl',
    path = 'rows.csv',
    output = 'out.csv',
  ): string =>
    work.job({
      ...{ name: 'done', prompt: '{{ note }}', parameters: { temperature: 0 } },
      output: { path: output },
      ...change,
      input: { path, done, ...('input' in change ? (change.input as object) : {}) },
    });

  /** @returns the rows that were called, and what was said */
  async function run(path: string, flags: RunFlags = {}, expected = 0) {
    const before = place.machine.calls();
    const { code, said } = await place.run(path, flags);
    expect(code, said).toBe(expected);
    const called = place.machine.requests.slice(before).map(({ prompt }) => Number(/\d+/.exec(prompt)?.[0]));
    return { called: called.sort((a, b) => a - b), said };
  }
  const check = (path: string) => work.call(['check', path, '--json']);

  const tiers = (output = 'out.csv') => work.records(output).map(({ tier }) => tier);

  it('may be an earlier output, as CSV, as JSONL, and packed', async () => {
    await run(job({}, [], 'rows.csv', 'whole.csv'));
    for (const output of ['a.csv', 'b.jsonl', 'c.jsonl.gz', 'd.csv.gz']) {
      await run(job({}, [], 'rows.csv', output), { limit: 20 });
      const { called, said } = await run(job({}, output), { overwrite: true });
      expect(said, output).toContain(`${output}: 20 rows are answered already`);
      expect(called, output).toEqual(range(21, 30));
      expect(same(work.records('out.csv')), output).toEqual(same(work.records('whole.csv')));
    }
  });

  it('may be several: the first answer counts', async () => {
    work.write('more.jsonl.gz', gzipSync(lines([answer(20), answer(25), answer(26)])));
    const { called, said } = await run(job({}, ['results.jsonl', 'more.jsonl.gz']));
    expect(called).toEqual([...range(21, 24), ...range(27, 30)]);
    expect(said).toContain('more.jsonl.gz: 2 rows are answered already; 1 twice');
  });

  it('belong to rows by their number, if these have no id; and a number is no other than its text', async () => {
    const rows = (from: number, to: number) =>
      range(from, to).map((row) => JSON.stringify({ note: noteOf(row) }));
    work.write('rows.jsonl', lines(rows(1, 30)));
    work.write('results.jsonl', lines([answer(3, 3), answer(4, '4')]));
    expect((await run(job({}, 'results.jsonl', 'rows.jsonl'))).called).toEqual([1, 2, ...range(5, 30)]);
    // An output over other rows, which have no id either: row 1 of it is another one.
    work.write('later.jsonl', lines(rows(11, 40)));
    const { called, said } = await run(job({}, 'out.csv', 'later.jsonl', 'later.csv'));
    expect(said).toContain('out.csv: 0 rows are answered already; 30 of no row');
    expect(called).toEqual(range(11, 40));
    // The same rows, in their place.
    expect((await run(job({}, 'out.csv', 'rows.jsonl', 'again.csv'))).called).toEqual([]);
  });

  it('answer the first of two rows with one id', async () => {
    work.write('rows.csv', `${input(range(1, 30))}r-2,${noteOf(41)}\n`);
    const { called, said } = await run(job());
    expect(called).toEqual([...range(21, 30), 41]);
    expect(said).toContain('1 row with the id of an earlier one is called');
  });

  it('are said and left out by check', async () => {
    const prices = { prompt: 1, completion: 0 };
    const { stderr: said, stdout } = await check(job({ prices }));
    const whole = JSON.parse((await check(job({ prices }, []))).stdout);
    const report = JSON.parse(stdout);
    expect(said.replaceAll(/\s+/g, ' ')).toContain(
      '30 rows = 10 to send + 20 answered already + 0 failing + 0 skipped',
    );
    expect(report).toMatchObject({
      rows: { total: 30, to_send: 10, done: 20, failing: 0 },
      ...{ requests: 10, done: ['results.jsonl: 20 rows are answered already'] },
    });
    expect(whole.rows).not.toHaveProperty('done');
    expect(report.tokens.prompt_tokens).toBe(whole.tokens.prompt_tokens / 3);
    expect(report.cost.most).toBeCloseTo(whole.cost.most / 3);
  });

  it('work with --limit, --sample and --extend', async () => {
    expect((await run(job(), { limit: 22 })).called).toEqual([21, 22]);
    expect((await run(job())).called).toEqual(range(23, 30));
    appendFileSync(work.path('rows.csv'), `r-31,${noteOf(31)}\nr-32,${noteOf(32)}\n`);
    appendFileSync(work.path('results.jsonl'), `${answer(32)}\n`);
    expect((await run(job(), { extend: true })).called).toEqual([31]);
    expect(tiers().map((tier) => tier === 'done')).toEqual(
      range(1, 32).map((row) => row <= 20 || row === 32),
    );

    const sampled = await run(job({}, 'results.jsonl', 'rows.csv', 'sample.csv'), { sample: 12 });
    const records = work.records('sample.csv');
    expect(records).toHaveLength(12);
    for (const { custom_id, note, text, tier, status } of records) {
      const row = Number(custom_id?.slice(2));
      if (status === 'completed') expect(text).toBe(`about ${note}`);
      expect(tier === 'done').toBe(row <= 20 || row === 32);
    }
    expect(sampled.called).toHaveLength(records.filter(({ tier }) => tier !== 'done').length);
    const rest = await run(job({}, 'results.jsonl', 'rows.csv', 'sample.csv'));
    expect([...sampled.called, ...rest.called].sort((a, b) => a - b)).toEqual(range(21, 31));
  });

  it('are originals for input.dedupe, and are kept for input.only_new', async () => {
    work.write('rows.csv', `${input(range(1, 30))}r-31,${noteOf(2)}\n`);
    const dedupe = await run(job({ input: { dedupe: true } }, 'results.jsonl', 'rows.csv', 'copies.csv'));
    expect(dedupe.called).toEqual(range(21, 30));
    expect(work.records('copies.csv').at(-1)).toMatchObject({
      copied_from: '2',
      text: 'about note 2',
      tier: '',
    });

    const nightly = { input: { only_new: true } };
    expect((await run(job(nightly, 'results.jsonl', 'rows.csv', 'new.csv'))).called).toEqual([
      ...[2, ...range(21, 30)],
    ]);
    writeFileSync(work.path('results.jsonl'), '');
    const next = await run(job(nightly, 'results.jsonl', 'rows.csv', 'new.csv'), { overwrite: true });
    expect(next.said).toContain('results.jsonl: 0 rows are answered already');
    expect(next.called).toEqual([]);
    expect(new Set(tiers('new.csv'))).toEqual(new Set(['']));
  });

  it('must be there, and stay as they are', async () => {
    const { said } = await run(job({}, 'nothing.jsonl'), {}, 2);
    expect(said).toContain('input.done names nothing.jsonl, which cannot be read');
    const checked = await check(job({}, 'nothing.jsonl'));
    expect([checked.code, checked.stderr]).toEqual([2, expect.stringContaining('nothing.jsonl')]);
    expect((await run(job({}, 'rows.csv'), {}, 2)).said).toContain('30 lines of something else');
    // With one that is empty the columns are those of such a job.
    work.write('none.jsonl', '');
    await run(job({}, 'none.jsonl'));
    expect(work.records('out.csv')[0]).toHaveProperty('tier', 'online');
  });

  it('with answers that do not fit are not asked again, and known answers count for the canary', async () => {
    work.write('results.jsonl', lines([answer(1), line('r-2', 200, completionBody({ text: ' positive' }))]));
    const labels = {
      answer: { labels: ['positive', 'negative'], on_invalid: { ask_again: 1 }, require: { valid: 0 } },
    };
    const { called } = await run(job({ ...labels, limits: { canary: 2 } }));
    expect(called.filter((row) => row <= 2)).toEqual([]);
    expect(work.records('out.csv').slice(0, 2)).toMatchObject([
      { status: 'completed', answer: '', tier: 'done' },
      { status: 'completed', answer: 'positive', tier: 'done' },
    ]);
  });
});
