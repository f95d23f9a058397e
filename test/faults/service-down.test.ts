import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { freePort } from '../support/servers.js';
import { describeOn } from '../support/stores.js';
import './figures.js';

const ROWS = 600;
const CONCURRENCY = 10;
/** How long nothing listens: long enough for some probes. */
const DOWN_MS = 12_000;

describeOn('embedded', 'a service that is down', (store) => {
  let work: Workplace;
  const services: ScriptedService[] = [];

  beforeEach(() => {
    work = new Workplace();
  });
  afterEach(async () => {
    for (const service of services.splice(0)) await service.close();
    work.remove();
  });

  const env = (url: string): Record<string, string> => ({ PROMPTMILL_BASE_URL: url, ...store().env });

  it('fault 20: and refuses connections is waited for; no row fails, and few calls probe it', async ({
    task,
  }) => {
    let isDown = (): void => {};
    const down = new Promise<void>((resolve) => {
      isDown = resolve;
    });
    const answer = async () => {
      if (before.requests.length === 200) isDown();
      return {};
    };
    const before = await startScriptedService(answer, undefined, await freePort());
    const job = work.job({
      service: serviceOn(store()),
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, attempts: 2 },
    });
    const running = work.start(['run', job], env(before.url));
    await down;
    await before.close();
    // The outage itself.
    await sleep(DOWN_MS);
    const after = await startScriptedService(() => ({}), undefined, Number(new URL(before.url).port));
    services.push(after);
    const { code, stderr } = await running.ended;

    expect(code, stderr).toBe(0);
    const summary = work.json('out.summary.json');
    expect(summary).toMatchObject({ rows: { total: ROWS, completed: ROWS, failed: 0 } });
    expect(work.records('out.csv').map((record) => record['id'])).toEqual(
      Array.from({ length: ROWS }, (_, i) => String(i + 1)),
    );
    const calls = before.requests.length + after.requests.length;
    const { sent, repeated } = summary['calls'] as { sent: number; repeated: number };
    task.meta.fault = { rows: ROWS, calls, repeated };
    expect(sent - calls, 'calls while nobody listened').toBeLessThan(40);
    expect(calls).toBeLessThanOrEqual(ROWS + CONCURRENCY);
    expect(repeated).toBeGreaterThanOrEqual(calls - ROWS);
    expect(stderr).toMatch(
      /waiting since \d\d:\d\d:\d\d: the connection was refused: 127\.0\.0\.1.*next call at/,
    );
  });

  it('fault 20: and stays down ends the run with what to do, and the same command goes on', async () => {
    const service = await startScriptedService(({ total }) =>
      total <= 50 ? {} : { status: 503, json: { error: { code: '503', message: 'maintenance' } } },
    );
    const job = work.job({
      service: serviceOn(store()),
      input: { path: work.rows(200) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, give_up_after: '8s' },
    });
    const { code, stderr } = await work.call(['run', job], env(service.url));
    await service.close();
    expect(code, stderr).toBe(3);
    expect(stderr.replace(/\s+/g, ' ')).toContain(
      'service_unavailable: nothing was answered for 8 s: maintenance (HTTP 503)',
    );
    expect(stderr).toContain('Resume with:');

    const mended = await startScriptedService(() => ({}));
    services.push(mended);
    const finished = await work.call(['run', job], env(mended.url));
    expect(finished.code, finished.stderr).toBe(0);
    expect(mended.requests.length).toBe(150);
  });
});
