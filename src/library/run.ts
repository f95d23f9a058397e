import { PassThrough } from 'node:stream';
import type { RunFlags } from '../config/settings.js';
import { StopError, UsageError } from '../errors.js';
import { Halt } from '../halt.js';
import type { Json } from '../model.js';
import { outputFormatOf } from '../output/format.js';
import type { Summary } from '../report/summary.js';
import type { RunEvent } from '../run/events.js';
import type { RunResult as PipelineResult } from '../run/pipeline.js';
import type { Job } from './job.js';
import { haltOn, type JobOptions, type Opened, open } from './open.js';
import { type ResultRow, resultRow } from './result-row.js';
import { runOpened, type Surroundings } from './run-opened.js';

/** What a run can be told besides the job. Everything has a default. */
export interface RunOptions extends JobOptions {
  /** Store of the queue: `embedded`, `redis://…`, `postgres://…`. @default PROMPTMILL_QUEUE, else `embedded` */
  readonly queue?: string | undefined;
  /** Calls an emulator that lives as long as the run, and not the service. @default false */
  readonly emulate?: boolean | undefined;
  /** Takes part in the calls; false leaves them to `promptmill work`. @default true */
  readonly work?: boolean | undefined;
  /** Called four times a second while rows are called, and at the end. What it throws ends the run, and `run` throws it. */
  readonly onProgress?: ((progress: RunProgress) => void) | undefined;
  /** Called with all that happens in the run, in order. What it throws ends the run, and `run` throws it. */
  readonly onEvent?: ((event: RunEvent) => void) | undefined;
}

/** A run whose records go to a file. */
export interface FileRunOptions extends RunOptions {
  /** Path of the output, `.csv` or `.jsonl`; `true` is the one that the job names. */
  readonly output: string | true;
  /** Discards an unfinished run of this output. @default false: it is continued */
  readonly restart?: boolean | undefined;
  /** Replaces a finished output. @default false */
  readonly overwrite?: boolean | undefined;
}

/** A run whose rows go to the caller. */
export interface RowRunOptions extends RunOptions {
  readonly output?: undefined;
  /**
   * Rows that may be called ahead of the one that is read, 10,000 at most: what a reader that stops has paid for in vain.
   * @default 1,000
   */
  readonly ahead?: number | undefined;
}

/** How far a run is, in rows. */
export interface RunProgress {
  /** Rows that the run is to have. */
  readonly total: number;
  /** Rows whose outcome is known. */
  readonly known: number;
  /** Rows in the output, on disk; or handed to the caller. */
  readonly written: number;
  readonly failed: number;
  /** Completed rows whose answer is invalid. */
  readonly invalid: number;
  /** Calls under way. */
  readonly inFlight: number;
  /** What the run waits for, in words; `null` where it does not wait. */
  readonly waiting: string | null;
}

/** What came of a run. `summary.stopped` says why it ended before its last row; `null` where it is finished. */
export type RunResult = Omit<PipelineResult, 'halted'>;

/** The rows of a run, in input order. The run begins when the first is asked for. */
export interface Results<A> extends AsyncIterable<ResultRow<A>> {
  /** What came of it, once it has ended. Rejects with what keeps the run from starting. */
  readonly summary: Promise<Summary>;
}

/**
 * Runs a job. With `output` into a file, as `promptmill run` does: an unfinished run is continued, and a run that stops early,
 * also by `signal`, resolves with `summary.stopped`; the same call goes on with it. Without `output` the rows come one by one,
 * in input order, and the run keeps pace with their reader. Such a run cannot be continued; when it stops early, the loop
 * throws behind the last row that it has, so that no row is missing in silence. A loop that is left ends the run.
 *
 * ```ts
 * const { summary } = await run(job, { rows: 'reviews.csv', output: 'answers.csv' });
 * for await (const { input, answer } of run(job, { rows: reviews })) console.log(input.id, answer);
 * ```
 * @param job a job of {@link defineJob}, or the path of a job file
 * @throws UsageError when the run cannot start; then nothing was sent
 * @throws StopError only out of the loop: the run stopped early, for a reason of its own
 * @throws the reason of `signal`, where nothing has begun, and out of the loop
 */
export function run<A = Json>(job: Job<A> | string, options: FileRunOptions): Promise<RunResult>;
export function run<A = Json>(job: Job<A> | string, options?: RowRunOptions): Results<A>;
export function run(
  job: Job<unknown> | string,
  options: FileRunOptions | RowRunOptions = {},
): Promise<RunResult> | Results<unknown> {
  return options.output === undefined ? rowsOf(job, options) : runToFile(job, options);
}

async function runToFile(job: Job<unknown> | string, options: FileRunOptions): Promise<RunResult> {
  const { output, restart, overwrite } = options;
  if (output === '-') {
    throw new UsageError(
      'bad_output',
      'output: "-" is standard output, to which a library prints nothing',
      'Name a file, or leave output out and take the rows in a loop.',
    );
  }
  const path = output === true ? undefined : output;
  const opened = open(job, options, { ...flagsOf(options), output: path, restart, overwrite });
  const { halted, ...result } = await begin(opened, options, new Halt());
  return result;
}

function rowsOf(job: Job<unknown> | string, options: RowRunOptions): Results<unknown> {
  const opened = open(job, options, { ...flagsOf(options), output: '-' });
  const output = { ...opened.settings.output, format: outputFormatOf('rows.jsonl'), columns: null };
  const settings = { ...opened.settings, output };
  let begun: (summary: Promise<Summary>) => void = () => {};
  const summary = new Promise<Summary>((resolve) => {
    begun = resolve;
  });
  // Whoever reads the rows hears of it there.
  summary.catch(() => {});
  const rows = iterate({ ...opened, settings }, options, begun);
  return { summary, [Symbol.asyncIterator]: () => rows };
}

async function* iterate(
  opened: Opened,
  options: RowRunOptions,
  begun: (summary: Promise<Summary>) => void,
): AsyncGenerator<ResultRow<unknown>, void> {
  const { ahead = AHEAD } = options;
  const halt = new Halt();
  // Holds the records of one commit: the run waits until they are taken.
  const sink = new PassThrough({ objectMode: true, highWaterMark: 1 });
  const running = begin(opened, options, halt, { stdout: sink, ahead }).finally(() => sink.end());
  begun(running.then(({ summary }) => summary));
  try {
    for await (const text of sink.iterator({ destroyOnReturn: false })) {
      for (const line of String(text).split('\n'))
        if (line !== '') yield await resultRow(line, opened.typed.read);
    }
    const { halted } = await running;
    if (halted !== null) options.signal?.throwIfAborted();
    if (halted?.kind === 'stop') throw new StopError(halted.fault.code, halted.fault.message);
  } finally {
    // Where the loop was left: what is not read any more is not called, and nobody takes the rest.
    halt.pull({ kind: 'signal', signal: 'AbortSignal' });
    sink.resume();
    await running.catch(() => {});
  }
}

/** Rows that may be called ahead of their reader, where the caller does not say. */
const AHEAD = 1_000;

const flagsOf = ({ queue, emulate, work }: RunOptions): RunFlags => ({ queue, emulate, work });

async function begin(
  { source, env, log, ...opened }: Opened,
  options: RunOptions,
  halt: Halt,
  reader: Pick<Surroundings, 'stdout' | 'ahead'> = {},
): Promise<PipelineResult> {
  const { signal } = options;
  const release = haltOn(signal, halt);
  try {
    return await runOpened(opened, {
      ...reader,
      ...(signal && { leave: signal }),
      halt,
      log,
      env,
      stdin: source.stream,
      onEvent: tellerOf(options, halt),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    release();
  }
}

/** Tells the callbacks of a caller what happens. One that throws ends the run. */
function tellerOf({ onEvent, onProgress }: RunOptions, halt: Halt): (event: RunEvent) => void {
  let now: RunProgress = {
    ...{ total: 0, known: 0, written: 0, failed: 0, invalid: 0 },
    ...{ inFlight: 0, waiting: null },
  };
  return (event) => {
    now = progressed(now, event);
    try {
      onEvent?.(event);
      if (event.type === 'pulse' || event.type === 'run ended') onProgress?.(now);
    } catch (error) {
      halt.pull({ kind: 'error', error });
    }
  };
}

function progressed(now: RunProgress, event: RunEvent): RunProgress {
  switch (event.type) {
    case 'run started':
      return { ...now, total: event.total, known: event.committed, written: event.committed };
    case 'committed':
      return { ...now, written: event.rows.total, failed: event.rows.failed };
    case 'pulse': {
      const { known, failed, invalid, inFlight, waiting } = event;
      return { ...now, known, failed, invalid, inFlight, waiting };
    }
    case 'run ended':
      return { ...now, known: event.known, inFlight: 0, waiting: null };
    default:
      return now;
  }
}
