import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import './figures.js';
import { SERVICES } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { chatBody, completionBody, startScriptedService } from '../support/scripted-service.js';

const MB = 1024 * 1024;
const TIMEOUT = 300_000;

/** Sends 100 MB as fast as they are read. Resolves with the MB that were taken when the connection is closed. */
async function pour(response: ServerResponse): Promise<number> {
  const closed = once(response, 'close').then(() => 'closed');
  const piece = Buffer.alloc(MB, 'x');
  for (let sent = 0; sent < 100; sent++) {
    if (response.destroyed) return sent;
    if (!response.write(piece) && (await Promise.race([once(response, 'drain'), closed])) === 'closed')
      return sent;
  }
  response.end();
  return 100;
}

describe.each(SERVICES)('a service of $operation that exceeds itself, in a run on embedded', (called) => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it(
    'fault 28: a response of 100 MB is cut off, counted, and asked for again',
    async ({ task }) => {
      let calls = 0;
      let poured: Promise<number> | null = null;
      const service = createServer((request, response) => {
        request.resume().on('end', () => {
          calls++;
          if (calls === 2) poured = pour(response);
          else response.end(JSON.stringify(called.operation === 'chat' ? chatBody() : completionBody()));
        });
      }).listen(0, '127.0.0.1');
      await once(service, 'listening');
      const address = service.address();
      const port = typeof address === 'object' ? address?.port : 0;
      try {
        const limits = { concurrency: 1, attempts: 2 };
        const job = work.job({
          service: called,
          input: { path: work.rows(4) },
          output: { path: 'large.csv' },
          limits,
        });
        const { code, stderr } = await work.call(['run', job], {
          PROMPTMILL_BASE_URL: `http://127.0.0.1:${port}`,
        });
        expect(code, stderr).toBe(0);
        expect(
          work
            .records('large.csv')
            .map(({ attempts }) => attempts)
            .sort(),
        ).toEqual(['1', '1', '1', '2']);
        expect(calls).toBe(5);
        // 16 MB are read; the rest is what the system keeps between the two ends.
        expect(await poured).toBeLessThan(60);
        const summary = JSON.parse(work.read('large.summary.json'));
        expect(summary.calls).toEqual({ sent: 5, retried: 1, rate_limited: 0, repeated: 1 });
        task.meta.fault = { rows: 4, calls, repeated: summary.calls.repeated };
      } finally {
        service.closeAllConnections();
        service.close();
      }
    },
    TIMEOUT,
  );

  it(
    'fault 29: when its capacity halves, no row fails, and no more calls are refused at a time than are in flight',
    async ({ task }) => {
      const ROWS = 120;
      const CONCURRENCY = 8;
      /** Calls refused in each episode: from the first refusal until a second later, as its hint asks. */
      const episodes: number[] = [];
      let admitted = 0;
      let until = 0;
      const service = await startScriptedService(({ total }) => {
        const now = performance.now();
        if (now >= until && admitted >= (total < 60 ? 20 : 10)) {
          until = now + 1_000;
          admitted = 0;
          episodes.push(0);
        }
        if (now >= until) {
          admitted++;
          return {};
        }
        episodes.push((episodes.pop() ?? 0) + 1);
        return {
          status: 429,
          headers: { 'retry-after': '1' },
          json: { error: { code: '429', message: 'slow' } },
        };
      });
      try {
        const job = work.job({
          service: called,
          input: { path: work.rows(ROWS, 'many.csv') },
          output: { path: 'halved.csv' },
          limits: { concurrency: CONCURRENCY, chunk_size: 10, attempts: 1 },
        });
        const { code, stderr } = await work.call(['run', job], { PROMPTMILL_BASE_URL: service.url });
        expect(code, stderr).toBe(0);
        expect(
          work
            .records('halved.csv')
            .every(({ status, attempts }) => status === 'completed' && attempts === '1'),
        ).toBe(true);
        expect(episodes.length).toBeGreaterThan(5);
        expect(Math.max(...episodes)).toBeLessThanOrEqual(CONCURRENCY);
        const { calls } = JSON.parse(work.read('halved.summary.json'));
        expect(calls).toMatchObject({ sent: service.requests.length, retried: 0, repeated: 0 });
        expect(service.requests.length).toBe(ROWS + episodes.reduce((sum, refused) => sum + refused, 0));
        task.meta.fault = { rows: ROWS, calls: service.requests.length, repeated: calls.repeated };
      } finally {
        await service.close();
      }
    },
    TIMEOUT,
  );
});
