import { expect, it } from 'vitest';
import { parseJob } from '../../src/config/job-file.js';
import { readSet, withFields } from '../../src/config/set-fields.js';
import { UsageError } from '../../src/core/errors.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';

const TEXT = `service: { deployment: lm-35-turbo-instruct }
input: { path: reviews.csv }
parameters: &own { temperature: 0 }
`;
const jobWith = (...set: string[]) => parseJob(TEXT, 'job.yaml', undefined, set);

function problem(...set: string[]): string {
  try {
    jobWith(...set);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  throw new Error('the job was accepted');
}

it.each([
  ['parameters.temperature=0.7', ['parameters', 'temperature'], 0.7],
  ['prompt=Is it {{ a }}: yes or no?', ['prompt'], 'Is it {{ a }}: yes or no?'],
  ['prompt={{ a }}', ['prompt'], '{{ a }}'],
  ['answer.labels=[a, b]', ['answer', 'labels'], ['a', 'b']],
  ['answer.json={type: object}', ['answer', 'json'], { type: 'object' }],
  ['service.api_version=2023-09-15-preview', ['service', 'api_version'], '2023-09-15-preview'],
  ['parameters.stop="1"', ['parameters', 'stop'], '1'],
  ['input.dedupe=true', ['input', 'dedupe'], true],
  ['limits.deadline=null', ['limits', 'deadline'], undefined],
  ['prompt=', ['prompt'], ''],
  ['prompt=a=b', ['prompt'], 'a=b'],
])('reads --set %s', (text, path, value) => {
  expect(readSet(text)).toEqual({ text, path, value });
});

it('sets, adds and takes out fields, and leaves what it was given as it is', () => {
  const shared = { x: 1 };
  const content = { a: shared, b: shared, list: [{ name: 'west' }, { name: 'east' }] };
  const fields = ['a.x=2', 'c.d=3', 'list.1.name=north', 'b=null'].map(readSet);
  expect(withFields(content, fields)).toEqual({
    a: { x: 2 },
    c: { d: 3 },
    list: [{ name: 'west' }, { name: 'north' }],
  });
  expect(content).toEqual({ a: { x: 1 }, b: { x: 1 }, list: [{ name: 'west' }, { name: 'east' }] });
});

it('gives a job other values, and the last one holds', () => {
  const job = jobWith('parameters.temperature=0.5', 'parameters.temperature=0.7', 'limits.attempts=3');
  expect(job.parameters).toMatchObject({ temperature: 0.7 });
  expect(job.limits.attempts).toBe(3);
  expect(job.set).toHaveLength(3);
});

it.each([
  ['parameters.temprature=1', '--set parameters.temprature=1: '],
  ['parameters.temprature=1', 'temperature'],
  ['limits.attempts=many', '--set limits.attempts=many: limits.attempts must be'],
  ['input=null', '--set input=null: input is missing'],
  ['input.path.x=1', '--set input.path.x=1: input.path is "reviews.csv", and has no fields'],
  ['temperature', '--set temperature: it has the form path=value'],
  ['=1', 'it has the form path=value'],
  ['a..b=1', 'it has the form path=value'],
  ['__proto__.x=1', 'it has the form path=value'],
])('says what is wrong with --set %s', (set, message) => {
  expect(problem(set)).toContain(message);
});

it('says which entries a list has', () => {
  const set = [readSet('list.2=c'), readSet('list.x=c')];
  for (const each of set) expect(() => withFields({ list: ['a', 'b'] }, [each])).toThrow(/has no entry/);
});

const place = scriptedPlace();

it('a retry and a check of an output know with which values it was made', async () => {
  place.work.rows(3);
  const job = place.work.job({
    input: { path: 'rows.csv' },
    answer: { labels: ['yes', 'no'] },
    output: { path: 'out.csv' },
  });
  place.script = ({ prompt }) => ({
    json: completionBody({ text: prompt.startsWith('other') ? 'no' : 'yes' }),
  });
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  const set = ['--set', 'prompt=other {{ id }}', '--set', 'parameters.max_tokens=3'];
  const run = await place.work.call(['run', job, ...set], env);
  expect(run.code, run.stderr).toBe(0);
  expect(JSON.parse(place.work.read('out.summary.json')).job_set).toEqual([
    'prompt=other {{ id }}',
    'parameters.max_tokens=3',
  ]);
  const retry = await place.work.call(['retry', 'out.csv', '--row', '2'], env);
  expect(retry.code, retry.stderr).toBe(0);
  expect(place.service.calls('other 2')).toBe(2);
  expect(place.work.records('out.csv').map(({ answer }) => answer)).toEqual(['no', 'no', 'no']);
  const named = await place.work.call(['retry', 'out.csv', '--row', '2', '--job', job], env);
  expect(named.code, named.stderr).toBe(0);
  expect(place.work.records('out.csv').map(({ answer }) => answer)).toEqual(['no', 'yes', 'no']);
});
