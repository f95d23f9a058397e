import { afterAll, expect, it } from 'vitest';
import { serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';
import './figures.js';

const ROWS = 400;
/**
 * Calls that are refused, whatever the rate: one in eighty. The numbers of calls between them differ by more than the
 * calls in flight, which may count before or after a refusal.
 */
const REFUSED = new Set([13, 90, 130, 260, 320]);

describeOn('embedded', 'a service that refuses by chance', (store) => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it('fault 79: single 429s cost their pause, and no rate is taken from them', async ({ task }) => {
    const service = await startScriptedService(({ total }) =>
      REFUSED.has(total)
        ? {
            status: 429,
            headers: { 'retry-after': '1' },
            json: { error: { code: '429', message: 'Rate limit is exceeded. Try again in 1 seconds.' } },
          }
        : {},
    );
    try {
      const job = work.job({
        service: serviceOn(store()),
        input: { path: work.rows(ROWS) },
        output: { path: 'out.csv' },
        limits: { concurrency: 20 },
      });
      const { code, stderr } = await work.run(['run', job, '--log-level', 'info'], {
        PROMPTMILL_BASE_URL: service.url,
        ...store().env,
      });
      expect(code, stderr).toBe(0);
      expect(work.records('out.csv').every(({ status }) => status === 'completed')).toBe(true);
      expect(service.calls()).toBe(ROWS + REFUSED.size);
      expect(stderr).toContain('the service asked to wait');
      expect(stderr).not.toContain('"reason":"refused"');
      task.meta.fault = { rows: ROWS, calls: service.calls() };
    } finally {
      await service.close();
    }
  });
});
