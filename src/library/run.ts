import { PassThrough } from 'node:stream';
import type { Summary } from '../account/summary.js';
import { forReader } from '../config/settings.js';
import { StopError, UsageError } from '../core/errors.js';
import { Halt } from '../core/halt.js';
import type { Json } from '../core/model.js';
import type { RunResult as PipelineResult } from '../run/pipeline.js';
import { begin, flagsOf, type RunOptions, type Work } from './begin.js';
import type { Job } from './job.js';
import { type Opened, open } from './open.js';
import { assertOptions, CHECKS, forProgram } from './options.js';
import { type ResultRow, resultRow } from './result-row.js';

/** A run that writes to a file. */
export interface FileRunOptions extends RunOptions {
  /** Path of the output, `.csv` or `.jsonl`; `true` for the one in the job. */
  readonly output: string | true;
  /** Discards an unfinished run of this output. @default false: it is continued */
  readonly restart?: boolean | undefined;
  /** Replaces a finished output. @default false */
  readonly overwrite?: boolean | undefined;
  /** Calls only the rows that were appended to the input file of a finished output. @default false */
  readonly extend?: boolean | undefined;
}

/** A run that returns its rows to the caller. */
export interface RowRunOptions extends RunOptions {
  readonly output?: undefined;
  /**
   * Rows that may be called ahead of the one being read, at most 10,000; a reader that stops has paid for
   * them.
   * @default 1,000
   */
  readonly ahead?: number | undefined;
}

/** Result of a run. `summary.stopped` says why it ended before its last row; `null` when it is finished. */
export type RunResult = Omit<PipelineResult, 'halted'>;

/** The rows of a run, in input order. The run begins when the first row is requested. */
export interface Results<A, Input = { readonly [column: string]: Json }>
  extends AsyncIterable<ResultRow<A, Input>> {
  /**
   * The summary at the end of the run. Rejects with the error that kept the run from starting, or with a
   * UsageError `not_begun` when it is requested before the first row.
   */
  readonly summary: Promise<Summary>;
}

/** A caller's row in its JSON form, as in the results: a `Date` is a text. */
export type Recorded<R> = {
  readonly [K in keyof R]: R[K] extends { toJSON(...args: never): infer J } ? J : R[K];
};

/**
 * Runs a job. With `output` it writes to a file, like `promptmill run`: an unfinished run is continued, and a
 * run that stops early, also by `signal`, resolves with `summary.stopped`; the same call continues it.
 * Without `output` the rows come one by one, in input order, at the pace of their reader. Such a run cannot
 * be continued: when it stops early, the loop throws after its last row, so that no row is missing unnoticed.
 * Leaving the loop ends the run.
 *
 * ```ts
 * const { summary } = await run(job, { rows: 'reviews.csv', output: 'answers.csv' });
 * for await (const { input, answer } of run(job, { rows: reviews })) console.log(input.id, answer);
 * ```
 * @param job a job from {@link defineJob}, or the path of a job file
 * @throws UsageError when the run cannot start; then nothing was sent
 * @throws StopError only from the loop: the run stopped early for its own reasons
 * @throws the reason of `signal`, if nothing has begun, and from the loop
 */
export function run<A = Json>(job: Job<A> | string, options: FileRunOptions): Promise<RunResult>;
export function run<A = Json, R extends object = { readonly [column: string]: Json }>(
  job: Job<A> | string,
  options: RowRunOptions & {
    readonly rows: Iterable<R> | AsyncIterable<R>;
    readonly format?: undefined;
  },
): Results<A, Recorded<R>>;
export function run<A = Json>(job: Job<A> | string, options?: RowRunOptions): Results<A>;
export function run(
  job: Job<unknown> | string,
  options: FileRunOptions | RowRunOptions = {},
): Promise<RunResult> | Results<unknown> {
  assertOptions<FileRunOptions & Omit<RowRunOptions, 'output'>>('run', CHECKS.run, options);
  return options.output === undefined ? rowsOf(job, options) : runToFile(job, options);
}

async function runToFile(job: Job<unknown> | string, options: FileRunOptions): Promise<RunResult> {
  const { output, restart, overwrite, extend } = options;
  if (output === '-') {
    throw new UsageError(
      'bad_output',
      'output: "-" is standard output, to which a library prints nothing',
      'Name a file, or leave output out and take the rows in a loop.',
    );
  }
  const path = output === true ? undefined : output;
  const opened = open(job, options, { ...flagsOf(options), output: path, restart, overwrite, extend });
  const { halted, ...result } = await begin(opened, options, new Halt(), extend ? extendOutput : runJob);
  return result;
}

function rowsOf(job: Job<unknown> | string, options: RowRunOptions): Results<unknown> {
  const opened = open(job, options, { ...flagsOf(options), output: '-' });
  const output = forReader(opened.settings.output);
  const settings = { ...opened.settings, output };
  let summary: Promise<Summary> | null = null;
  const halt = new Halt();
  const rows = iterate({ ...opened, settings }, options, halt, (begun) => {
    summary = begun;
    // The reader of the rows gets the error there.
    summary.catch(() => {});
  });
  return {
    get summary() {
      return summary ?? Promise.reject(notBegun());
    },
    [Symbol.asyncIterator]: () => ({
      next: () => rows.next(),
      // Ends the wait for a row at once; the generator itself would return only after that row.
      return: () => {
        halt.request({ kind: 'signal', signal: 'AbortSignal' });
        return rows.return();
      },
    }),
  };
}

const runJob: Work<PipelineResult> = async (settings, context) =>
  (await import('../run/pipeline.js')).runJob(settings, context);

const extendOutput: Work<PipelineResult> = async (settings, context) =>
  (await import('../amend/extend.js')).extendOutput(settings, context);

const notBegun = (): UsageError =>
  new UsageError(
    'not_begun',
    'the run has no summary: it begins when its first row is asked for',
    'Read the rows in a loop and ask for the summary behind it, or give output to have them in a file.',
  );

async function* iterate(
  opened: Opened,
  options: RowRunOptions,
  halt: Halt,
  begun: (summary: Promise<Summary>) => void,
): AsyncGenerator<ResultRow<unknown>, void> {
  const { ahead = AHEAD } = options;
  // Holds the records of one commit: the run waits until they are taken.
  const sink = new PassThrough({ objectMode: true, highWaterMark: 1 });
  const running = begin(opened, options, halt, runJob, { stdout: sink, maxUnwritten: ahead }).finally(() =>
    sink.end(),
  );
  begun(running.then(({ summary }) => summary));
  try {
    for await (const text of sink.iterator({ destroyOnReturn: false })) {
      for (const line of String(text).split('\n'))
        if (line !== '') yield await resultRow(line, opened.typed.read);
    }
    const { halted } = await running;
    if (halted !== null) options.signal?.throwIfAborted();
    if (halted?.kind === 'stop') throw new StopError(halted.problem.code, forProgram(halted.problem.message));
  } finally {
    // The loop was left: no more rows are called, and the rest is dropped.
    halt.request({ kind: 'signal', signal: 'AbortSignal' });
    sink.resume();
    await running.catch(() => {});
  }
}

const AHEAD = 1_000;
