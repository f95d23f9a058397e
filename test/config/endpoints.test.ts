import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readEnvironment } from '../../src/config/environment.js';
import { readJobFile } from '../../src/config/job-file.js';
import { settle } from '../../src/config/settings.js';
import { service } from '../../src/library/service.js';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-endpoints-'));
afterAll(() => rmSync(folder, { recursive: true }));

const WEST = '{ name: west, base_url: "https://a.example", deployment: d1, key: WEST_KEY }';
const EAST = '{ name: east, base_url: "https://b.example/v1", deployment: d2, key: EAST_KEY, style: openai }';

function jobOf(lines: string, env: NodeJS.ProcessEnv = {}) {
  const path = join(folder, 'job.yaml');
  writeFileSync(path, `input: { path: a.csv }\n${lines}`);
  return readJobFile(path, readEnvironment(env, null));
}

const served = async (lines: string, env: NodeJS.ProcessEnv, work = true) => {
  const environment = readEnvironment(env, null);
  const settings = settle(jobOf(lines, env), environment, { work, queue: 'redis://here' });
  return (await service(settings, environment, () => {})).endpoints;
};

function said(of: () => unknown): string {
  try {
    of();
  } catch (error) {
    return String((error as Error).message).replaceAll(`${folder}/`, '');
  }
  return '';
}

describe('several endpoints', () => {
  it('are a list, each with its own place, quota and prices', () => {
    const priced = EAST.replace('}', ', requests_per_minute: 60, prices: { prompt: 1, completion: 2 } }');
    const job = jobOf(
      `service:\n  route: in_order\n  endpoints:\n    - ${WEST}\n    - ${priced}\nprices: { prompt: 3, completion: 4 }\n`,
    );
    const { endpoints, route, limits, prices } = settle(job, readEnvironment({}, null), {});
    expect(route).toBe('in_order');
    expect(
      endpoints.map(({ spec, key, baseUrl, quota, prices: own }) => [spec.name, key, baseUrl, quota, own]),
    ).toEqual([
      [
        'west',
        'WEST_KEY',
        'https://a.example',
        { requestsPerMinute: null, tokensPerMinute: null },
        { prompt: 3, completion: 4 },
      ],
      [
        'east',
        'EAST_KEY',
        'https://b.example/v1',
        { requestsPerMinute: 60, tokensPerMinute: null },
        { prompt: 1, completion: 2 },
      ],
    ]);
    expect(limits.requestsPerMinute, 'known for all only').toBeNull();
    expect(prices, 'not the same for all').toBeNull();
  });

  it('have prices in one currency', () => {
    const inCurrency = (endpoint: string, currency: string) =>
      endpoint.replace('}', `, prices: { prompt: 1, completion: 2, currency: ${currency} } }`);
    const settled = (...currencies: readonly [string, string]) => {
      const [west, east] = [inCurrency(WEST, currencies[0]), inCurrency(EAST, currencies[1])];
      return settle(
        jobOf(`service:\n  endpoints:\n    - ${west}\n    - ${east}\n`),
        readEnvironment({}, null),
        {},
      );
    };
    expect(settled('EUR', 'EUR').currency).toBe('EUR');
    expect(said(() => settled('EUR', 'USD'))).toBe(
      'the prices of service.endpoints are in EUR and USD, and costs are added up',
    );
    expect(said(() => settled('EUR', 'euro'))).toContain('must be three capital letters, such as EUR');
  });

  it('have a quota that is the sum of theirs', () => {
    const job = jobOf(
      `service:\n  endpoints:\n    - ${WEST.replace('}', ', requests_per_minute: 600 }')}\n    - ${EAST.replace('}', ', requests_per_minute: 60 }')}\n`,
    );
    expect(job.limits.requestsPerMinute).toBe(660);
  });

  it('have their keys from the environment, also from a file, and a run without one of them does not begin', async () => {
    const file = join(folder, 'key');
    writeFileSync(file, 'from-a-file\n');
    const lines = `service: { endpoints: [${WEST}, ${EAST}] }\n`;
    const both = await served(lines, { WEST_KEY: 'w', EAST_KEY_FILE: file });
    expect(both.map(({ name, keys, address }) => [name, keys.current(), address.baseUrl])).toEqual([
      ['west', 'w', 'https://a.example'],
      ['east', 'from-a-file', 'https://b.example/v1'],
    ]);
    await expect(served(lines, { WEST_KEY: 'w' })).rejects.toThrow('EAST_KEY is not set');
    const idle = await served(lines, { WEST_KEY: 'w' }, false);
    expect(
      idle.map(({ keys }) => keys.current()),
      'a run that makes no calls has no key',
    ).toEqual([null, null]);
  });

  it.each([
    [
      `${WEST}, ${WEST}`,
      'service.endpoints.1.name must be another than that of an earlier endpoint, got "west"',
    ],
    [
      WEST.replace('name: west', 'name: constructor'),
      'service.endpoints.0.name is a reserved word: take another name, got "constructor"',
    ],
    [
      WEST.replace(', key: WEST_KEY', ''),
      'service.endpoints.0.key is missing: add a line such as key: WEST_KEY',
    ],
    [
      WEST.replace('WEST_KEY', 'sk-secret'),
      'service.endpoints.0.key must be the name of an environment variable in capital letters, such as WEST_KEY',
    ],
    [
      WEST.replace('WEST_KEY', `"$\{WEST_KEY}"`),
      'service.endpoints.0.key must be the name of an environment variable in capital letters, such as WEST_KEY',
    ],
    [
      WEST.replace('key: WEST_KEY', 'api_key: sk-secret, key: A'),
      'unknown field service.endpoints.0.api_key: write key, with the name of the environment variable that holds it',
    ],
    [
      WEST.replace('https://a.example', 'a.example'),
      'service.endpoints.0.base_url is no http or https address, got a.example',
    ],
    [
      WEST.replace('https://a.example', 'https://me:hidden@a.example'),
      'service.endpoints.0.base_url must not hold a user name or password, got https://a.example',
    ],
    [
      WEST.replace('base_url', 'base_ulr'),
      'unknown field service.endpoints.0.base_ulr: did you mean service.endpoints.0.base_url?',
    ],
    [
      `${WEST}, ${EAST.replace('style', 'operation: talk, style')}`,
      'service.endpoints.1.operation must be completions or chat, got "talk"',
    ],
    ['', 'service.endpoints must be a list of at least 1, got []'],
  ])('a bad one is named with its line: %s', (endpoints, message) => {
    expect(said(() => jobOf(`service: { endpoints: [${endpoints}] }\n`))).toContain(`job.yaml:2: ${message}`);
    expect(said(() => jobOf(`service: { endpoints: [${endpoints}] }\n`))).not.toMatch(/secret|hidden/);
  });

  it.each([
    [
      'deployment: d',
      'service.deployment cannot stand beside service.endpoints: write it at each of them, got "d"',
    ],
    [
      'style: openai',
      'service.style cannot stand beside service.endpoints: write it at each of them, got "openai"',
    ],
    ['route: cheapest', 'service.route must be balance or in_order, got "cheapest"'],
  ])('what belongs to one of them stands at it: %s', (field, message) => {
    expect(said(() => jobOf(`service: { endpoints: [${WEST}], ${field} }\n`))).toBe(`job.yaml:2: ${message}`);
  });

  it.each([
    [
      'limits: { requests_per_minute: 5 }',
      'limits.requests_per_minute cannot stand beside service.endpoints: write it at each of them, got 5',
    ],
    [
      'answer: { labels: [a, b], on_invalid: { deployment: d3 } }',
      'answer.on_invalid.deployment must be one of service.endpoints: west, got "d3"',
    ],
    [`x: "$\{WEST_KEY}"`, 'x names WEST_KEY, which holds a key or a password'],
    [`x: "$\{SAME}"`, 'x names SAME, which holds a key or a password'],
  ])('what cannot stand beside them is refused: %s', (line, message) => {
    const lines = `service: { endpoints: [${WEST}] }\n${line}\n`;
    const env = { WEST_KEY: 'secret', SAME: 'secret' };
    expect(said(() => jobOf(lines, env))).toContain(`job.yaml:3: ${message}`);
    expect(said(() => jobOf(lines, env))).not.toContain('"secret"');
  });

  const both = `${WEST}, ${EAST.replace('style', 'operation: chat, style')}`;
  it.each([
    ['parameters: { temperature: 0 }', 'parameters.max_tokens must be given where the endpoints have both'],
    ['parameters: { max_tokens: 5, seed: 1 }', 'parameters.seed cannot be set where the endpoints have both'],
    [
      'parameters: { max_tokens: 5, logprobs: 5 }',
      'parameters.logprobs cannot be set where the endpoints have both',
    ],
    ['parameters: { max_tokens: 5 }, system: Judge.', 'system needs service: { operation: chat } at each'],
    [
      'parameters: { max_tokens: 5 }, row_parameters: [best_of]',
      'entry 1 of row_parameters cannot be set where',
    ],
  ])('of both operations take what means the same to both: %s', (fields, message) => {
    const lines = fields.replace('}, ', '}\n');
    expect(said(() => jobOf(`service: { endpoints: [${both}] }\n${lines}\n`))).toContain(message);
  });

  it('of both operations have the parameters of each', () => {
    const job = jobOf(
      `service: { endpoints: [${both}] }\nparameters: { max_tokens: 5 }\nanswer: { labels: [a, b], confidence: logprobs }\n`,
    );
    expect(job.parametersByOperation).toEqual({
      completions: { max_tokens: 5, logprobs: 5, temperature: 0 },
      chat: { max_tokens: 5, logprobs: true, top_logprobs: 5, temperature: 0 },
    });
  });

  it('a route needs several', () => {
    expect(said(() => jobOf('service: { deployment: d, route: in_order }\n'))).toBe(
      'job.yaml:2: service.route needs service.endpoints, got "in_order"',
    );
  });
});
