import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Disturbance, disturbanceNamed } from '../../src/emulator/disturbance.js';
import { startEmulator } from '../../src/emulator/server.js';
import './figures.js';
import { SERVICES } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';

const REVIEWS = join(import.meta.dirname, '../../samples/reviews.csv');

function named(name: string): Disturbance {
  const fault = disturbanceNamed(name);
  if (fault === null) throw new Error(`the emulator knows no fault ${name}`);
  return fault;
}

describe('a rehearsal with faults, a filter and a quota', () => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it.for(SERVICES)(
    'fault 20: ends with one record a row, only real refusals fail, and the counts are those of the service ($operation)',
    async (service, { task }) => {
      const emulator = await startEmulator({
        quota: { requestsPerMinute: 3_000 },
        filter: { prompts: { rate: 0.03 } },
        faults: [
          { fault: named('500'), rate: 0.02 },
          { fault: named('reset'), rate: 0.01 },
          { fault: named('truncate'), rate: 0.01 },
        ],
      });
      try {
        const output = `${service.operation}.csv`;
        const job = work.job({
          service,
          input: { path: REVIEWS, require: ['review'] },
          prompt: 'Is this review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
          parameters: { max_tokens: 5, temperature: 0 },
          output: { path: output },
        });
        const { code, stderr } = await work.call(['run', job], {
          PROMPTMILL_BASE_URL: emulator.url,
          PROMPTMILL_API_KEY: emulator.keys[0],
        });

        expect(code, stderr).toBe(0);
        const stats = emulator.stats();
        expect(stats.by_fault).toMatchObject({ 500: expect.any(Number), reset: expect.any(Number) });
        expect(work.records(output).length).toBe(348);
        const faults = Object.values(stats.by_fault).reduce((sum, count) => sum + count, 0);
        const { rows, usage, calls } = JSON.parse(work.read(`${service.operation}.summary.json`));
        expect(rows).toEqual({
          total: 348,
          completed: stats.answered,
          filtered: stats.filtered.prompts,
          failed: 0,
          skipped: 10,
        });
        expect(usage).toMatchObject(stats.usage);
        expect(calls).toEqual({
          sent: stats.requests,
          retried: faults,
          rate_limited: stats.rate_limited.requests,
          repeated: (stats.by_fault['reset'] ?? 0) + (stats.by_fault['truncate'] ?? 0),
        });
        task.meta.fault = { rows: rows.total, calls: stats.requests, repeated: calls.repeated };
      } finally {
        await emulator.close();
      }
    },
  );
});
