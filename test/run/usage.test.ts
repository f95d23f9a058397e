import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SERVICES } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';

/** Wrong usage beyond the mistakes of beginners (`test/commands/mistakes.test.ts`). */
describe('wrong usage', () => {
  const work = new Workplace();
  let job = '';
  beforeAll(() => {
    job = work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' } });
  });
  afterAll(() => work.remove());

  const base = { PROMPTMILL_BASE_URL: 'http://127.0.0.1:9' };

  async function refused(
    args: readonly string[],
    env: Readonly<Record<string, string>> = base,
  ): Promise<string> {
    const { code, stdout, stderr } = await work.call(args, env);
    expect(code, stderr).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).not.toMatch(/^ +at /m);
    expect(stderr.trim().split('\n').length, stderr).toBeLessThanOrEqual(3);
    return stderr;
  }

  const variant = (name: string, change: object): string =>
    work.job({ input: { path: 'rows.csv' }, output: { path: 'out.csv' }, ...change }, `${name}.yaml`);

  it('fault 57: a key that a header cannot carry, which is not shown', async () => {
    const message = await refused(['run', job], { ...base, PROMPTMILL_API_KEY: 'secret\nkey' });
    expect(message).toContain('PROMPTMILL_API_KEY');
    expect(message).not.toContain('secret');
  });

  it('a finished output, unless it is to be replaced', async () => {
    const service = await startScriptedService();
    try {
      const env = { PROMPTMILL_BASE_URL: service.url };
      const again = variant('again', { output: { path: 'again.csv' } });
      expect((await work.call(['run', again], env)).code).toBe(0);
      expect(await refused(['run', again], env)).toContain('--overwrite');
      expect((await work.call(['run', again, '--overwrite'], env)).code).toBe(0);
      expect(service.requests.length).toBe(6);
    } finally {
      await service.close();
    }
  });

  it.each(SERVICES)(
    'fault 26: a service of $operation that cannot be reached shows only at the first call: exit 3',
    async (service) => {
      const unreachable = variant('unreachable', { service, output: { path: `${service.operation}.csv` } });
      const { code, stderr } = await work.call(['run', unreachable], base);
      expect(code, stderr).toBe(3);
      expect(stderr).toContain('cannot reach the service');
      expect(stderr).toContain('PROMPTMILL_BASE_URL');
      expect(stderr).not.toMatch(/^ +at /m);
    },
  );
});
