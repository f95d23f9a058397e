import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readJobFile } from '../../src/config/job-file.js';
import { jobJsonSchema } from '../../src/config/job-schema.js';
import { UsageError } from '../../src/core/errors.js';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-job-'));
afterAll(() => rmSync(folder, { recursive: true }));

const MINIMAL = 'service: { deployment: lm-35-turbo-instruct }\ninput: { path: reviews.csv }\n';

function job(text: string, name = 'job.yaml') {
  const path = join(folder, name);
  writeFileSync(path, text);
  return readJobFile(path);
}

function problem(text: string): string {
  try {
    job(text);
  } catch (error) {
    if (error instanceof UsageError) return error.message.replaceAll(`${folder}/`, '');
    throw error;
  }
  throw new Error('the job was accepted');
}

describe('a job file', () => {
  it('needs only a deployment and an input, and is named after its file', () => {
    const read = job(MINIMAL, 'nightly-reviews.yaml');
    expect(read.name).toBe('nightly-reviews');
    expect(read.endpoint).toEqual({
      name: 'lm-35-turbo-instruct',
      operation: 'completions',
      deployment: 'lm-35-turbo-instruct',
      apiVersion: '2023-09-15-preview',
      style: 'deployments',
      timeoutMs: 120_000,
    });
    expect(read.limits).toMatchObject({ concurrency: 'auto', attempts: 6 });
    expect(read.output).toEqual({ formulas: 'protect', probabilities: false, columns: null });
  });

  it('takes the api version as text, quoted or not', () => {
    const version = (text: string) =>
      job(`service: { deployment: d, api_version: ${text} }\ninput: { path: a.csv }`).endpoint.apiVersion;
    expect(version('2022-12-01')).toBe('2022-12-01');
    expect(version('"2022-12-01"')).toBe('2022-12-01');
  });

  it('names the line of an unknown field and the nearest known one', () => {
    expect(problem(`${MINIMAL}limits:\n  concurency: 5\n`)).toBe(
      'job.yaml:4: unknown field limits.concurency: did you mean limits.concurrency?',
    );
  });

  it('names every problem with its line', () => {
    expect(problem('service: { deployment: d }\nlimits: { attempts: 0 }\n').split('\n')).toEqual([
      'job.yaml:1: input is missing: add a line such as input: { path: reviews.csv }',
      'job.yaml:2: limits.attempts must be a whole number from 1 to 100, got 0',
    ]);
  });

  it('names the range of a parameter and the value received', () => {
    expect(problem(`${MINIMAL}parameters: { temperature: 3 }\n`)).toBe(
      'job.yaml:3: parameters.temperature must be between 0 and 2, got 3',
    );
  });

  it('says what is wrong with a schedule, and what a hook lacks', () => {
    expect(problem(`${MINIMAL}schedule: { cron: "0 2 * *", timezone: Europe/Berln }\n`).split('\n')).toEqual([
      expect.stringMatching(/^job\.yaml:3: schedule\.cron needs five fields .*; it has 4, got "0 2 \* \*"$/),
      expect.stringMatching(/^job\.yaml:3: schedule\.timezone .*did you mean Europe\/Berlin\?/),
    ]);
    expect(problem(`${MINIMAL}on_finish: { timeout: 5m }\n`)).toContain(
      'on_finish needs a command or a post',
    );
    expect(problem(`${MINIMAL}on_finish: { post: "https://example.com/hook" }\n`)).toContain(
      'on_finish.post must be the name of an environment variable',
    );
  });

  it('takes a model that it knows behind a deployment of any name', () => {
    const model = (name: string): string =>
      `service: { deployment: d, model: ${name} }\ninput: { path: a.csv }\n`;
    expect(job(model('text-davinci-003')).endpoint.model).toBe('text-davinci-003');
    expect(problem(model('lm-9'))).toBe(
      'job.yaml:1: service.model must be lm-35-turbo-instruct, text-davinci-003, lm-35-turbo, lm-35-turbo-16k, lm-4 or lm-4-32k, or be left away for any other, got "lm-9"; did you mean lm-4?',
    );
    expect(problem(model('lm-4'))).toContain('service.model is a conversation model, and the job calls');
    expect(problem(model('35'))).toContain(
      'service.model must be lm-35-turbo-instruct, text-davinci-003, lm-35-turbo, lm-35-turbo-16k, lm-4 or lm-4-32k, or be left away for any other, got 35',
    );
  });

  it('refuses a budget of money without prices', () => {
    const limits = 'limits: { budget: { tokens: 9, cost: 25 } }\n';
    expect(problem(`${MINIMAL}${limits}`)).toBe(
      'job.yaml:3: limits.budget.cost needs prices, without which tokens have no cost, got 25: add a line such as ' +
        'prices: { prompt: 0.0015, completion: 0.002 }',
    );
    const { budget } = job(`${MINIMAL}${limits}prices: { prompt: 1, completion: 2 }\n`).limits;
    expect(budget).toEqual({ tokens: 9, cost: 25 });
  });

  it('says where YAML itself is broken', () => {
    expect(problem('service: { deployment: d\ninput: [')).toMatch(/^job\.yaml:\d: not valid YAML: /);
  });

  it('explains an answer that is neither labels nor json', () => {
    expect(problem(`${MINIMAL}answer: { label: [a, b] }\n`)).toMatch(/^job\.yaml:3: .*answer/);
    expect(problem(`${MINIMAL}answer: { labels: [one] }\n`)).toContain('must name at least two labels');
  });

  it('says which file is missing', () => {
    expect(() => readJobFile('samples/reviews.csv')).toThrow(
      'samples/reviews.csv is data by its name, and a job is a YAML file',
    );
    expect(() => readJobFile('jobs/none.yaml')).toThrow('no job file jobs/none.yaml');
  });

  it('reads a job in JSON, which is YAML', () => {
    const text = '{"service": {"deployment": "d"}, "input": {"path": "reviews.csv"}}';
    expect(job(text, 'moods.json')).toMatchObject({ name: 'moods', endpoint: { deployment: 'd' } });
  });

  it('names the one that was most likely meant', () => {
    expect(() => readJobFile('jobs/sentiment.yml')).toThrow(
      'no job file jobs/sentiment.yml; did you mean jobs/sentiment.yaml?',
    );
    expect(() => readJobFile('jobs/none.yaml')).not.toThrow(/did you mean/);
    expect(() => readJobFile('nowhere/none.yaml')).not.toThrow(/did you mean/);
  });
});

describe('the schema for editors', () => {
  it('is current: `npm run schema` writes it', () => {
    const file = new URL('../../docs/job.schema.json', import.meta.url);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(JSON.parse(JSON.stringify(jobJsonSchema())));
  });

  it('describes every field', () => {
    const undescribed: string[] = [];
    const walk = (schema: unknown, path: string): void => {
      if (typeof schema !== 'object' || schema === null) return;
      const properties: unknown = Reflect.get(schema, 'properties');
      for (const [name, value] of Object.entries(properties ?? {})) {
        if (typeof value === 'object' && value !== null && !('description' in value))
          undescribed.push(`${path}${name}`);
        walk(value, `${path}${name}.`);
      }
    };
    walk(jobJsonSchema(), '');
    expect(undescribed).toEqual([]);
  });
});
