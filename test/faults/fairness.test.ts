import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { queueName } from '../../src/queue/names.js';
import { type Running, Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore, type StoreUnderTest } from '../support/stores.js';
import './figures.js';

const LONG = 1_200;
const SHORT = 200;
const CHUNK = 10;
/** Calls at once of each process that calls. */
const AT_ONCE = 8;
/** Calls of the long run before the short one begins. */
const AHEAD = 300;

describeEachStore('two runs of one deployment', suite);

function suite(store: () => StoreUnderTest, kind: StoreUnderTest['kind']): void {
  let work: Workplace;
  let service: ScriptedService;
  /** The run of each call, in the order in which they came. */
  let calls: ('long' | 'short')[];
  let inFlight: number;
  let held: Promise<void> | null;
  let release: () => void;
  const processes: Running[] = [];

  const holdAll = (): void => {
    held ??= new Promise((resolve) => {
      release = resolve;
    });
  };
  const releaseAll = (): void => {
    held = null;
    release();
  };

  beforeEach(async () => {
    work = new Workplace();
    [calls, inFlight, held] = [[], 0, null];
    service = await startScriptedService(async ({ prompt }) => {
      calls.push(prompt.startsWith('long') ? 'long' : 'short');
      inFlight++;
      // The service stands still until the test has begun the short run.
      if (calls.length === AHEAD && !calls.includes('short')) holdAll();
      await sleep(5);
      await held;
      inFlight--;
      return {};
    });
    work.rows(LONG, 'long.csv');
    work.rows(SHORT, 'short.csv');
  });
  afterEach(async () => {
    releaseAll();
    for (const { process } of processes) if (process.exitCode === null) process.kill('SIGKILL');
    await Promise.all(processes.splice(0).map(({ ended }) => ended));
    await service.close();
    work.remove();
  });

  function start(args: readonly string[]): Running {
    const running = work.start(args, {
      PROMPTMILL_BASE_URL: service.url,
      ...store().env,
    });
    processes.push(running);
    return running;
  }

  function run(name: 'long' | 'short', flags: readonly string[] = [], limits: object = {}): Running {
    const job = {
      prompt: `${name} {{ id }}`,
      input: { path: `${name}.csv` },
      output: { path: `${name}-out.csv` },
      limits: { concurrency: AT_ONCE, chunk_size: CHUNK, ...limits },
    };
    return start(['run', work.job(job, `${name}.yaml`), ...flags]);
  }

  async function expectWell(running: Running, name: 'long' | 'short', rows: number): Promise<void> {
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    expect(work.records(`${name}-out.csv`).map(({ id }) => Number(id))).toEqual(
      Array.from({ length: rows }, (_, i) => i + 1),
    );
  }

  /** Calls of the long run from the moment at which the short one was there to its first call, and from there to its last. */
  function longCalls(from: number): { before: number; beside: number } {
    const [first, last] = [calls.indexOf('short'), calls.lastIndexOf('short')];
    const count = (part: typeof calls): number => part.filter((name) => name === 'long').length;
    return { before: count(calls.slice(from, first)), beside: count(calls.slice(first, last)) };
  }

  /** Whether the last entry of a run is in the queue, and so all of them have been put there. */
  async function isThere(queue: Queue, name: 'long' | 'short', rows: number): Promise<boolean> {
    const manifest = `${name}-out.csv.run.json`;
    if (!existsSync(work.path(manifest))) return false;
    const { run, execution } = work.json(manifest);
    return (await queue.getJob(`${run}-x${execution}-${rows - CHUNK + 1}`)) !== undefined;
  }

  /** Runs both, the short one from the moment on at which the service has the first calls of the long one. */
  async function both(flags: readonly string[]): Promise<number> {
    const opened = await store().open();
    const name = queueName('lm-35-turbo-instruct', `${service.url}/openai`);
    const queue = new Queue(name, { connection: opened.connection }, opened.backendFactory);
    const long = run('long', flags);
    if (flags.length > 0) start(['work', '--concurrency', String(AT_ONCE)]);
    const patience = { timeout: 60_000, interval: 20 };
    await expect.poll(() => inFlight >= AT_ONCE && calls.length >= AHEAD, patience).toBe(true);
    await expect.poll(() => isThere(queue, 'long', LONG), patience).toBe(true);
    const short = run('short', flags);
    await expect.poll(() => isThere(queue, 'short', SHORT), patience).toBe(true);
    const from = calls.length;
    releaseAll();
    await expectWell(short, 'short', SHORT);
    await expectWell(long, 'long', LONG);
    await queue.close();
    await opened.close();
    return from;
  }

  // An embedded store has one process: what two of them share is the quota.
  if (kind === 'embedded') {
    it('fault 88: two runs on one machine share a quota that both know', async ({ task }) => {
      const limits = { requests_per_minute: 3_000 };
      const long = run('long', [], limits);
      const patience = { timeout: 60_000, interval: 20 };
      await expect.poll(() => calls.length >= AHEAD && inFlight >= AT_ONCE, patience).toBe(true);
      const short = run('short', [], limits);
      await expect.poll(() => inFlight, patience).toBe(2 * AT_ONCE);
      releaseAll();
      await expectWell(short, 'short', SHORT);
      const { beside } = longCalls(0);
      // Whoever asks first takes a turn: by chance, not row for row.
      expect(beside).toBeGreaterThanOrEqual(SHORT / 4);
      expect(beside).toBeLessThanOrEqual(SHORT * 4);
      long.process.kill('SIGTERM');
      const { code, stderr } = await long.ended;
      expect([0, 143], stderr).toContain(code);
      task.meta.fault = { rows: LONG + SHORT, calls: calls.length };
    });
    return;
  }

  it('fault 88: beside a long run with the same workers a short one has half of the calls, and from the beginning on', async ({
    task,
  }) => {
    const { before, beside } = longCalls(await both(['--no-work']));
    // What the worker held, and as many rows as share a priority.
    expect(before).toBeLessThanOrEqual(4 * CHUNK + 2 * 50);
    expect(beside).toBeGreaterThanOrEqual(SHORT / 2);
    expect(beside).toBeLessThanOrEqual(SHORT * 1.5);
    task.meta.fault = { rows: LONG + SHORT, calls: calls.length };
  });

  it('fault 88: of two runs that bring their own workers, the short one has half of the calls of both', async ({
    task,
  }) => {
    const { before, beside } = longCalls(await both([]));
    expect(before).toBeLessThanOrEqual(8 * CHUNK + 2 * 50);
    expect(beside).toBeGreaterThanOrEqual(SHORT / 2);
    expect(beside).toBeLessThanOrEqual(SHORT * 1.5);
    task.meta.fault = { rows: LONG + SHORT, calls: calls.length };
  });
}
