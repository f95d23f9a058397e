import { expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';

describeEachStore('two runs of one deployment name in one store', (store) => {
  it('do not touch each other when they have different services, and one of them stops', async () => {
    const work = new Workplace();
    const good = await startScriptedService();
    const bad = await startScriptedService(() => ({
      status: 401,
      json: { statusCode: 401, message: 'no' },
    }));
    const job = (name: string): string =>
      work.job(
        {
          input: { path: work.rows(60) },
          prompt: `${name} {{ id }}`,
          output: { path: `${name}.csv` },
          limits: { concurrency: 4 },
        },
        `${name}.yaml`,
      );
    const env = (url: string) => ({ PROMPTMILL_BASE_URL: url, ...store().env });
    try {
      const [fine, stopped] = await Promise.all([
        work.run(['run', job('good')], env(good.url)),
        work.call(['run', job('bad')], env(bad.url)),
      ]);
      expect(fine.code, fine.stderr).toBe(0);
      expect(stopped.code, stopped.stderr).toBe(3);
      expect(good.requests.length).toBe(60);
      expect(good.requests.every(({ prompt }) => prompt.startsWith('good'))).toBe(true);
      expect(bad.requests.every(({ prompt }) => prompt.startsWith('bad'))).toBe(true);
    } finally {
      await good.close();
      await bad.close();
      work.remove();
    }
  });
});
