import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';

/** Wrong usage of every kind a newcomer would commit: one or two lines that say what to do, and no stack. */
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

  it('no job', async () => {
    expect(await refused(['run'])).toContain("missing required argument 'job'");
    expect(await refused(['run', 'jobs/none.yaml'])).toContain('no job file jobs/none.yaml');
  });

  it('no command, or one that does not exist', async () => {
    expect(await refused(['rnu'])).toContain('there is no command rnu; did you mean run?');
  });

  it('an unknown option, with the nearest one', async () => {
    expect(await refused(['run', job, '--concurency', '3'])).toContain('--concurrency');
  });

  it('an option with a value that is no number', async () => {
    expect(await refused(['run', job, '--limit', 'ten'])).toContain('got ten');
  });

  it('an unknown field in the job file', async () => {
    const message = await refused(['run', variant('field', { promt: 'x' })]);
    expect(message).toMatch(/field\.yaml:\d+: unknown field promt: did you mean prompt\?/);
  });

  it('a column that the input does not have', async () => {
    const message = await refused(['run', variant('column', { prompt: 'row {{ note }} {{ nte }}' })]);
    expect(message).toContain('{{ nte }}');
    expect(message).toContain('{{ note }}');
  });

  it('an input that is not there', async () => {
    expect(await refused(['run', job, '--input', 'none.csv'])).toContain('none.csv');
  });

  it('no key', async () => {
    const message = await refused(['run', job], { ...base, PROMPTMILL_API_KEY: '' });
    expect(message).toContain('PROMPTMILL_API_KEY is not set');
  });

  it('fault 57: a key that a header cannot carry, which is not shown', async () => {
    const message = await refused(['run', job], { ...base, PROMPTMILL_API_KEY: 'secret\nkey' });
    expect(message).toContain('PROMPTMILL_API_KEY');
    expect(message).not.toContain('secret');
  });

  it('no address, or one that is none', async () => {
    expect(await refused(['run', job], {})).toContain('PROMPTMILL_BASE_URL is not set');
    expect(await refused(['run', job], { PROMPTMILL_BASE_URL: 'example' })).toContain('example');
  });

  it('a conversation model', async () => {
    const message = await refused(['run', variant('model', { service: { deployment: 'lm-4' } })]);
    expect(message).toContain('conversation model');
    expect(message).toContain('lm-35-turbo-instruct');
  });

  it('a temperature of 3', async () => {
    const message = await refused(['run', variant('warm', { parameters: { temperature: 3 } })]);
    expect(message).toContain('parameters.temperature must be between 0 and 2, got 3');
  });

  it('a queue that is none, or does not answer', async () => {
    expect(await refused(['run', job, '--queue', 'mysql://x'])).toContain('mysql://x');
    expect(await refused(['run', job, '--queue', 'redis://127.0.0.1:9'])).toContain('redis://127.0.0.1:9');
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

  it('fault 26: a service that cannot be reached shows only at the first call: exit 3', async () => {
    const unreachable = variant('unreachable', { output: { path: 'unreachable.csv' } });
    const { code, stderr } = await work.call(['run', unreachable], base);
    expect(code, stderr).toBe(3);
    expect(stderr).toContain('cannot reach the service');
    expect(stderr).toContain('PROMPTMILL_BASE_URL');
    expect(stderr).not.toMatch(/^ +at /m);
  });
});
