import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Summary } from '../../src/account/summary.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { loadTokenizer } from '../../src/prompt/tokens.js';
import type { Child } from '../support/children.js';
import { MemoryPlace } from '../support/memory-place.js';
import { type Ended, Workplace } from '../support/promptmill.js';
import { promptsOf } from '../support/scripted-service.js';
import { describeOn, type StoreUnderTest } from '../support/stores.js';
import { startWorkerProcess } from '../support/worker-process.js';

const KEY = 'a-key-for-tests-only';
const ROWS = 150;
/** Requests in flight at once, of all processes together. */
const CONCURRENCY = 8;
/** About half of what the rows need. */
const HALF = 2_000;
const ALL_COMPLETED = Array.from({ length: ROWS }, (_, i) => `${i + 1} completed`);
const PRICES = { prompt: 2, completion: 1 };

let emulator: Emulator;
let work: Workplace;
const workers: Child[] = [];
beforeEach(async () => {
  work = new Workplace();
  work.rows(ROWS);
  emulator = await startEmulator({ keys: [KEY, 'another'], latency: { baseMs: 10, perTokenMs: 0 } });
});
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.kill();
  await emulator.close();
  work.remove();
});

const jobOf = (tokens: number): string =>
  work.job({
    input: { path: 'rows.csv' },
    prompt: 'Is this note positive, negative or neutral? {{ id }}: {{ note }}',
    parameters: { max_tokens: 8 },
    output: { path: 'out.csv' },
    prices: PRICES,
    limits: { concurrency: CONCURRENCY, chunk_size: 8, budget: { tokens } },
  });
const run = (store: StoreUnderTest, tokens: number, ...flags: string[]): Promise<Ended> =>
  work.call(['run', jobOf(tokens), '--json', ...flags], {
    ...store.env,
    PROMPTMILL_BASE_URL: emulator.url,
  });
const spent = (): number => emulator.stats().usage.total_tokens;
const summaryOf = ({ stdout }: Ended): Summary => JSON.parse(stdout);

/** Every row is answered, by one call each; the summary has what the service billed. */
const expectWhole = (ended: Ended): void => {
  expect(ended.code, ended.stderr).toBe(0);
  expect(work.records('out.csv').map(({ id, status }) => `${id} ${status}`)).toEqual(ALL_COMPLETED);
  const { prompts, distinct_prompts, usage } = emulator.stats();
  expect({ prompts, distinct_prompts }).toEqual({ prompts: ROWS, distinct_prompts: ROWS });
  const { usage: billed, calls } = summaryOf(ended);
  expect(billed).toEqual(usage);
  expect(calls).toMatchObject({ retried: 0, repeated: 0 });
  expect(billed.total_tokens, 'what the rows need').toBeGreaterThan(1.5 * HALF);
};

describeOn('embedded', 'a run with a budget', (store) => {
  it('of tokens stops with 3 before it is passed, and goes on when it is raised, with no call repeated', async () => {
    const stopped = await run(store(), HALF);
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(spent()).toBeLessThanOrEqual(HALF);
    expect(spent()).toBeGreaterThan(0.8 * HALF);
    const summary = summaryOf(stopped);
    expect(summary.stopped).toBe(
      `budget: limits.budget.tokens is 2,000, of which ${spent().toLocaleString('en-US')} is spent, ` +
        `and the next call could take ${/could take (\d+)/.exec(summary.stopped ?? '')?.[1]}. ` +
        'Raise limits.budget.tokens in the job file, and the same command goes on.',
    );
    expect(summary.usage.total_tokens).toBeLessThanOrEqual(spent());

    const requests = emulator.stats().requests;
    const again = await run(store(), HALF);
    expect(again.code, again.stderr).toBe(3);
    expect(again.stderr).toContain(`budget: ${spent().toLocaleString('en-US')} of 2,000 tokens spent`);
    expect(emulator.stats().requests).toBe(requests);

    expectWhole(await run(store(), 2.5 * HALF));
  });

  it('counts what a killed process had in flight, and does not wait for it', async () => {
    const slow = await startEmulator({
      keys: [KEY, 'another'],
      latency: { baseMs: 600_000, perTokenMs: 0 },
    });
    // Enough for the first calls and not for another one.
    const job = jobOf(CONCURRENCY * 32);
    const env = { ...store().env, PROMPTMILL_BASE_URL: slow.url };
    const killed = work.start(['run', job], env);
    try {
      await vi.waitFor(() => expect(slow.stats().requests).toBe(CONCURRENCY), { timeout: 100_000 });
      killed.process.kill('SIGKILL');
      await killed.ended;

      const stopped = await work.call(['run', job, '--json'], env);
      expect(stopped.code, stopped.stderr).toBe(3);
      expect(slow.stats().requests).toBe(CONCURRENCY);
      const { stopped: why, calls } = summaryOf(stopped);
      expect(Number(/of which (\d+) is spent/.exec(why ?? '')?.[1]), why ?? '').toBeGreaterThan(
        CONCURRENCY * 20,
      );
      expect(calls.repeated).toBe(CONCURRENCY);
    } finally {
      // One that was not killed in time must not outlive its test.
      killed.process.kill('SIGKILL');
      await slow.close();
    }
  });
});

describeOn('redis', 'a run with a budget', (store) => {
  it('is one budget for workers in processes of their own, which go on when it is raised', async () => {
    for (let i = 0; i < 2; i++) {
      const worker = startWorkerProcess({
        queue: store().target,
        service: emulator.url,
        concurrency: CONCURRENCY / 2,
        chunkSize: 8,
        lockMs: 60_000,
      });
      workers.push(worker);
      expect(await worker.line()).toBe('ready');
    }
    const stopped = await run(store(), HALF, '--no-work');
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr).toContain('budget: limits.budget.tokens is 2,000');
    expect(spent()).toBeLessThanOrEqual(HALF);
    expect(spent()).toBeGreaterThan(0.8 * HALF);
    expectWhole(await run(store(), 2.5 * HALF, '--no-work'));
  });
});

describe('a run with a budget of money', () => {
  const { encode } = loadTokenizer('cl100k_base');
  const place = new MemoryPlace();
  afterAll(() => place.work.remove());

  it('stops with 3 before it is passed, also with several prompts in a request, and goes on when it is raised', async () => {
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    place.script = async (request) => {
      const prompts = promptsOf(request);
      const counts = { prompt_tokens: prompts.flatMap(encode).length, completion_tokens: 4 * prompts.length };
      const total_tokens = counts.prompt_tokens + counts.completion_tokens;
      usage.prompt_tokens += counts.prompt_tokens;
      usage.completion_tokens += counts.completion_tokens;
      usage.total_tokens += total_tokens;
      const choices = prompts.map((_, index) => ({ index, text: ' good', finish_reason: 'stop' }));
      return { json: { choices, usage: { ...counts, total_tokens } } };
    };
    const job = (cost: number): string =>
      place.work.job({
        input: { path: place.work.rows(ROWS) },
        prompt: 'Is this note positive, negative or neutral? {{ id }}: {{ note }}',
        parameters: { max_tokens: 8 },
        output: { path: 'out.csv' },
        prices: PRICES,
        limits: { concurrency: 3, chunk_size: 8, prompts_per_request: 4, budget: { cost } },
      });
    /** About half of what the rows need. */
    const half = 3;
    const stopped = await place.run(job(half));
    expect(stopped.code, stopped.said).toBe(3);
    const billed = (usage.prompt_tokens * PRICES.prompt + usage.completion_tokens * PRICES.completion) / 1000;
    expect(billed).toBeLessThanOrEqual(half);
    expect(billed).toBeGreaterThan(0.8 * half);
    expect(stopped.summary?.cost).toBeLessThanOrEqual(half);
    expect(stopped.summary?.stopped).toContain('limits.budget.cost is 3.00');

    const raised = await place.run(job(4 * half));
    expect(raised.code, raised.said).toBe(0);
    expect(place.work.records('out.csv').map(({ id, status }) => `${id} ${status}`)).toEqual(ALL_COMPLETED);
    expect(place.machine.requests.flatMap(promptsOf).length).toBe(ROWS);
    expect(new Set(place.machine.requests.flatMap(promptsOf)).size).toBe(ROWS);
    const summary = place.work.json('out.summary.json');
    expect(summary).toMatchObject({ usage, calls: { retried: 0, repeated: 0 } });
    expect(summary['cost'], 'what the rows need').toBeGreaterThan(1.5 * half);
  });
});
