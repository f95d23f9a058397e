import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { MemoryMachine, type MemoryRows } from '../support/memory-run.js';
import { Workplace } from '../support/promptmill.js';
import { type Script, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { withResolvers } from '../support/with-resolvers.js';

/** What a row that was carried over has of its own; all else of its record is that of the run before. */
const OWN = ['prompt_tokens', 'completion_tokens', 'total_tokens', 'attempts', 'latency_ms', 'carried_from'];

const script: Script = ({ prompt, total }) => {
  if (prompt.includes('fail')) return { status: 400, json: { error: { code: 'bad', message: 'no' } } };
  if (prompt.includes('block')) {
    return { status: 400, json: { error: { code: 'content_filter', message: 'blocked' } } };
  }
  // Which call it was, so that an answer that was carried over can be told from a new one.
  return { answer: { text: ` ${total} ${prompt}` } };
};

const JOB = {
  input: { only_new: true },
  prompt: '{{ note }}',
  limits: { concurrency: 8, chunk_size: 10 },
};

const csv = (notes: readonly string[]): string =>
  `id,note\n${notes.map((note, i) => `${i + 1},${note}`).join('\n')}\n`;

describe('a job with input.only_new', { timeout: 300_000 }, () => {
  const store = oneStore();
  let work: Workplace;
  let machine: MemoryMachine;
  beforeEach(() => {
    work = new Workplace();
    machine = new MemoryMachine(script);
  });
  afterEach(() => work.remove());

  /** Runs the job once more, with the calls that it took. */
  async function night(job: object, rows: MemoryRows) {
    const before = machine.calls();
    const env = { PROMPTMILL_STATE_DIR: work.path('state') };
    const ended = await machine.run(job, rows, { flags: { overwrite: true }, env });
    return { ...ended, called: machine.calls() - before };
  }

  it('calls the 30 rows that changed of 300, and carries the others over', async () => {
    const notes = Array.from({ length: 300 }, (_, i) => `note ${i + 1}`);
    const job = { ...JOB, output: { path: work.path('out.csv') }, limits: { concurrency: 50 } };
    const before = await night(job, csv(notes));
    expect(before).toMatchObject({ code: 0, called: 300, summary: { reused: { copied: 0, carried: 0 } } });
    const { run } = before.summary;
    const first = work.records('out.csv');

    const changed = new Set(Array.from({ length: 30 }, (_, i) => i * 10));
    const { code, called, summary } = await night(
      job,
      csv(notes.map((note, i) => (changed.has(i) ? `${note} changed` : note))),
    );
    expect([code, called]).toEqual([0, 30]);

    const second = work.records('out.csv');
    expect(second.length).toBe(300);
    const own = { ...Object.fromEntries(OWN.map((name) => [name, ''])), attempts: '0', carried_from: run };
    for (const [i, record] of second.entries()) {
      if (!changed.has(i)) expect(record).toEqual({ ...first[i], ...own });
      else
        expect(record).toMatchObject({
          id: String(i + 1),
          status: 'completed',
          attempts: '1',
          carried_from: '',
        });
    }
    expect(summary).toMatchObject({
      rows: { total: 300, completed: 300 },
      calls: { sent: 30 },
      usage: { total_tokens: 30 * 12 },
      reused: { copied: 0, carried: 270 },
    });
  });

  it('fault 40: killed in the middle, goes on with what the night before answered, and leaves it whole for the next', async () => {
    const notes = Array.from({ length: 200 }, (_, i) => `note ${i + 1}`);
    work.write('rows.csv', csv(notes));
    const { promise: held, resolve: release } = withResolvers();
    const service = await startScriptedService(async (request) => {
      if (request.prompt === 'note 121 changed') await held;
      return await script(request);
    });
    onTestFinished(() => service.close());
    const input = { path: 'rows.csv', only_new: true };
    const job = work.job({ ...JOB, input, output: { path: 'out.csv' } });
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const call = async (): Promise<number> => {
      const before = service.calls();
      const { code, stderr } = await work.call(['run', job, '--overwrite'], env);
      expect(code, stderr).toBe(0);
      return service.calls() - before;
    };
    const reused = () => work.json('out.summary.json')['reused'];
    expect(await call()).toBe(200);
    work.write('rows.csv', csv(notes.map((note, i) => (i % 20 === 0 ? `${note} changed` : note))));
    const running = work.start(['run', job, '--overwrite'], env);
    await vi.waitFor(() => expect(work.json('out.csv.run.json')['rows']).toBe(120), { timeout: 120_000 });
    // All answers but the one that is held are in the ledger.
    const known = async () =>
      JSON.parse((await work.call(['status', '--json'], env)).stdout).runs[0]?.rows.known;
    await expect.poll(known, { timeout: 120_000 }).toBe(199);
    expect(service.requests.length).toBe(210);
    running.process.kill('SIGKILL');
    await running.ended;
    release();

    // Only what was in flight is called again.
    expect(await call()).toBe(1);
    expect(reused()).toEqual({ copied: 0, carried: 190 });
    expect(await call()).toBe(0);
    expect(reused()).toEqual({ copied: 0, carried: 200 });
    const left = readdirSync(join(store().PROMPTMILL_STATE_DIR, 'reuse')).filter(
      (name) => !name.endsWith('.answered.jsonl'),
    );
    expect(left).toEqual([]);
  });

  it('in JSONL, together with input.dedupe, carries over what it can and copies the rest', async () => {
    const rows = (notes: readonly string[]) => notes.map((note, id) => ({ id, note }));
    const both = { ...JOB, input: { only_new: true, dedupe: true }, parameters: { temperature: 0 } };
    const first = await night(both, rows(['a', 'b', 'a', 'fail', 'fail']));
    expect(first).toMatchObject({ code: 1, called: 3, summary: { reused: { copied: 2, carried: 0 } } });
    const { run } = first.summary;
    const second = await night(both, rows(['a', 'b', 'a', 'fail', 'fail', 'c', 'c', 'b', 'block']));
    expect(second).toMatchObject({
      code: 1,
      called: 3,
      summary: { calls: { sent: 3 }, reused: { copied: 3, carried: 3 } },
    });
    expect(second.lines.map(({ copied_from, carried_from }) => [copied_from, carried_from])).toEqual([
      [null, run],
      [null, run],
      [null, run],
      [null, null],
      [4, null],
      [null, null],
      [6, null],
      [2, null],
      [null, null],
    ]);
    expect(second.lines[0]).toMatchObject({
      usage: null,
      attempts: 0,
      latency_ms: null,
      status: 'completed',
    });
  });
});
