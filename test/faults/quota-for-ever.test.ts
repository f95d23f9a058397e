import { afterEach, beforeEach, expect, it } from 'vitest';
import { serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';
import './figures.js';

const ROWS = 40;
const CONCURRENCY = 4;

describeEachStore('a quota that is used up for ever', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  let exhausted = true;

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(({ total }) =>
      exhausted && total > 10
        ? {
            status: 429,
            headers: { 'retry-after-ms': '1' },
            json: { error: { code: '429', message: 'used up' } },
          }
        : {},
    );
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 18: stops the run after a bounded number of calls, and the same command goes on', async ({
    task,
  }) => {
    exhausted = true;
    const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
    const job = work.job({
      service: serviceOn(store()),
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, attempts: 1 },
    });
    const stopped = await work.call(['run', job], env);
    expect(stopped.code, stopped.stderr).toBe(3);
    expect(stopped.stderr).toContain('used up');
    expect(stopped.stderr).toContain('promptmill run job.yaml');
    // Thirty waits, and at most all calls at once in each; one more where an answer was under way at the first.
    const refused = service.requests.length - 10;
    expect(refused).toBeGreaterThan(CONCURRENCY);
    expect(refused).toBeLessThanOrEqual(32 * CONCURRENCY);

    exhausted = false;
    const finished = await work.call(['run', job], env);
    expect(finished.code, finished.stderr).toBe(0);
    expect(work.records('out.csv').map(({ id, status, attempts }) => [id, status, attempts])).toEqual(
      Array.from({ length: ROWS }, (_, i) => [String(i + 1), 'completed', '1']),
    );
    expect(service.requests.length).toBe(ROWS + refused);
    const { calls } = JSON.parse(work.read('out.summary.json'));
    expect(calls).toEqual({ sent: ROWS + refused, retried: 0, rate_limited: refused, repeated: 0 });
    task.meta.fault = { rows: ROWS, calls: service.requests.length, repeated: calls.repeated };
  }, 600_000);
});
