import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readEnvironment } from '../../src/config/environment.js';
import { parseJob } from '../../src/config/job-file.js';
import { settle } from '../../src/config/settings.js';
import { Workplace } from '../support/promptmill.js';

const SHARED =
  'dear: { prompt: 0.03, completion: 0.06 }\nlm-35-turbo-instruct: { prompt: 0.0015, completion: 0.002 }\n';

describe('a file with prices that jobs share', () => {
  let work: Workplace;
  beforeEach(() => {
    work = new Workplace();
    work.write('prices.yaml', SHARED);
  });
  afterEach(() => work.remove());

  const pricesFor = (service: string, file = 'prices.yaml') =>
    settle(
      {
        ...parseJob(
          `service: ${service}\ninput: { path: in.csv }\nprompt: x\nprices: ${work.path(file)}\nlimits: { budget: { cost: 5 } }\n`,
          'nightly.yaml',
        ),
      },
      readEnvironment({}, '/no/such/file'),
      {},
    ).prices;

  it('has those of the deployment, else those of its model', () => {
    expect(pricesFor('{ deployment: dear }')).toEqual({ prompt: 0.03, completion: 0.06 });
    expect(pricesFor('{ deployment: west, model: lm-35-turbo-instruct }')).toEqual({
      prompt: 0.0015,
      completion: 0.002,
    });
    expect(pricesFor('{ deployment: dear, model: lm-35-turbo-instruct }')?.prompt).toBe(0.03);
  });

  it('refuses a deployment that it does not know, with the nearest one', () => {
    expect(() => pricesFor('{ deployment: deer }')).toThrow(
      expect.objectContaining({
        code: 'prices_unknown',
        message: `${work.path('prices.yaml')} has no prices of deer, which nightly.yaml calls; did you mean dear?`,
      }),
    );
  });

  it.each([
    ['not there', null, 'does not exist'],
    ['no group', '- 1\n', 'prices.yaml:1: '],
    ['a negative price', 'dear: { prompt: -1, completion: 0 }', 'prices.yaml:1: dear.prompt must be'],
    [
      'a price too few',
      'a: { prompt: 1, completion: 1 }\ndear: { prompt: 1 }',
      ':2: dear.completion is missing',
    ],
    ['a name too many', 'dear: { prompt: 1, completion: 1, output: 2 }', 'output'],
    ['no YAML', 'dear: {', 'not valid YAML'],
    [
      'a name twice',
      'dear: { prompt: 1, completion: 1 }\ndear: { prompt: 1, completion: 1 }',
      'a second time',
    ],
  ])('is refused where it is %s, with its place', (_, content, message) => {
    if (content !== null) work.write('other.yaml', content);
    const refused = () => pricesFor('{ deployment: dear }', content === null ? 'missing.yaml' : 'other.yaml');
    expect(refused).toThrow(message.replace('prices.yaml', 'other.yaml'));
  });

  it('prices what a check quotes, which shows them', async () => {
    work.write('in.csv', 'id\n1\n2\n');
    const job = work.job({
      input: { path: 'in.csv' },
      prices: 'prices.yaml',
      parameters: { max_tokens: 10 },
    });
    const { stdout, stderr } = await work.call(['check', job, '--json']);
    const { cost, tokens, prices } = JSON.parse(stdout);
    expect(prices).toEqual({ prompt: 0.0015, completion: 0.002 });
    expect(stderr).toContain('1,000 tokens: prompt 0.0015, completion 0.002\n');
    expect(cost.most).toBeCloseTo((tokens.prompt_tokens * 0.0015 + 20 * 0.002) / 1000, 6);
  });
});
