import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Kills } from '../support/kills.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';

/** The same for a call as in a file. */
const bodyFor = (note: string) => completionBody({ text: ` about ${note}` });

const BLOCKED = { error: { code: 'content_filter', message: 'blocked', status: 400 } };

const isBlocked = (note: string): boolean => note.endsWith('13');

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

describeEachStore('a run of which answers are known', (store, kind) => {
  let work: Workplace;
  let service: ScriptedService;
  const kills = new Kills();

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(async ({ prompt }) => {
      await kills.called(prompt === noteOf(600));
      return isBlocked(prompt) ? { status: 400, json: BLOCKED } : { json: bodyFor(prompt) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  let names = 0;
  const job = (change: object = {}, output = 'out.csv'): string =>
    work.job({
      name: `done-${kind}-${++names}`,
      input: { path: 'rows.csv', done: 'results.jsonl' },
      prompt: '{{ note }}',
      parameters: { temperature: 0 },
      prices: { prompt: 1, completion: 2, batch: 0.4 },
      output: { path: output },
      limits: { concurrency: 20 },
      ...change,
    });
  const env = () => ({ PROMPTMILL_BASE_URL: service.url, ...store().env });

  /** @returns the notes that were called for, and what was said */
  async function run(path: string, ...flags: readonly string[]) {
    const before = service.requests.length;
    const { code, stderr } = await work.call(['run', path, ...flags], env());
    expect([0, 1], stderr).toContain(code);
    return { called: service.requests.slice(before).map(({ prompt }) => prompt), said: stderr };
  }

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

  it('calls the others only, and has the same records', { timeout: 180_000 }, async () => {
    halfDone();
    await run(job({ input: { path: 'rows.csv' } }, 'whole.csv'));
    const path = job();
    const { called, said } = await run(path);
    expect(said.replaceAll(/\s+/g, ' ')).toContain(
      'results.jsonl: 400 rows are answered already; 12 lines without an answer, 3 of no row, 1 twice, 1 that are no results',
    );
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
    expect(said.replaceAll(/\s+/g, ' ')).toContain('already paid elsewhere: 400 rows, 4,752 tokens, 2.2176');
  });

  // What is known never reaches the store: one of them shows it.
  const itOnOne = kind === 'embedded' ? it : () => {};
  itOnOne('is killed in the middle, and continued', { timeout: 180_000 }, async () => {
    halfDone();
    const path = job();
    await kills.run({ work, service }, ['run', path], env(), { kills: 2, calls: 150 });
    const { called } = await run(path);
    expect(called.filter((note) => !notes(range(401, 1000)).includes(note))).toEqual([]);
    const records = work.records('out.csv');
    expect(records.map(({ custom_id }) => custom_id)).toEqual(range(1, 1000).map((row) => `r-${row}`));
    expect(records.filter(({ tier }) => tier === 'done')).toHaveLength(400);
    expect(work.json('out.summary.json')).toMatchObject({
      tiers: { done: { rows: 400 } },
      rows: { total: 1000 },
    });
  });
});

describe('the files of input.done', { timeout: 180_000 }, () => {
  let work: Workplace;
  let service: ScriptedService;

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(({ prompt }) =>
      isBlocked(prompt) ? { status: 400, json: BLOCKED } : { json: bodyFor(prompt) },
    );
    work.write('rows.csv', input(range(1, 30)));
    work.write('results.jsonl', lines(range(1, 20).map((row) => answer(row))));
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

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

  async function command(args: readonly string[], expected: number | null = 0) {
    const before = service.requests.length;
    const { code, stderr, stdout } = await work.call(args, { PROMPTMILL_BASE_URL: service.url });
    expect(code, stderr).toBe(expected);
    const called = service.requests.slice(before).map(({ prompt }) => Number(/\d+/.exec(prompt)?.[0]));
    return { called: called.sort((a, b) => a - b), said: stderr.replaceAll(/\s+/g, ' '), stdout };
  }

  const tiers = (output = 'out.csv') => work.records(output).map(({ tier }) => tier);

  it('may be an earlier output, as CSV, as JSONL, and packed', async () => {
    await command(['run', job({}, [], 'rows.csv', 'whole.csv')]);
    for (const output of ['a.csv', 'b.jsonl', 'c.jsonl.gz', 'd.csv.gz']) {
      await command(['run', job({}, [], 'rows.csv', output), '--limit', '20']);
      const { called, said } = await command(['run', job({}, output), '--overwrite']);
      expect(said, output).toContain(`${output}: 20 rows are answered already`);
      expect(called, output).toEqual(range(21, 30));
      expect(same(work.records('out.csv')), output).toEqual(same(work.records('whole.csv')));
    }
  });

  it('may be several: the first answer counts', async () => {
    work.write('more.jsonl.gz', gzipSync(lines([answer(20), answer(25), answer(26)])));
    const { called, said } = await command(['run', job({}, ['results.jsonl', 'more.jsonl.gz'])]);
    expect(called).toEqual([...range(21, 24), ...range(27, 30)]);
    expect(said).toContain('more.jsonl.gz: 2 rows are answered already; 1 twice');
  });

  it('belong to rows by their number, if these have no id; and a number is no other than its text', async () => {
    const rows = (from: number, to: number) =>
      range(from, to).map((row) => JSON.stringify({ note: noteOf(row) }));
    work.write('rows.jsonl', lines(rows(1, 30)));
    work.write('results.jsonl', lines([answer(3, 3), answer(4, '4')]));
    expect((await command(['run', job({}, 'results.jsonl', 'rows.jsonl')])).called).toEqual([
      1,
      2,
      ...range(5, 30),
    ]);
    // An output over other rows, which have no id either: row 1 of it is another one.
    work.write('later.jsonl', lines(rows(11, 40)));
    const { called, said } = await command(['run', job({}, 'out.csv', 'later.jsonl', 'later.csv')]);
    expect(said).toContain('out.csv: 0 rows are answered already; 30 of no row');
    expect(called).toEqual(range(11, 40));
    // The same rows, in their place.
    expect((await command(['run', job({}, 'out.csv', 'rows.jsonl', 'again.csv')])).called).toEqual([]);
  });

  it('answer the first of two rows with one id', async () => {
    work.write('rows.csv', `${input(range(1, 30))}r-2,${noteOf(41)}\n`);
    const { called, said } = await command(['run', job()]);
    expect(called).toEqual([...range(21, 30), 41]);
    expect(said).toContain('1 row with the id of an earlier one is called');
  });

  it('are said and left out by check', async () => {
    const { said, stdout } = await command([
      'check',
      job({ prices: { prompt: 1, completion: 0 } }),
      '--json',
    ]);
    const whole = JSON.parse(
      (await command(['check', job({ prices: { prompt: 1, completion: 0 } }, []), '--json'])).stdout,
    );
    const report = JSON.parse(stdout);
    expect(said).toContain('30 rows = 10 to send + 20 answered already + 0 failing + 0 skipped');
    expect(report).toMatchObject({
      rows: { total: 30, to_send: 10, done: 20, failing: 0 },
      ...{ requests: 10, done: ['results.jsonl: 20 rows are answered already'] },
    });
    expect(whole.rows).not.toHaveProperty('done');
    expect(report.tokens.prompt_tokens).toBe(whole.tokens.prompt_tokens / 3);
    expect(report.cost.most).toBeCloseTo(whole.cost.most / 3);
  });

  it('may be named on the command line, which a retry then knows', async () => {
    work.write('rows.csv', `${input(range(1, 29))}r-30,\n`);
    const { called } = await command(['run', job({}, []), '--done', 'results.jsonl'], 1);
    expect(called).toEqual(range(21, 29));
    rmSync(work.path('results.jsonl'));
    const { said } = await command(['retry', 'out.csv'], 1);
    expect(said).toContain('retrying 1 of 30 rows');
    const completed = await command(['retry', 'out.csv', '--status', 'completed'], 1);
    expect(completed.called).toHaveLength(28);
    // What is left is the blocked prompt.
    expect(tiers().filter((tier) => tier === 'done')).toHaveLength(1);
    const again = await command(['run', job({}, []), '--done', 'results.jsonl', '--overwrite'], 2);
    expect(again.said).toContain('input.done names results.jsonl, which cannot be read');
  });

  it('work with --limit, --sample and --extend', async () => {
    expect((await command(['run', job(), '--limit', '22'])).called).toEqual([21, 22]);
    expect((await command(['run', job()])).called).toEqual(range(23, 30));
    appendFileSync(work.path('rows.csv'), `r-31,${noteOf(31)}\nr-32,${noteOf(32)}\n`);
    appendFileSync(work.path('results.jsonl'), `${answer(32)}\n`);
    expect((await command(['run', job(), '--extend'])).called).toEqual([31]);
    expect(tiers().map((tier) => tier === 'done')).toEqual(
      range(1, 32).map((row) => row <= 20 || row === 32),
    );

    const sampled = await command([
      'run',
      job({}, 'results.jsonl', 'rows.csv', 'sample.csv'),
      '--sample',
      '12',
    ]);
    const records = work.records('sample.csv');
    expect(records).toHaveLength(12);
    for (const { custom_id, note, text, tier, status } of records) {
      const row = Number(custom_id?.slice(2));
      if (status === 'completed') expect(text).toBe(`about ${note}`);
      expect(tier === 'done').toBe(row <= 20 || row === 32);
    }
    expect(sampled.called).toHaveLength(records.filter(({ tier }) => tier !== 'done').length);
    const rest = await command(['run', job({}, 'results.jsonl', 'rows.csv', 'sample.csv')]);
    expect([...sampled.called, ...rest.called].sort((a, b) => a - b)).toEqual(range(21, 31));
  });

  it('are originals for input.dedupe, and are kept for input.only_new', async () => {
    work.write('rows.csv', `${input(range(1, 30))}r-31,${noteOf(2)}\n`);
    const dedupe = await command([
      'run',
      job({ input: { dedupe: true } }, 'results.jsonl', 'rows.csv', 'copies.csv'),
    ]);
    expect(dedupe.called).toEqual(range(21, 30));
    expect(work.records('copies.csv').at(-1)).toMatchObject({
      copied_from: '2',
      text: 'about note 2',
      tier: '',
    });

    const nightly = { input: { only_new: true } };
    expect((await command(['run', job(nightly, 'results.jsonl', 'rows.csv', 'new.csv')])).called).toEqual([
      ...[2, ...range(21, 30)],
    ]);
    writeFileSync(work.path('results.jsonl'), '');
    const next = await command(['run', job(nightly, 'results.jsonl', 'rows.csv', 'new.csv'), '--overwrite']);
    expect(next.said).toContain('results.jsonl: 0 rows are answered already');
    expect(next.called).toEqual([]);
    expect(new Set(tiers('new.csv'))).toEqual(new Set(['']));
  });

  it('must be there, and stay as they are', async () => {
    const { said } = await command(['run', job({}, 'nothing.jsonl')], 2);
    expect(said).toContain('input.done names nothing.jsonl, which cannot be read');
    expect((await command(['check', job({}, 'nothing.jsonl')], 2)).said).toContain('nothing.jsonl');
    expect((await command(['run', job({}, 'rows.csv')], 2)).said).toContain('30 lines of something else');
    // With one that is empty the columns are those of such a job.
    work.write('none.jsonl', '');
    await command(['run', job({}, 'none.jsonl')]);
    expect(work.records('out.csv')[0]).toHaveProperty('tier', 'online');
  });

  it('with answers that do not fit are not asked again, and known answers count for the canary', async () => {
    work.write('results.jsonl', lines([answer(1), line('r-2', 200, completionBody({ text: ' positive' }))]));
    const labels = {
      answer: { labels: ['positive', 'negative'], on_invalid: { ask_again: 1 }, require: { valid: 0 } },
    };
    const { called } = await command(['run', job({ ...labels, limits: { canary: 2 } })]);
    expect(called.filter((row) => row <= 2)).toEqual([]);
    expect(work.records('out.csv').slice(0, 2)).toMatchObject([
      { status: 'completed', answer: '', tier: 'done' },
      { status: 'completed', answer: 'positive', tier: 'done' },
    ]);
  });
});
