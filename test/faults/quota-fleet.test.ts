import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { queueName } from '../../src/queue/names.js';
import { serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { type Script, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';
import './figures.js';

const ROWS = 200;
const HINT_MS = 5_000;

describeOn('redis', 'two processes of one deployment', (store) => {
  const work = new Workplace();
  let service: ScriptedService;
  let script: Script = () => ({});
  beforeAll(async () => {
    service = await startScriptedService((request) => script(request));
    work.rows(ROWS);
  });
  afterAll(async () => {
    await service.close();
    work.remove();
  });

  /** The queue of both; it is open before the pause, which would be over otherwise before somebody looks. */
  async function openQueue(): Promise<Queue> {
    const opened = await store().open();
    const name = queueName(serviceOn(store()).deployment, `${service.url}/openai`);
    const queue = new Queue(name, { connection: opened.connection }, opened.backendFactory);
    await queue.waitUntilReady();
    return queue;
  }

  /** Resolves when the store tells all workers of the queue to pause. */
  const paused = (queue: Queue): Promise<void> =>
    expect
      .poll(() => queue.getRateLimitTtl(1_000_000_000), { timeout: 60_000, interval: 20 })
      .toBeGreaterThan(0);

  it('fault 17: both wait when one of them is refused', async ({ task }) => {
    const queue = await openQueue();
    // Their keys tell the processes apart: each takes chunks of both runs.
    const arrivals = { 'first-key-for-tests': [] as number[], 'second-key-for-tests': [] as number[] };
    let refusedAt = 0;
    let secondIsBusy = (): void => {};
    const secondBusy = new Promise<void>((resolve) => {
      secondIsBusy = resolve;
    });
    let pauseIsTold = (): void => {};
    const pauseTold = new Promise<void>((resolve) => {
      pauseIsTold = () => resolve(paused(queue));
    });
    script = async ({ headers }) => {
      const first = headers['api-key'] === 'first-key-for-tests';
      const own = arrivals[first ? 'first-key-for-tests' : 'second-key-for-tests'];
      own.push(performance.now());
      if (own.length !== 5) return {};
      if (!first) {
        // In flight until the other was refused and has told the store. Its chunk has more rows.
        secondIsBusy();
        await pauseTold;
        // What the process knew of the pause before this call is too old after it.
        await sleep(150);
        return {};
      }
      await secondBusy;
      refusedAt = performance.now();
      pauseIsTold();
      return {
        status: 429,
        headers: { 'retry-after-ms': String(HINT_MS) },
        json: { error: { code: '429', message: 'slow' } },
      };
    };
    const run = async (key: keyof typeof arrivals) => {
      const job = work.job(
        {
          service: serviceOn(store()),
          input: { path: 'rows.csv' },
          output: { path: `${key}.csv` },
          limits: { concurrency: 1, chunk_size: 20 },
        },
        `${key}.yaml`,
      );
      const { code, stderr } = await work.run(['run', job], {
        PROMPTMILL_BASE_URL: service.url,
        PROMPTMILL_API_KEY: key,
        ...store().env,
      });
      expect(code, stderr).toBe(0);
    };
    await Promise.all([run('first-key-for-tests'), run('second-key-for-tests')]);
    await queue.close();
    const sooner = (key: keyof typeof arrivals): number =>
      arrivals[key].filter((at) => at > refusedAt && at < refusedAt + HINT_MS).length;
    expect(refusedAt).toBeGreaterThan(0);
    expect(sooner('first-key-for-tests')).toBe(0);
    expect(sooner('second-key-for-tests')).toBe(0);
    task.meta.fault = { rows: 2 * ROWS, calls: service.requests.length };
  });
});
