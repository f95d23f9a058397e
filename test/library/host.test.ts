import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { check, defineJob, run } from '../../src/index.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';

const place = scriptedPlace();
const job = defineJob({ service: { deployment: 'lm-35-turbo-instruct' }, prompt: '{{ id }}' });

const env = (): Record<string, string> => ({
  PROMPTMILL_BASE_URL: place.service.url,
  PROMPTMILL_API_KEY: 'a-key-for-tests-only',
  PROMPTMILL_STATE_DIR: place.work.path('state'),
});

/** A source that gives a row, then waits for ever, and knows what is done with it. */
class SilentSource implements AsyncIterable<{ id: number }> {
  pulls = 0;
  returns = 0;
  #waits: () => void = () => {};
  readonly waiting = new Promise<void>((resolve) => {
    this.#waits = resolve;
  });

  [Symbol.asyncIterator](): AsyncIterator<{ id: number }> {
    return {
      next: async () => {
        this.pulls++;
        if (this.pulls === 1) return { done: false, value: { id: 1 } };
        this.#waits();
        return new Promise(() => {});
      },
      return: async () => {
        this.returns++;
        return { done: true, value: undefined };
      },
    };
  }
}

const spools = (): string[] =>
  existsSync(place.work.path('state'))
    ? readdirSync(place.work.path('state')).filter((name) => name.startsWith('stdin-'))
    : [];

describe('fault 111: a host that is done while rows are read', () => {
  const ways: readonly (readonly [
    string,
    (source: SilentSource, abort: AbortController) => Promise<unknown>,
  ])[] = [
    [
      'aborts a run to a file',
      (rows, { signal }) => run(job, { rows, signal, env: env(), output: place.work.path('out.csv') }),
    ],
    ['aborts a check', (rows, { signal }) => check(job, { rows, signal, env: env() })],
    [
      'aborts a loop',
      (rows, { signal }) => run(job, { rows, signal, env: env() })[Symbol.asyncIterator]().next(),
    ],
  ];
  it.each(ways)('that %s has its source back at once', async (_, begin) => {
    const source = new SilentSource();
    const abort = new AbortController();
    const begun = begin(source, abort);
    await source.waiting;
    abort.abort(new Error('enough'));
    await expect(begun).rejects.toThrow('enough');
    expect([source.pulls, source.returns, spools()]).toEqual([2, 1, []]);
    expect(place.service.calls()).toBe(0);
  });

  it('that leaves the loop while its first row is waited for has its source back at once', async () => {
    const source = new SilentSource();
    const rows = run(job, { rows: source, env: env() })[Symbol.asyncIterator]();
    const first = rows.next();
    await source.waiting;
    await Promise.allSettled([rows.return?.(), first]);
    expect([source.pulls, source.returns, spools()]).toEqual([2, 1, []]);
  });

  it('that gives a row which is none has its source back at once', async () => {
    let returned = false;
    function* rows(): Generator<unknown> {
      try {
        yield { id: 1 };
        yield undefined;
        yield { id: 3 };
      } finally {
        returned = true;
      }
    }
    await expect(check(job, { rows: rows(), env: env() })).rejects.toThrow(
      'row 2 is undefined, and a row is an object',
    );
    expect(returned).toBe(true);
  });

  it('that aborts is left by the process without a handle', async () => {
    const script = `
      import { defineJob, run } from ${JSON.stringify(join(import.meta.dirname, '../../dist/index.js'))};
      const abort = new AbortController();
      async function* rows() { yield { id: 1 }; abort.abort(new Error('enough')); await new Promise(() => {}); }
      const job = defineJob({ service: { deployment: 'd' }, prompt: '{{ id }}' });
      await run(job, { rows: rows(), signal: abort.signal, output: 'out.csv' }).catch(({ message }) => console.log(message));
    `;
    const file = place.work.path(place.work.write('host.mjs', script));
    const { stdout } = await promisify(execFile)(process.execPath, [file], {
      cwd: place.work.folder,
      env: { ...env(), PATH: process.env['PATH'] },
    });
    expect(stdout).toBe('enough\n');
  });
});

describe('fault 111: a host that changes its folder', () => {
  const home = process.cwd();
  afterEach(() => process.chdir(home));

  it('finds output, state and input where they were when the run began', async () => {
    const { work } = place;
    work.rows(30);
    mkdirSync(work.path('elsewhere'));
    place.script = ({ total, prompt }) => {
      if (total === 5) process.chdir(work.path('elsewhere'));
      return { json: completionBody({ text: prompt }) };
    };
    process.chdir(work.folder);
    const { summary } = await run(job, {
      rows: 'rows.csv',
      output: 'out/answers.csv',
      env: { ...env(), PROMPTMILL_STATE_DIR: 'state' },
    });
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 30 }, calls: { sent: 30 } });
    expect(readFileSync(work.path('out/answers.csv'), 'utf8').split('\n')).toHaveLength(32);
    expect(readdirSync(work.path('elsewhere'))).toEqual([]);
  });
});
