import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { requestPlan } from '../../src/prompt/row-request.js';
import { sentAgain } from '../../src/run/producer.js';
import { csv } from '../../src/source/csv.js';
import { MemoryMachine } from '../support/memory-run.js';
import { Workplace } from '../support/promptmill.js';
import { type Script, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { unknownAfter } from '../support/unknown.js';
import { withResolvers } from '../support/with-resolvers.js';

/** What a copy has of its own; all else of its record is the original's. */
const OWN = [
  'id',
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  'attempts',
  'latency_ms',
  'copied_from',
];

/** `ask 7` is blocked, `ask 8` refused, `ask 9` has a blocked completion; the rest is answered. */
const answer: Script = ({ prompt }) => {
  if (prompt === 'ask 7') return { status: 400, json: { error: { code: 'content_filter', message: 'no' } } };
  if (prompt === 'ask 8') return { status: 400, json: { error: { code: 'bad', message: 'not this' } } };
  if (prompt === 'ask 9') return { answer: { finish_reason: 'content_filter', text: '' } };
  return { answer: { text: ` re ${prompt}` } };
};

describe('a run with input.dedupe', { timeout: 300_000 }, () => {
  const store = oneStore();
  let work: Workplace;
  beforeEach(() => {
    work = new Workplace();
  });
  afterEach(() => work.remove());

  const JOB = {
    input: { dedupe: true },
    prompt: 'ask {{ q }}',
    parameters: { temperature: 0, max_tokens: 5 },
    limits: { concurrency: 8, chunk_size: 10 },
  };
  const asking = (questions: readonly number[]): string =>
    `id,q\n${questions.map((q, i) => `${i + 1},${q}`).join('\n')}\n`;

  /** Starts a service, and writes a CSV whose rows ask these questions, and a job over it. */
  async function served(script: Script, questions: readonly number[], limits: object = JOB.limits) {
    const service = await startScriptedService(script);
    onTestFinished(() => service.close());
    const path = work.write('rows.csv', asking(questions));
    const job = work.job({ ...JOB, input: { path, dedupe: true }, output: { path: 'out.csv' }, limits });
    return { service, job, env: { PROMPTMILL_BASE_URL: service.url, ...store() } };
  }

  /** Every record has its own id, and all else of a copy is that of the first row that asked the same. */
  function expectCopies(questions: readonly number[], records: readonly Record<string, string>[]): void {
    const none = Object.fromEntries(OWN.map((name) => [name, '']));
    const expected = questions.map((q, i) => {
      const id = String(i + 1);
      const original = questions.indexOf(q);
      return original === i
        ? { ...records[i], id, attempts: '1', copied_from: '' }
        : { ...records[original], ...none, id, attempts: '0', copied_from: String(original + 1) };
    });
    expect(records).toEqual(expected);
  }

  /** What runs have left behind of their outcomes. */
  const rest = (stateDir = store().PROMPTMILL_STATE_DIR): string[] => readdirSync(join(stateDir, 'reuse'));

  it('calls each request once, whether its rows are neighbours or farther apart than the window', async () => {
    // 0 … 299 again and again for more rows than the window holds, and one that comes only at both ends.
    const questions = Array.from({ length: 11_000 }, (_, i) => (i === 4 || i === 10_990 ? 777 : i % 300));
    questions.splice(20, 0, 20, 20, 20);

    const machine = new MemoryMachine(answer);
    const job = { ...JOB, output: { path: work.path('out.csv') }, limits: { concurrency: 50 } };
    const env = { PROMPTMILL_STATE_DIR: work.path('state') };
    const { code, summary } = await machine.run(job, asking(questions), { env });

    expect(code).toBe(1);
    expect(machine.calls()).toBe(301);
    expect(machine.calls('ask 777')).toBe(1);
    const records = work.records('out.csv');
    expectCopies(questions, records);
    expect(records[10_993]).toMatchObject({ answer: 're ask 777', copied_from: '5' });
    expect(records[8]).toMatchObject({ status: 'failed', error_message: 'not this (HTTP 400)' });
    expect(records[308 + 3]).toMatchObject({
      status: 'failed',
      error_message: 'not this (HTTP 400)',
      copied_from: '9',
    });

    const { rows, usage, reused, calls, errors, finish_reasons } = summary;
    const of = (q: number): number => questions.filter((each) => each === q).length;
    expect(reused).toEqual({ copied: questions.length - 301, carried: 0 });
    expect(calls).toMatchObject({ sent: 301, repeated: 0 });
    expect(rows).toMatchObject({
      total: questions.length,
      failed: of(8),
      filtered: of(7) + of(9),
      skipped: 0,
    });
    expect(errors).toEqual({ content_filter: of(7) + of(9), invalid_request: of(8) });
    expect(finish_reasons.content_filter).toBe(of(9));
    // The bill: what the original rows took, and so the sum of the column.
    expect(usage.total_tokens).toBe(12 * 299);
    expect(records.reduce((sum, { total_tokens }) => sum + Number(total_tokens), 0)).toBe(12 * 299);
    expect(rest(work.path('state'))).toEqual([]);
  });

  it('fault 40: killed and continued, copies what an earlier process has called', async () => {
    const { promise: held, resolve: release } = withResolvers();
    // Copies of what is committed, of what is only in the ledger, and of what was in flight.
    const questions = Array.from({ length: 300 }, (_, i) => (i < 70 ? i : (i * 7) % 70));
    const { service, job, env } = await served(async (request) => {
      if (request.prompt === 'ask 60') await held;
      return await answer(request);
    }, questions);
    const running = work.start(['run', job], env);
    await vi.waitFor(() => expect(work.json('out.csv.run.json')['rows']).toBe(60), { timeout: 120_000 });
    await vi.waitFor(() => expect(service.requests.length).toBe(70), { timeout: 120_000 });
    running.process.kill('SIGKILL');
    await running.ended;
    release();

    const { code, stderr } = await work.call(['run', job], env);

    expect(code, stderr).toBe(1);
    expect(service.requests.length).toBeLessThanOrEqual(70 + unknownAfter(8));
    for (const q of [0, 5, 59]) expect(service.calls(`ask ${q}`)).toBe(1);
    const records = work.records('out.csv');
    expectCopies(questions, records);
    expect(work.json('out.summary.json')['reused']).toEqual({ copied: 230, carried: 0 });
    expect(rest()).toEqual([]);
  });

  it('is continued after its part file was cut, and counts its copies again', async () => {
    let stopping = true;
    const script: Script = (request) =>
      stopping && request.prompt === 'ask 30'
        ? { status: 429, json: { error: { code: 'insufficient_quota', message: 'no credit' } } }
        : answer(request);
    const questions = [10, 10, 10, 11, 11, 12, 13, 14, 15, 11, 30, 10, 15];
    const { service, job, env } = await served(script, questions, { concurrency: 1, chunk_size: 5 });
    expect((await work.call(['run', job], env)).code).toBe(3);
    const lines = work.read('out.csv.part').split('\n');
    expect(lines.length).toBe(12);
    work.write('out.csv.part', `${lines.slice(0, 8).join('\n')}\n`);
    stopping = false;

    const { code, stderr } = await work.call(['run', job], env);

    expect(code, stderr).toBe(0);
    expect(stderr).toContain('6 rows copied: not called');
    expectCopies(questions, work.records('out.csv'));
    // Rows 8 to 10 were lost with the cut; the last of them is a copy.
    expect(service.requests.map(({ prompt }) => prompt).slice(-3)).toEqual(['ask 14', 'ask 15', 'ask 30']);
    expect(work.json('out.summary.json')).toMatchObject({
      calls: { repeated: 2 },
      reused: { copied: 6, carried: 0 },
    });
    expect(rest()).toEqual([]);
  });

  it('in JSONL says the original in a member, and leaves rows at another temperature alone', async () => {
    const rows = [0, 0.5, 0, 0.5, null, null].map((temperature) => ({
      body: { prompt: 'ask 1', temperature },
    }));
    const output = { columns: ['row', 'status', 'usage', 'copied_from'] };
    const machine = new MemoryMachine(answer);
    const { code, lines } = await machine.run({ ...JOB, prompt: undefined, output }, rows);

    expect(code).toBe(0);
    expect(machine.calls()).toBe(5);
    const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
    expect(lines.map(({ copied_from }) => copied_from)).toEqual([null, null, 1, null, null, null]);
    expect(lines[0]).toEqual({ row: 1, status: 'completed', usage, copied_from: null });
    expect(lines[2]).toEqual({ row: 3, status: 'completed', usage: null, copied_from: 1 });
  });

  it('is refused at a temperature that is not 0, before anything is sent', async () => {
    const machine = new MemoryMachine(answer);
    const warm = machine.run({ ...JOB, parameters: { temperature: 0.2 } }, asking([1]));
    await expect(warm).rejects.toMatchObject({
      exit: 2,
      message: expect.stringContaining('input.dedupe is true, and parameters.temperature is 0.2'),
    });
    expect(machine.calls()).toBe(0);
  });
});

it('a chunk that is put into the queue again leaves its copies out', () => {
  const keys = { request: 'k', row: null, place: null };
  const source = { kind: 'copied', from: 1, key: 'k' } as const;
  const looked = [{ keys, source: null }, { keys, source: null }, { keys, source }, null];
  const rows = looked.map((each, i) => ({
    row: { number: i + 1, line: i + 2, fields: new Map([['q', i < 3 ? 'p' : '']]), bytes: 10 },
    settled: i < 3 ? null : ({ status: 'skipped' } as const),
    looked: each,
  }));
  const job = {
    ...{ operations: ['completions'] as const, prompt: '{{ q }}', require: ['q'] },
    ...{ rowParameters: [], parameters: {}, fixedParameters: null, system: null, messages: null },
  } as const;
  const requests = requestPlan(job, { name: 'in.csv', columns: ['q'], format: csv });
  const sent = sentAgain({ first: 1, rows, sent: 2, bytes: 40, isApart: false }, requests);
  expect(sent.map(({ row, prompt }) => [row, prompt])).toEqual([
    [1, 'p'],
    [2, 'p'],
  ]);
});
