import { resolve } from 'node:path';
import type { Logger } from 'pino';
import { readEnvironment } from '../config/environment.js';
import type { Concurrency } from '../config/job-schema.js';
import type { RunFlags } from '../config/settings.js';
import type { Halt } from '../core/halt.js';
import { type Job, jobOf } from './job.js';
import { type OpenedJob, openedJob } from './opened-job.js';
import { inProgram } from './options.js';
import { type RowSource, type Rows, rowSource } from './rows.js';

/** Options of both a run and a check, besides the job. */
export interface JobOptions {
  /**
   * The rows, instead of the job's `input.path`: a path, an iterable or async iterable of objects, or a
   * stream of bytes with its `format`. All but a path are first copied to the state directory, because they
   * are read twice.
   * @default the job's `input.path`
   */
  readonly rows?: Rows | undefined;
  /**
   * Format of rows that are the text of a file: `csv`, `tsv` or `jsonl`. @default a file's by its name;
   * others are objects
   */
  readonly format?: string | undefined;
  /** Only the first so many rows. @default all */
  readonly limit?: number | undefined;
  /** Only so many rows, chosen at random; a later run over all rows takes their answers over. @default all */
  readonly sample?: number | undefined;
  /** Another one chooses other rows for `sample`; a whole number. @default 0 */
  readonly seed?: number | undefined;
  /** Column of whose values `sample` takes equal numbers of rows. @default all rows are equally likely */
  readonly by?: string | undefined;
  /** Most calls in flight at once, instead of the job's `limits.concurrency`. */
  readonly concurrency?: Concurrency | undefined;
  /**
   * The environment variables `PROMPTMILL_…`: address, keys, state directory. Keys come only from here, and
   * no `.env` is read.
   * @default process.env
   */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Ends the run or check in an orderly way; calls in flight are finished. */
  readonly signal?: AbortSignal | undefined;
  /** Takes warnings and messages for the user. @default they are dropped */
  readonly log?: Logger | undefined;
}

export interface Opened extends OpenedJob {
  readonly typed: Job<unknown>;
  readonly source: RowSource;
  readonly env: NodeJS.ProcessEnv;
  readonly log: Logger | undefined;
}

/** @throws UsageError for a job that cannot run, whatever its input */
export function open<A>(job: Job<A> | string, options: JobOptions, flags: RunFlags = {}): Opened {
  try {
    return opened(job, options, flags);
  } catch (error) {
    throw inProgram(error);
  }
}

function opened<A>(job: Job<A> | string, options: JobOptions, flags: RunFlags): Opened {
  const { rows, format, limit, sample, seed, by, concurrency, env = process.env, log } = options;
  const environment = readEnvironment(env, null);
  const typed = jobOf(job, environment, flags.set);
  const source = rowSource(rows, format, typed.fields.input.path);
  const part = { limit, sample, seed, by };
  const all = { ...flags, ...part, input: source.path, format: source.format, concurrency };
  const { settings, ...rest } = openedJob(typed.fields, environment, all);
  const { encoding, delimiter, ...input } = settings.input;
  const isRows = settings.input.path === '-';
  const from = {
    ...(source.objects ? input : settings.input),
    ...(isRows ? { name: 'the input' } : { path: resolve(settings.input.path) }),
  };
  const { output, stateDir, jobFile } = settings;
  // The program may change its folder during the run (fault 111).
  const places = {
    output: output.path === '-' ? output : { ...output, path: resolve(output.path) },
    stateDir: resolve(stateDir),
    jobFile: jobFile && resolve(jobFile),
  };
  return { ...rest, settings: { ...settings, input: from, ...places }, typed, source, env, log };
}

/** @returns removes the listener @throws the signal's reason */
export function haltOn(signal: AbortSignal | undefined, halt: Halt): () => void {
  signal?.throwIfAborted();
  const abort = (): void => halt.request({ kind: 'signal', signal: 'AbortSignal' });
  signal?.addEventListener('abort', abort, { once: true });
  return () => signal?.removeEventListener('abort', abort);
}
