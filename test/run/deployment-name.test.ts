import { afterAll, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';

describe('a deployment of a name of its own', () => {
  const work = new Workplace();
  afterAll(() => work.remove());
  work.rows(3);

  const job = (name: string, service: object): string =>
    work.job({ service, input: { path: 'rows.csv' }, output: { path: `${name}.csv` } }, `${name}.yaml`);

  it('rehearses as the model to assume, which is said, or as service.model says', async () => {
    const assumed = await work.call(['run', job('assumed', { deployment: 'prod/reviews 2' }), '--emulate']);
    expect(assumed.code, assumed.stderr).toBe(0);
    expect(assumed.stderr).toContain(
      'the emulator answers for prod/reviews 2 as lm-35-turbo-instruct would; service.model names another model',
    );
    const named = job('named', { deployment: 'reviews', model: 'text-davinci-003', style: 'openai' });
    const { code, stderr } = await work.call(['run', named, '--emulate']);
    expect(code, stderr).toBe(0);
    expect(stderr).not.toContain('the emulator answers for');
    const models = ['assumed', 'named'].map((name) =>
      work.records(`${name}.emulated.csv`).map(({ model }) => model),
    );
    expect(models).toEqual([
      Array(3).fill('emulator:lm-35-turbo-instruct'),
      Array(3).fill('emulator:text-davinci-003'),
    ]);
  });

  it('is checked with the tokenizer and the context window of service.model', async () => {
    const file = job('checked', { deployment: 'lm-4', model: 'text-davinci-003' });
    const { code, stdout, stderr } = await work.call(['check', file, '--json']);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      deployment: 'lm-4',
      tokens: { tokenizer: 'p50k_base', tokenizer_assumed: false, context_window: 4097 },
    });
  });
});
