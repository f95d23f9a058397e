import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { haveRedis, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import './figures.js';

const ROWS = 1_000_000;
const PROMPTS = 500;

/** Answers requests of many prompts, and keeps no more of them than their number. */
async function startCountingService() {
  let calls = 0;
  let prompts = 0;
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const { prompt } = JSON.parse(Buffer.concat(pieces).toString());
    const count = Array.isArray(prompt) ? prompt.length : 1;
    calls++;
    prompts += count;
    const choices = Array.from({ length: count }, (_, index) => ({
      text: 'x',
      index,
      finish_reason: 'stop',
    }));
    const usage = { prompt_tokens: count, completion_tokens: count, total_tokens: 2 * count };
    response.end(JSON.stringify({ id: 'cmpl-x', model: 'm', choices, usage }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    counted: () => ({ calls, prompts }),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function writeRows(path: string): Promise<void> {
  const file = createWriteStream(path);
  file.write('id\n');
  for (let first = 1; first <= ROWS; first += 1_000) {
    const lines = Array.from({ length: 1_000 }, (_, i) => `${first + i}\n`).join('');
    if (!file.write(lines)) await once(file, 'drain');
  }
  file.end();
  await once(file, 'close');
}

if (!haveRedis()) {
  describeMissing('a million rows on redis', 'redis-server or valkey-server');
} else {
  describe('a million rows on redis', () => {
    it('fault 16: are answered in order in a heap that has no room for them', async ({ task }) => {
      const work = new Workplace();
      const [redis, service] = await Promise.all([startRedis(), startCountingService()]);
      try {
        await writeRows(work.path('rows.csv'));
        const job = work.job({
          input: { path: 'rows.csv' },
          prompt: '{{ id }}',
          output: { path: 'out.csv', columns: ['id', 'status', 'answer'] },
          limits: { concurrency: 8, prompts_per_request: PROMPTS },
        });
        const { code, stderr } = await work.run(['run', job, '--quiet'], {
          PROMPTMILL_BASE_URL: service.url,
          PROMPTMILL_QUEUE: redis.url,
          // A million rows as objects are several times as much.
          NODE_OPTIONS: '--max-old-space-size=160',
        });
        expect(code, stderr).toBe(0);
        let records = -1;
        for await (const line of createInterface({ input: createReadStream(work.path('out.csv')) })) {
          if (records >= 0 && line !== `${records + 1},completed,x`)
            expect.fail(`record ${records + 1} is ${line}`);
          records++;
        }
        expect(records).toBe(ROWS);
        const { calls, prompts } = service.counted();
        expect(prompts).toBe(ROWS);
        const summary = JSON.parse(work.read('out.summary.json'));
        expect(summary.calls).toEqual({ sent: calls, retried: 0, rate_limited: 0, repeated: 0 });
        task.meta.fault = { rows: records, calls, repeated: summary.calls.repeated };
      } finally {
        await service.close();
        await redis.stop();
        work.remove();
      }
    }, 1_200_000);
  });
}
