import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

const ROWS = 80;
const QUOTA = { requestsPerMinute: 600 };

const suite = (queue: () => string): void => {
  let work: Workplace;
  let emulator: Emulator;
  beforeEach(async () => {
    work = new Workplace();
    emulator = await startEmulator({ quota: QUOTA });
  });
  afterEach(async () => {
    await emulator.close();
    work.remove();
  });

  const job = (name: string, limits: object): string =>
    work.job(
      {
        input: { path: work.rows(ROWS, `${name}.csv`) },
        prompt: `${name} {{ id }}: {{ note }}`,
        parameters: { max_tokens: 5 },
        output: { path: `${name}-out.csv` },
        limits: { concurrency: 20, ...limits },
      },
      `${name}.yaml`,
    );
  const run = (path: string, ...args: string[]) =>
    work.run(['run', path, ...args], {
      PROMPTMILL_BASE_URL: emulator.url,
      PROMPTMILL_API_KEY: emulator.keys[0],
      PROMPTMILL_QUEUE: queue(),
      PROMPTMILL_STATE_DIR: work.path('state'),
    });

  it('a quota in the job is kept: hardly a call is refused', async () => {
    const { code, stderr } = await run(job('kept', { requests_per_minute: 600 }));
    expect(code, stderr).toBe(0);
    expect(stderr).not.toContain('does not keep');
    const { answered, rate_limited } = emulator.stats();
    expect(answered).toBe(ROWS);
    // A call that a busy machine delays for long can fall into the next window.
    expect(rate_limited.requests).toBeLessThanOrEqual(ROWS / 16);
  }, 120_000);

  it('two runs of one deployment share its quota, and no row fails', async () => {
    const limits = { requests_per_minute: 600 };
    const ended = await Promise.all([run(job('one', limits)), run(job('two', limits))]);
    for (const { code, stderr } of ended) expect(code, stderr).toBe(0);
    const { answered, rate_limited } = emulator.stats();
    expect(answered).toBe(2 * ROWS);
    // Two that did not know of each other would be refused every second call.
    expect(rate_limited.requests).toBeLessThanOrEqual((2 * ROWS) / 16);
  }, 180_000);
};

describe('a run under a quota, embedded', () => suite(() => 'embedded'));

if (haveRedis()) {
  describe('a run under a quota, on Redis', () => {
    let server: Server;
    beforeAll(async () => {
      server = await startRedis();
    }, 60_000);
    afterAll(() => server.stop());
    suite(() => server.url);
  });
} else {
  describeMissing('a run under a quota, on Redis', 'redis-server or valkey-server');
}
