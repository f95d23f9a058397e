import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ComposeProcesses } from '../support/compose-processes.js';
import { Workplace } from '../support/promptmill.js';
import { haveRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

const ROWS = 120;
const SECRETS = {
  'api-key': 'compose-key-for-tests',
  'api-key-2': '',
  'redis-password': 'compose-redis-password',
  'dashboard-password': 'compose-dashboard-password',
};

if (!haveRedis()) {
  describeMissing('the services of docker-compose.yml', 'redis-server');
} else {
  describe('the services of docker-compose.yml, as processes', () => {
    const work = new Workplace();
    let services: ComposeProcesses;
    beforeAll(async () => {
      services = await ComposeProcesses.prepare(work, (port) => ({
        ...SECRETS,
        queue: `redis://:${SECRETS['redis-password']}@127.0.0.1:${port}`,
      }));
    });
    afterAll(async () => {
      await services.end();
      work.remove();
    });

    const job = (): string =>
      work.job(
        {
          name: 'reviews',
          input: { path: work.rows(ROWS) },
          parameters: { max_tokens: 5 },
          output: { path: 'out/reviews.csv' },
          schedule: { cron: '0 2 1 1 *' },
        },
        'jobs/reviews.yaml',
      );

    it('become healthy one after the other, and none before it is there', async () => {
      job();
      services.start('redis');
      await services.healthy('redis');
      services.start('emulator');
      await services.healthy('emulator');
      expect(await services.isHealthy('work')).toBe(false);
      services.start('work');
      await services.healthy('work');
      expect(await services.isHealthy('serve')).toBe(false);
      services.start('serve');
      await services.healthy('serve');
    });

    it('answer a run, and the metrics count what its summary counts', async () => {
      const env = services.environmentOf('serve');
      const { code, stderr } = await work.run(['run', 'jobs/reviews.yaml', '--no-work'], {
        ...env,
        PROMPTMILL_API_KEY: '',
      });
      expect(code, stderr).toBe(0);
      expect(work.records('out/reviews.csv').map(({ id }) => Number(id))).toEqual(
        Array.from({ length: ROWS }, (_, i) => i + 1),
      );
      const summary = work.json('out/reviews.summary.json');
      expect(summary).toMatchObject({ rows: { total: ROWS } });
      const metrics = await metricsOfTheEnd();
      expect(metrics('promptmill_rows_total', 'outcome')).toEqual(
        pick(summary['rows'], ['completed', 'filtered', 'failed', 'skipped']),
      );
      expect(metrics('promptmill_run_calls_total', 'what')).toEqual(summary['calls']);
      const { prompt_tokens, completion_tokens } = pick(summary['usage'], [
        'prompt_tokens',
        'completion_tokens',
      ]);
      expect(metrics('promptmill_tokens_total', 'kind')).toEqual({
        prompt: prompt_tokens,
        completion: completion_tokens,
      });
    });

    it('show the dashboard to nobody without the password out of its file', async () => {
      const { status } = await fetch(`http://127.0.0.1:${services.ports.serve}/metrics`);
      expect(status).toBe(401);
    });

    it('end well when they are told to, and have said no secret', async () => {
      for (const { code, stdout, stderr } of await services.stop()) {
        expect(code, stderr).toBe(0);
        for (const secret of Object.values(SECRETS).filter(Boolean))
          expect(stdout + stderr).not.toContain(secret);
      }
    });

    /** The metrics once they say that the run has finished: the values of one, by one of its labels. */
    async function metricsOfTheEnd() {
      const login = Buffer.from(`promptmill:${SECRETS['dashboard-password']}`).toString('base64');
      const text = await vi.waitFor(
        async () => {
          const response = await fetch(`http://127.0.0.1:${services.ports.serve}/metrics`, {
            headers: { authorization: `Basic ${login}` },
          });
          const body = await response.text();
          expect(body).toMatch(/^promptmill_run_state\{.*state="finished".*\} 1$/m);
          return body;
        },
        { timeout: 60_000, interval: 200 },
      );
      return (name: string, label: string): Record<string, number> => {
        const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`));
        return Object.fromEntries(
          lines.map((line) => [
            new RegExp(`${label}="([^"]*)"`).exec(line)?.[1] ?? line,
            Number(line.split(' ').at(-1)),
          ]),
        );
      };
    }
  });
}

function pick(from: unknown, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(Object(from)).filter(([name]) => names.includes(name)));
}
