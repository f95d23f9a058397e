import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

const ROWS = 30;

let work: Workplace;
let emulator: Emulator;
afterEach(async () => {
  await emulator.close();
  work.remove();
});
const begin = async (options: EmulatorOptions): Promise<void> => {
  work = new Workplace();
  emulator = await startEmulator(options);
};

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
const envOf = (queue: string) => ({
  PROMPTMILL_BASE_URL: emulator.url,
  PROMPTMILL_API_KEY: String(emulator.keys[0]),
  PROMPTMILL_QUEUE: queue,
  PROMPTMILL_STATE_DIR: work.path('state'),
});

describe('a run under a quota, embedded', () => {
  it('that nobody tells is found out, every row is answered, and the log says why the pace changed', async () => {
    await begin({ quota: { requestsPerMinute: 300 }, quotaHeaders: false });
    const { code, stderr } = await work.call(
      ['run', job('found', {}), '--log-level', 'info'],
      envOf('embedded'),
    );
    expect(code, stderr).toBe(0);
    const changes = stderr
      .split('\n')
      .filter((line) => line.includes('the pace changed'))
      .map((line) => JSON.parse(line));
    expect(changes).toContainEqual(
      expect.objectContaining({ reason: 'refused', calls_per_minute: expect.any(Number) }),
    );
    expect(emulator.stats().answered).toBe(ROWS);
  });
});

if (haveRedis()) {
  describe('a run under a quota, on Redis', () => {
    let server: Server;
    beforeAll(async () => {
      server = await startRedis();
    });
    afterAll(() => server.stop());

    it('two runs of one deployment share the quota that their jobs say; hardly a call is refused, and no row fails', async () => {
      await begin({ quota: { requestsPerMinute: 600 } });
      const limits = { requests_per_minute: 600 };
      const ended = await Promise.all([
        work.run(['run', job('one', limits)], envOf(server.url)),
        work.call(['run', job('two', limits)], envOf(server.url)),
      ]);
      for (const { code, stderr } of ended) {
        expect(code, stderr).toBe(0);
        expect(stderr).not.toContain('does not keep');
      }
      const { answered, rate_limited } = emulator.stats();
      expect(answered).toBe(2 * ROWS);
      // Two that did not know of each other would be refused every second call. A call that a busy machine delays for
      // long can fall into the next window.
      expect(rate_limited.requests).toBeLessThanOrEqual((2 * ROWS) / 4);
    });
  });
} else {
  describeMissing('a run under a quota, on Redis', 'redis-server or valkey-server');
}
