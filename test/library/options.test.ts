import { afterAll, describe, expect, it } from 'vitest';
import { check, compare, defineJob, retry, run, UsageError } from '../../src/index.js';
import { Workplace } from '../support/promptmill.js';

const job = defineJob({ service: { deployment: 'lm-35-turbo-instruct' }, prompt: '{{ review }}' });
const rows = [{ id: 1, review: 'Lovely.' }];
const work = new Workplace();
afterAll(() => work.remove());
const env = { PROMPTMILL_STATE_DIR: work.path('state') };

/** Options that callers in JavaScript, who have no types, may give. */
const any = (value: unknown) => value as never;
const loop = async (options: unknown): Promise<void> => {
  for await (const _ of run(job, options as object));
};
const file = async (options: object): Promise<unknown> => run(job, any({ rows, env, ...options }));

const MISUSES: readonly (readonly [() => Promise<unknown>, string])[] = [
  [() => loop(null), 'run: the options must be an object, got null'],
  [() => loop('rows.csv'), 'run: the options must be an object, got "rows.csv"'],
  [() => loop({ rows, concurency: 3 }), 'run: there is no option concurency; did you mean concurrency?'],
  [() => loop({ rows, limit: 'ten' }), 'run: limit must be a whole number of at least 1, got "ten"'],
  [() => loop({ rows, limit: Number.NaN }), 'run: limit must be a whole number of at least 1, got NaN'],
  [() => loop({ rows, concurrency: 0 }), 'run: concurrency must be a whole number from 1 to 10000, got 0'],
  [() => loop({ rows, ahead: -1 }), 'run: ahead must be a whole number from 1 to 10000, got -1'],
  [() => loop({ rows, env: null }), 'run: env must be an object, such as process.env, got null'],
  [() => loop({ rows, signal: new AbortController() }), 'run: signal must be an AbortSignal, got an object'],
  [() => loop({ rows, onProgress: 5 }), 'run: onProgress must be a function, got 5'],
  [() => loop({ rows, log: {} }), 'run: log must be a pino logger, got an object'],
  [() => loop({ rows: Promise.resolve(rows) }), 'rows is a promise, which cannot be iterated'],
  [() => file({ output: '' }), 'run: output must not be empty, got ""'],
  [
    () => file({ output: false }),
    'run: output must be the path of a file, or true for that of the job, got false',
  ],
  [
    () => loop({ rows, env, emulate: true, queue: 'postgres://mill:secret@db/mill' }),
    'the queue "postgres://mill:***@db/mill" is of an unknown kind',
  ],
  [() => check(any({ prompt: 'x' })), 'the job is an object, and not made by defineJob'],
  [() => check(job, any({ rows, output: 'x.csv' })), 'check: there is no option output'],
  [() => retry(any(undefined)), 'retry needs the path of an output, got undefined'],
  [
    () => retry('x.csv', any({ status: ['faild'] })),
    'retry: status.0 must be completed, filtered, failed or skipped, got "faild"',
  ],
  [() => compare('x.csv', any(undefined)), 'compare needs the path of an output, got undefined'],
  [
    () => compare('x.csv', 'x.csv', any({ changed: 'y.csv' })),
    'compare: changed must be an object with the path of a CSV file, got "y.csv"',
  ],
  [async () => defineJob(any('job.yaml')), 'defineJob needs the fields of a job as an object, got a string'],
  [
    async () => defineJob(any({ ...job.fields, answer: 'labels' })),
    'defineJob: answer must be a group with labels, number or json, got "labels"',
  ],
];

describe('a wrong use of the library', () => {
  it.each(MISUSES.map(([misuse, message]) => [message, misuse] as const))('%s', async (message, misuse) => {
    const error = await misuse().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).message).toContain(message);
  });

  it('is answered in the words of a program, not of the command line', async () => {
    const noQueue = await loop({ rows, env, work: false }).catch((thrown: unknown) => thrown);
    expect(noQueue).toMatchObject({
      message: expect.stringMatching(/^work: false leaves the calls to other processes/),
      hint: expect.stringMatching(
        /^Name a queue for all with queue: redis:\/\/.* or leave out work: false\.$/,
      ),
    });
    const noAddress = await loop({ rows, env }).catch((thrown: unknown) => thrown);
    expect(noAddress).toMatchObject({ hint: expect.stringContaining('or use emulate: true.') });
    const output = work.path('out.csv');
    const { summary } = await run(job, { rows, env, output, emulate: true });
    await expect(file({ output, emulate: true })).rejects.toMatchObject({
      hint: 'Replace it with overwrite: true, or name another file with output.',
    });
    const page = compare(summary.output, summary.output, { changed: { path: 'changed.txt' } });
    await expect(page).rejects.toMatchObject({ hint: 'Name another file with changed.' });
  });
});
