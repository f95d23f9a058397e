import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

/** What a row that was carried over has of its own; all else of its record is that of the run before. */
const OWN = ['prompt_tokens', 'completion_tokens', 'total_tokens', 'attempts', 'latency_ms', 'carried_from'];

describe('a job with input.only_new', { timeout: 300_000 }, () => {
  const store = oneStore();
  let work: Workplace;
  let service: ScriptedService;
  /** Each test has a job of its own name, and so answers of its own. */
  let tests = 0;
  /** The service holds back the answer to this prompt. */
  let heldPrompt = '';
  let release: () => void = () => {};
  let held = Promise.resolve();

  beforeEach(async () => {
    work = new Workplace();
    tests++;
    heldPrompt = '';
    service = await startScriptedService(async ({ prompt, total }) => {
      if (prompt === heldPrompt) await held;
      if (prompt.includes('fail')) return { status: 400, json: { error: { code: 'bad', message: 'no' } } };
      if (prompt.includes('block')) {
        return { status: 400, json: { error: { code: 'content_filter', message: 'blocked' } } };
      }
      // Which call it was, so that an answer that was carried over can be told from a new one.
      return { json: completionBody({ text: ` ${total} ${prompt}` }) };
    });
  });
  afterEach(async () => {
    release();
    await service.close();
    work.remove();
  });

  function job(change: object = {}, rows = 'rows.csv'): string {
    return work.job({
      name: `nightly-${tests}`,
      input: { path: rows, only_new: true },
      prompt: '{{ note }}',
      output: { path: 'out.csv' },
      limits: { concurrency: 8, chunk_size: 10 },
      ...change,
    });
  }

  const csv = (notes: readonly string[]): string =>
    work.write('rows.csv', `id,note\n${notes.map((note, i) => `${i + 1},${note}`).join('\n')}\n`);

  /** Runs the job once more and gives the calls that it took. */
  async function night(path: string, ...flags: readonly string[]): Promise<number> {
    const before = service.requests.length;
    const { code, stderr } = await work.call(['run', path, '--overwrite', ...flags], {
      PROMPTMILL_BASE_URL: service.url,
      ...store(),
    });
    expect([0, 1], stderr).toContain(code);
    return service.requests.length - before;
  }

  const summary = () => JSON.parse(work.read('out.summary.json'));

  it('calls the 30 rows that changed of 300, and carries the others over', async () => {
    const notes = Array.from({ length: 300 }, (_, i) => `note ${i + 1}`);
    csv(notes);
    const path = job({ limits: { concurrency: 50 } });
    expect(await night(path)).toBe(300);
    expect(summary().reused).toEqual({ copied: 0, carried: 0 });
    const { run } = summary();
    const first = work.records('out.csv');

    const changed = new Set(Array.from({ length: 30 }, (_, i) => i * 10));
    csv(notes.map((note, i) => (changed.has(i) ? `${note} changed` : note)));
    expect(await night(path)).toBe(30);

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
    expect(summary()).toMatchObject({
      rows: { total: 300, completed: 300 },
      calls: { sent: 30 },
      usage: { total_tokens: 30 * 12 },
      reused: { copied: 0, carried: 270 },
    });
  });

  it('fault 40: killed in the middle, goes on with what the night before answered, and leaves it whole for the next', async () => {
    const notes = Array.from({ length: 200 }, (_, i) => `note ${i + 1}`);
    csv(notes);
    expect(await night(job())).toBe(200);
    csv(notes.map((note, i) => (i % 20 === 0 ? `${note} changed` : note)));
    heldPrompt = 'note 121 changed';
    held = new Promise((resolve) => {
      release = resolve;
    });
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const running = work.start(['run', job(), '--overwrite'], env);
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
    expect(await night(job())).toBe(1);
    expect(summary().reused).toEqual({ copied: 0, carried: 190 });
    expect(await night(job())).toBe(0);
    expect(summary().reused).toEqual({ copied: 0, carried: 200 });
    const left = readdirSync(join(store().PROMPTMILL_STATE_DIR, 'reuse')).filter(
      (name) => !name.endsWith('.answered.jsonl'),
    );
    expect(left).toEqual([]);
  });

  it('in JSONL, together with input.dedupe, carries over what it can and copies the rest', async () => {
    const write = (notes: readonly string[]): string =>
      work.write('rows.jsonl', notes.map((note, i) => `{"id":${i},"note":"${note}"}\n`).join(''));
    const both = {
      input: { path: write(['a', 'b', 'a', 'fail', 'fail']), only_new: true, dedupe: true },
      parameters: { temperature: 0 },
      output: { path: 'out.jsonl' },
    };
    expect(await night(job(both))).toBe(3);
    expect(summary().reused).toEqual({ copied: 2, carried: 0 });
    const { run } = summary();
    write(['a', 'b', 'a', 'fail', 'fail', 'c', 'c', 'b', 'block']);
    expect(await night(job(both))).toBe(3);
    expect(summary()).toMatchObject({ calls: { sent: 3 }, reused: { copied: 3, carried: 3 } });
    const records = work.lines('out.jsonl');
    expect(records.map(({ copied_from, carried_from }) => [copied_from, carried_from])).toEqual([
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
    expect(records[0]).toMatchObject({ usage: null, attempts: 0, latency_ms: null, status: 'completed' });
  });
});
