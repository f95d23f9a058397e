import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readEnvironment } from '../../src/config/environment.js';

describe('a secret in a file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-secret-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string, content: string): string => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const read = (env: Readonly<Record<string, string>>) => readEnvironment(env, join(folder, 'no-dotenv'));

  it('is its content without the white space around it', () => {
    const env = read({
      PROMPTMILL_API_KEY_FILE: file('one', 'key one\n'),
      PROMPTMILL_API_KEY_2_FILE: file('two', '  key-two\r\n'),
      PROMPTMILL_QUEUE_FILE: file('queue', 'redis://:secret@redis:6379\n'),
    });
    expect(env).toMatchObject({ keys: ['key one', 'key-two'], queue: 'redis://:secret@redis:6379' });
  });

  it('may be named in the .env file', () => {
    const dotenv = file('.env', `PROMPTMILL_API_KEY_FILE=${file('named', 'from afar')}\n`);
    expect(readEnvironment({}, dotenv).keys).toEqual(['from afar']);
  });

  it('counts as not set when the file is empty', () => {
    const empty = file('empty', '\n');
    expect(read({ PROMPTMILL_API_KEY_2_FILE: empty, PROMPTMILL_QUEUE_FILE: empty })).toMatchObject({
      keys: [],
      queue: 'embedded',
    });
  });

  it('is refused beside the variable itself, and neither is shown', () => {
    const path = file('hidden', 'in-the-file');
    const both = { PROMPTMILL_API_KEY: 'in-the-variable', PROMPTMILL_API_KEY_FILE: path };
    const error = thrown(() => read(both));
    expect(error).toMatchObject({
      code: 'secret_given_twice',
      exit: 2,
      message: 'PROMPTMILL_API_KEY and PROMPTMILL_API_KEY_FILE are both set',
    });
    expect(JSON.stringify(error)).not.toMatch(/in-the-/);
  });

  it.each([
    ['is not there', join(folder, 'none')],
    ['is a folder', folder],
  ])('is refused when its file %s, by the name of the variable', (_, path) => {
    expect(thrown(() => read({ PROMPTMILL_QUEUE_FILE: path }))).toMatchObject({
      code: 'secret_unreadable',
      exit: 2,
      message: expect.stringContaining('PROMPTMILL_QUEUE_FILE'),
      hint: expect.stringContaining(path),
    });
  });

  it('is meant only where there is a secret', () => {
    expect(read({ PROMPTMILL_BASE_URL_FILE: file('url', 'https://x.example') }).baseUrl).toBeUndefined();
  });
});

function thrown(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
