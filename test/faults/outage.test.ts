import { afterEach, beforeEach, expect, it } from 'vitest';
import { serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';
import './figures.js';

const ROWS = 200;
const CONCURRENCY = 4;
/** Calls that fail before the service is back: ten tell that it is down, and those after them are probes. */
const FAILURES = 15;
/** The prompt of a call that asks whether the service or a row is the cause. */
const PLAIN = 'Hello';

describeEachStore('a service that goes down in the midst of a run', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  let failed = 0;
  let isBack: () => boolean;
  /** Plain calls that were answered. */
  let answeredPlain = 0;

  beforeEach(async () => {
    work = new Workplace();
    failed = 0;
    answeredPlain = 0;
    isBack = () => failed >= FAILURES;
    service = await startScriptedService(({ total, prompt }) => {
      if (total > 50 && !isBack()) {
        failed++;
        return { status: 500, text: 'down' };
      }
      if (prompt === PLAIN) answeredPlain++;
      return {};
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 20: is waited for; no row fails, and a row has two attempts at most', async ({ task }) => {
    const job = work.job({
      service: serviceOn(store()),
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, attempts: 2 },
    });
    const { code, stderr } = await work.call(['run', job], {
      PROMPTMILL_BASE_URL: service.url,
      ...store().env,
    });
    expect(code, stderr).toBe(0);
    expect(failed).toBe(FAILURES);
    expect(work.records('out.csv').map(({ id, status }) => [id, status])).toEqual(
      Array.from({ length: ROWS }, (_, i) => [String(i + 1), 'completed']),
    );
    // It says the same of all rows, so plain calls ask it whether they are the cause.
    const plain = service.calls(PLAIN);
    expect(plain).toBeGreaterThan(0);
    const sent = service.requests.length;
    expect(sent).toBe(ROWS + FAILURES + answeredPlain);
    const { calls } = JSON.parse(work.read('out.summary.json'));
    expect(calls).toEqual({ sent, retried: sent - ROWS - plain, rate_limited: 0, repeated: 0 });
    task.meta.fault = { rows: ROWS, calls: service.requests.length, repeated: calls.repeated };
  }, 600_000);

  it('fault 20: and has many calls in flight fails no more rows than tell that it is down', async () => {
    isBack = () => service.calls(PLAIN) > 2;
    const job = work.job({
      service: serviceOn(store()),
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: 40, attempts: 1 },
    });
    const { code, stderr } = await work.call(['run', job], {
      PROMPTMILL_BASE_URL: service.url,
      PROMPTMILL_QUEUE: store().target,
      PROMPTMILL_STATE_DIR: store().stateDir,
    });
    expect(code, stderr).toBeLessThanOrEqual(1);
    const statuses = work.records('out.csv').map(({ status }) => status);
    expect(statuses.length).toBe(ROWS);
    expect(statuses.filter((status) => status !== 'completed').length).toBeLessThan(10);
    expect(failed, 'calls in flight').toBeGreaterThan(20);
  }, 600_000);
});
