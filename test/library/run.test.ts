import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import {
  compare,
  defineJob,
  type RunEvent,
  type RunProgress,
  retry,
  run,
  StopError,
  startEmulator,
  UsageError,
} from '../../src/index.js';
import { RunLease } from '../../src/resume/lease.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type Script, startScriptedService } from '../support/scripted-service.js';
import { withResolvers } from '../support/with-resolvers.js';

const KEY = 'a-key-for-tests-only';
const service = { deployment: 'lm-35-turbo-instruct' };
const work = new Workplace();
afterAll(() => work.remove());

/** The environment of one caller. */
const environment = (url: string, key = KEY): Record<string, string> => ({
  PROMPTMILL_BASE_URL: url,
  PROMPTMILL_API_KEY: key,
  PROMPTMILL_STATE_DIR: work.path('state'),
});

function* numbered(count: number): Generator<{ id: number }> {
  for (let id = 1; id <= count; id++) yield { id };
}

async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const row of rows) found.push(row);
  return found;
}

async function scripted(
  script: Script,
  body: (url: string, calls: () => number) => Promise<void>,
): Promise<void> {
  const scriptedService = await startScriptedService(script);
  try {
    await body(scriptedService.url, () => scriptedService.calls());
  } finally {
    await scriptedService.close();
  }
}

const echo: Script = ({ prompt }) => ({ json: completionBody({ text: ` ${prompt}` }) });

describe('rows that go to the caller', () => {
  const job = defineJob({ service, prompt: '{{ id }}', limits: { concurrency: 20 } });

  it('come in input order, with what was asked and what was answered, out of any iterable', async () => {
    await scripted(echo, async (url) => {
      const env = environment(url);
      const rows = await all(run(job, { rows: numbered(60), env }));
      expect(rows.map(({ row, input, status, answer }) => [row, input, status, answer])).toEqual(
        Array.from({ length: 60 }, (_, i) => [i + 1, { id: i + 1 }, 'completed', String(i + 1)]),
      );
      async function* later() {
        yield* numbered(3);
      }
      const results = run(job, { rows: later(), env });
      expect((await all(results)).map(({ answer }) => answer)).toEqual(['1', '2', '3']);
      expect(await results.summary).toMatchObject({ stopped: null, rows: { total: 3, completed: 3 } });
    });
  });

  it('hold the run back while nobody reads them', async () => {
    await scripted(echo, async (url, calls) => {
      let idle = 0;
      let before = 0;
      const { promise: rest, resolve: resting } = withResolvers();
      // Two pulses in which nothing is called and nothing was.
      const onProgress = ({ inFlight, known }: RunProgress): void => {
        idle = inFlight === 0 && known > 0 && calls() === before ? idle + 1 : 0;
        before = calls();
        if (idle === 2) resting();
      };
      const rows = run(job, { rows: numbered(600), ahead: 50, env: environment(url), onProgress });
      const reader = rows[Symbol.asyncIterator]();
      expect((await reader.next()).value?.row).toBe(1);
      await rest;
      // Nothing is written meanwhile, and workers take rows only of a run whose lease is kept.
      const kept = vi.spyOn(RunLease.prototype, 'keep');
      await vi.waitFor(() => expect(kept).toHaveBeenCalled(), 10_000);
      kept.mockRestore();
      // What was taken, what waits to be taken, and the window behind it, each at most 50 rows and the rest of a chunk.
      expect(calls()).toBeLessThanOrEqual(3 * 69);
      const others = [];
      for (let next = await reader.next(); !next.done; next = await reader.next())
        others.push(next.value.row);
      expect(others).toEqual(Array.from({ length: 599 }, (_, i) => i + 2));
      expect(calls()).toBe(600);
    });
  });

  it('have no summary before the first is asked for, also where the loop is left before it', async () => {
    const results = run(job, { rows: numbered(3), env: environment('http://127.0.0.1:1') });
    await expect(results.summary).rejects.toMatchObject({ code: 'not_begun' });
    await results[Symbol.asyncIterator]().return?.();
    await expect(results.summary).rejects.toThrow(/begins when its first row is asked for/);
  });

  it('end the run where the loop is left', async () => {
    await scripted(echo, async (url, calls) => {
      const env = environment(url);
      const results = run(job, { rows: numbered(2_000), ahead: 100, env });
      for await (const { row } of results) if (row === 5) break;
      expect((await results.summary).stopped).toBe('interrupted: by AbortSignal');
      expect(calls()).toBeLessThan(500);
      expect(existsSync(work.path('state/store/lock'))).toBe(false);
    });
  });

  it('end with an error where the run stops early, behind those that it has', async () => {
    const script: Script = ({ prompt }) =>
      Number(prompt) > 40
        ? { status: 401, json: { statusCode: 401, message: 'no' } }
        : echo({ prompt } as never);
    await scripted(script, async (url) => {
      const seen: number[] = [];
      const results = run(job, { rows: numbered(100), env: environment(url), concurrency: 1 });
      const reading = (async () => {
        for await (const { row } of results) seen.push(row);
      })();
      const error = await reading.catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(StopError);
      expect(seen).toEqual(Array.from({ length: seen.length }, (_, i) => i + 1));
      expect((await results.summary).stopped).toContain((error as StopError).code);
    });
  });

  it('end with the reason of the signal', async () => {
    await scripted(echo, async (url) => {
      const aborting = new AbortController();
      const reason = new Error('enough');
      const options = { rows: numbered(2_000), ahead: 100, env: environment(url), signal: aborting.signal };
      const reading = (async () => {
        for await (const { row } of run(job, options)) if (row === 5) aborting.abort(reason);
      })();
      await expect(reading).rejects.toBe(reason);
      await expect(all(run(job, options))).rejects.toBe(reason);
    });
  });
});

describe('a run into a file', () => {
  const job = defineJob({ service, prompt: '{{ id }}', limits: { concurrency: 4, chunk_size: 4 } });

  it('stops in order when it is aborted, and the same call goes on with it', async () => {
    const aborting = new AbortController();
    // However long the first commit takes, there are rows left at it.
    const aborted = once(aborting.signal, 'abort');
    const waiting: Script = async (request) => {
      if (Number(request.prompt) > 60) await aborted;
      return echo(request);
    };
    await scripted(waiting, async (url, calls) => {
      const options = { rows: numbered(120), env: environment(url), output: work.path('aborted.csv') };
      const onEvent = (event: RunEvent): void => {
        if (event.type === 'committed') aborting.abort();
      };
      const stopped = await run(job, { ...options, signal: aborting.signal, onEvent });
      expect(stopped.summary.stopped).toBe('interrupted: by AbortSignal');
      expect(stopped.summary.rows.total).toBeLessThan(120);
      expect(existsSync(options.output)).toBe(false);

      const ended = await run(job, { ...options, rows: numbered(120) });
      expect(ended.summary).toMatchObject({ stopped: null, rows: { total: 120, completed: 120 } });
      expect(work.records('aborted.csv').map(({ answer }) => Number(answer))).toEqual(
        Array.from({ length: 120 }, (_, i) => i + 1),
      );
      expect(calls()).toBe(120);
      await expect(run(job, { ...options, rows: numbered(120) })).rejects.toMatchObject({
        code: 'output_exists',
        hint: expect.stringContaining('overwrite'),
      });
    });
  });

  it('is mended by retry, with the same job and rows, and compared', async () => {
    const script: Script = (request) =>
      request.prompt === '3' && request.count === 1
        ? { status: 400, json: { error: { message: 'not now' } } }
        : echo(request);
    await scripted(script, async (url, calls) => {
      const env = environment(url);
      const output = work.path('mended.csv');
      const { summary } = await run(job, { rows: numbered(5), env, output });
      expect(summary.rows).toMatchObject({ total: 5, failed: 1 });
      const mended = await retry(output, { job, rows: numbered(5), env });
      expect(mended).toMatchObject({ retried: 1, summary: { rows: { total: 5, completed: 5, failed: 0 } } });
      expect(work.records('mended.csv').map(({ answer }) => answer)).toEqual(['1', '2', '3', '4', '5']);
      expect(calls()).toBe(6);
      expect(await compare(output, output)).toMatchObject({ rows: 5, changed: 0, agreement: 1 });
      await expect(retry(output, { env })).rejects.toMatchObject({ code: 'job_unknown' });
    });
  });

  it('takes the first rows of a file, and later those that were appended', async () => {
    await scripted(echo, async (url, calls) => {
      const rows = work.path(work.write('growing.csv', 'id\n1\n2\n'));
      const options = { rows, env: environment(url), output: work.path('extended.jsonl') };
      expect((await run(job, { ...options, limit: 1 })).beyond).toBe(1);
      await run(job, options);
      work.write('growing.csv', 'id\n1\n2\n3\n');
      expect((await run(job, { ...options, extend: true })).summary.rows.completed).toBe(3);
      expect(work.lines('extended.jsonl').map(({ answer }) => answer)).toEqual(['1', '2', '3']);
      expect(calls()).toBe(3);
    });
  });

  it('says what stopped it, when that was the service', async () => {
    await scripted(
      () => ({ status: 401, json: { statusCode: 401, message: 'no' } }),
      async (url) => {
        const { summary } = await run(job, {
          rows: numbered(5),
          env: environment(url),
          output: work.path('no.csv'),
        });
        expect(summary.stopped).toMatch(/401/);
      },
    );
  });

  it('tells how it gets on, and ends with what a callback throws', async () => {
    await scripted(echo, async (url) => {
      const env = environment(url);
      const events: RunEvent[] = [];
      const progress: RunProgress[] = [];
      await run(job, {
        ...{ rows: numbered(30), env, output: work.path('told.jsonl') },
        onEvent: (event) => events.push(event),
        onProgress: (now) => progress.push(now),
      });
      expect(events[0]).toMatchObject({ type: 'run started', total: 30, committed: 0 });
      expect(events.filter(({ type }) => type === 'call ended').length).toBe(30);
      expect(progress.at(-1)).toMatchObject({ total: 30, known: 30, written: 30, failed: 0, waiting: null });

      const mistake = new Error('a mistake in the callback');
      const failing = run(job, {
        ...{ rows: numbered(30), env, output: work.path('mistake.jsonl') },
        onEvent: () => {
          throw mistake;
        },
      });
      await expect(failing).rejects.toBe(mistake);
    });
  });
});

describe('a run in a program', () => {
  const spies = { stdout: process.stdout, stderr: process.stderr };
  beforeEach(() => {
    for (const stream of Object.values(spies)) vi.spyOn(stream, 'write');
  });
  afterEach(() => vi.restoreAllMocks());

  it('prints nothing, and leaves no listener, no variable and no open file behind', async () => {
    const listeners = () => process.eventNames().map((name) => [name, process.listenerCount(name)]);
    const job = defineJob({ service: { deployment: 'mine' }, prompt: 'Is it good? {{ id }}' });
    const options = {
      rows: numbered(5),
      env: environment(''),
      emulate: true,
      output: work.path('quiet.csv'),
    };
    await run(job, options);
    const before = { listeners: listeners(), env: { ...process.env } };
    await run(job, { ...options, rows: numbered(5), overwrite: true });
    expect({ listeners: listeners(), env: { ...process.env } }).toEqual(before);
    for (const { write } of Object.values(spies)) expect(write).not.toHaveBeenCalled();
  });

  it('goes beside another of the same deployment, with a service and keys of its own', async () => {
    const job = defineJob({ service, prompt: 'Is it good? {{ id }}', answer: { labels: ['yes', 'no'] } });
    const emulators = await Promise.all(
      ['first', 'second'].map((name) => startEmulator({ keys: [`${name}-key-1`, `${name}-key-2`] })),
    );
    try {
      const runs = emulators.map(({ url, keys: [key] }, i) =>
        run(job, {
          ...{ rows: numbered(20 + i), env: environment(url, key) },
          output: work.path(`beside-${i}.csv`),
        }),
      );
      const [first, second] = await Promise.all(runs);
      expect(first?.summary).toMatchObject({ stopped: null, rows: { total: 20, completed: 20 } });
      expect(second?.summary).toMatchObject({ stopped: null, rows: { total: 21, completed: 21 } });
      expect(emulators.map((each) => each.stats().requests)).toEqual([20, 21]);
    } finally {
      await Promise.all(emulators.map((each) => each.close()));
    }
  });
});

describe('rows', () => {
  const job = defineJob({ service, prompt: '{{ id }}' });
  const answered = async (options: object): Promise<unknown[]> => {
    let found: unknown[] = [];
    await scripted(echo, async (url) => {
      found = (await all(run(job, { env: environment(url), ...options }))).map(({ answer }) => answer);
    });
    return found;
  };

  it('are the bytes of a file where format says so', async () => {
    expect(await answered({ rows: new Blob(['id\n1\n2\n']).stream(), format: 'csv' })).toEqual(['1', '2']);
  });

  it.each([
    ['a list', [{ id: 1 }, [2]], undefined, 'bad_rows', 'row 2 is a list, and a row is an object'],
    ['text without a format', ['id\n1\n'], undefined, 'bad_rows', 'row 1 is text'],
    ['objects with a format', [{ id: 1 }], 'csv', 'bad_rows', 'piece 1 of the rows is an object'],
    ['what JSON has not', [{ id: 1n }], undefined, 'bad_rows', 'row 1 cannot be written as JSON'],
    ['none', undefined, undefined, 'no_rows', 'the job names no file in input.path'],
  ])('are refused where they are %s', async (_, rows, format, code, message) => {
    const refused = async () => all(run(job, { rows, format, env: environment('http://127.0.0.1:1') }));
    await expect(refused()).rejects.toThrow(message);
    await expect(refused()).rejects.toMatchObject({ name: 'UsageError', code });
  });

  it('are refused in a sentence where JavaScript gives a number, and so is a job that is none', async () => {
    const env = environment('http://127.0.0.1:1');
    const number = async () => all(run(job, { rows: JSON.parse('5'), env }));
    await expect(number()).rejects.toMatchObject({
      code: 'no_rows',
      message: expect.stringContaining('rows is a number'),
    });
    const none = async () => all(run(JSON.parse('{}'), { rows: [], env }));
    await expect(none()).rejects.toMatchObject({ code: 'bad_job' });
  });

  it('that throw end the run with what they threw', async () => {
    const cause = new Error('the database has gone');
    async function* failing() {
      yield { id: 1 };
      throw cause;
    }
    const error = await all(run(job, { rows: failing(), env: environment('http://127.0.0.1:1') })).catch(
      (e) => e,
    );
    expect(error).toBeInstanceOf(UsageError);
    expect(error).toMatchObject({ code: 'rows_failed', cause });
  });
});

describe('defineJob', () => {
  it('refuses what is no job, and names the fields', () => {
    const define = () => defineJob({ service, limits: { concurrency: 0 }, answer: { labels: ['a'] } });
    expect(define).toThrow(UsageError);
    expect(define).toThrow('limits.concurrency must be a whole number from 1 to 10000, got 0');
    expect(define).toThrow('answer.labels must name at least two labels');
  });

  it('refuses a schema that a model cannot be asked for', () => {
    expect(() => defineJob({ service, answer: { json: z.object({ at: z.date() }) } })).toThrow(
      'answer.json cannot be written as a JSON Schema',
    );
  });

  it('gives what the schema makes of an answer, and refuses what only the schema can refuse', async () => {
    const schema = z.object({
      name: z.string().transform((name) => name.toUpperCase()),
      stars: z.number().refine((stars) => stars < 6, 'more stars than there are'),
      note: z.string().optional(),
      tags: z.array(z.string()).default([]),
    });
    const job = defineJob({ service, prompt: '{{{ text }}}', answer: { json: schema } });
    const texts = ['{"name": "ada", "stars": 5}', '{"name": "bob", "stars": 9}', '{"name": 1}'];
    await scripted(echo, async (url) => {
      const rows = await all(run(job, { rows: texts.map((text) => ({ text })), env: environment(url) }));
      expect(rows.map(({ answer }) => answer)).toEqual([{ name: 'ADA', stars: 5, tags: [] }, null, null]);
      expect(rows[1]?.error).toEqual({ code: 'answer_invalid', message: 'more stars than there are' });
      expect(rows[2]?.error?.code).toBe('answer_invalid');
    });
  });
});
