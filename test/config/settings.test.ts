import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readEnvironment } from '../../src/config/environment.js';
import { jobSchema } from '../../src/config/job-schema.js';
import { type RunFlags, settle } from '../../src/config/settings.js';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-env-'));
afterAll(() => rmSync(folder, { recursive: true }));

const none = join(folder, 'no-such-file');

function settings(flags: RunFlags = {}, env: NodeJS.ProcessEnv = {}, job: object = {}) {
  const parsed = jobSchema.parse({ service: { deployment: 'd' }, input: { path: 'in/rows.csv' }, ...job });
  return settle({ ...parsed, name: 'job' }, readEnvironment(env, none), flags);
}

describe('settings', () => {
  it('let flags win over the environment, and the environment over defaults', () => {
    expect(settings().queue).toBe('embedded');
    expect(settings({}, { PROMPTMILL_QUEUE: 'redis://a' }).queue).toBe('redis://a');
    expect(settings({ queue: 'redis://b' }, { PROMPTMILL_QUEUE: 'redis://a' }).queue).toBe('redis://b');
  });

  it('let flags win over the job file, and the job file over defaults', () => {
    expect(settings().limits).toMatchObject({ concurrency: 100, untilAnswered: 20, chunkSize: 20 });
    expect(settings({}, {}, { limits: { concurrency: 7 } }).limits).toMatchObject({
      concurrency: 7,
      untilAnswered: 7,
    });
    expect(settings({ concurrency: 'auto' }, {}, { limits: { concurrency: 7 } }).limits.concurrency).toBe(
      100,
    );
    expect(settings({ concurrency: 9 }, {}, { limits: { concurrency: 7 } }).limits.concurrency).toBe(9);
  });

  it('write to out/<job> with the kind of the input unless told otherwise', () => {
    expect(settings().output).toMatchObject({ path: 'out/job.csv', format: { name: 'csv' } });
    expect(settings({ input: 'rows.jsonl.gz' }).output).toMatchObject({
      path: 'out/job.jsonl',
      format: { name: 'jsonl' },
    });
    expect(settings({ output: '-' }).output).toMatchObject({ path: '-', format: { name: 'csv' } });
    const piped = settings({ input: 'rows.jsonl' }, {}, { output: { path: '-' } });
    expect(piped.output).toMatchObject({ path: '-', format: { name: 'jsonl' } });
  });

  it('say what is done with answers that do not fit, where anything is', () => {
    const onInvalid = (said?: object) =>
      settings({}, {}, { answer: { json: {}, ...(said && { on_invalid: said }) } });
    expect(onInvalid().onInvalid).toBeNull();
    expect(onInvalid({ repair: false, ask_again: 0 }).onInvalid).toBeNull();
    const { answer, onInvalid: mended } = onInvalid({ repair: true });
    expect(answer).toEqual({ kind: 'json', schema: {}, repair: true });
    expect(mended).toEqual({ repair: true, askAgain: 0, prompt: null, deployment: null });
    const asked = { ask_again: 2, prompt: '{{ prompt }}', deployment: 'e' };
    expect(onInvalid(asked).answer).toEqual({ kind: 'json', schema: {} });
    expect(onInvalid(asked).onInvalid).toEqual({
      ...{ repair: false, askAgain: 2 },
      ...{ prompt: '{{ prompt }}', deployment: 'e' },
    });
  });

  it('say of an answer only what the job says', () => {
    const answer = (said: object) => settings({}, {}, { answer: said }).answer;
    const plain = { kind: 'labels', labels: ['good', 'bad'] };
    expect(answer({ labels: ['good', 'bad'] })).toEqual(plain);
    expect(answer({ labels: { good: [], bad: null } })).toEqual(plain);
    expect(answer({ labels: { good: ['fine', 'ok'], bad: null }, multiple: true })).toEqual({
      ...plain,
      synonyms: [['fine', 'ok'], []],
      multiple: true,
    });
    expect(answer({ number: {} })).toEqual({ kind: 'number' });
    const range = { min: 0, max: 5, integer: true };
    expect(answer({ number: range })).toEqual({ kind: 'number', ...range });
  });

  it('refuse an output of unknown kind, a format and a log level that do not exist', () => {
    expect(() => settings({ output: 'out.xlsx' })).toThrow(
      'output must end in .csv or .jsonl, each also with .gz, got out.xlsx',
    );
    expect(() => settings({ format: 'xml' })).toThrow('--format must be csv, tsv or jsonl, got xml');
    expect(() => settings({ logLevel: 'loud' })).toThrow('got loud');
  });

  it('keep chunks small where little runs at once', () => {
    expect(settings({ concurrency: 1 }).limits.chunkSize).toBe(1);
    expect(settings({ concurrency: 20 }).limits.chunkSize).toBe(20);
    expect(settings({ concurrency: 500 }).limits.chunkSize).toBe(100);
    const limits = { concurrency: 3, prompts_per_request: 20 };
    expect(settings({}, {}, { limits }).limits.chunkSize).toBe(60);
  });
});

describe('the environment', () => {
  it('is read over the .env file, and an empty variable counts as not set', () => {
    const path = join(folder, '.env');
    writeFileSync(path, 'PROMPTMILL_BASE_URL=https://file.example\nPROMPTMILL_API_KEY="from file"\n');
    const env = readEnvironment({ PROMPTMILL_BASE_URL: 'https://env.example', PROMPTMILL_API_KEY: '' }, path);
    expect(env.baseUrl).toBe('https://env.example');
    expect(env.keys).toEqual(['from file']);
  });

  it('does not write the .env file into the environment of the process', () => {
    const path = join(folder, '.env');
    writeFileSync(path, 'PROMPTMILL_API_KEY_2=only-in-the-file\n');
    readEnvironment(process.env, path);
    expect(process.env['PROMPTMILL_API_KEY_2']).toBeUndefined();
  });
});
