import { join } from 'node:path';
import { UsageError } from '../errors.js';
import { OUTPUT_FORMATS, outputFormatOf } from '../output/format.js';
import { isMarked, marked } from '../output/output-name.js';
import { formatNamed, formatOfName } from '../source/format.js';
import type { Environment } from './environment.js';
import type { NamedJob } from './job-schema.js';
import { pricesOf } from './prices-file.js';

/** Options of the command line that change a run; `undefined` means not given. */
export interface RunFlags {
  readonly input?: string | undefined;
  readonly format?: string | undefined;
  readonly output?: string | undefined;
  readonly queue?: string | undefined;
  readonly concurrency?: number | undefined;
  readonly limit?: number | undefined;
  readonly emulate?: boolean | undefined;
  readonly work?: boolean | undefined;
  readonly restart?: boolean | undefined;
  readonly overwrite?: boolean | undefined;
  /** The clock has started it, and nobody looks on. @default false */
  readonly scheduled?: boolean | undefined;
  /** Which rows of a finished output are called again, as `promptmill retry` takes it. @default none: it is a run */
  readonly retry?: string | undefined;
  readonly logLevel?: string | undefined;
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Everything a run needs to know, validated and frozen. Keys are not part of it: see the key ring. */
export type Settings = ReturnType<typeof settle>;

/**
 * Merges what the user said: flags over environment over job file over defaults.
 * @throws UsageError naming the option and the value received
 */
export function settle(job: NamedJob, env: Environment, flags: RunFlags) {
  const { name, file = null, input, output, limits, schedule: _, onFinish: __, ...said } = job;
  const concurrency = flags.concurrency ?? limits.concurrency;
  const inputPath = flags.input ?? input.path;
  const format = flags.format === undefined ? input.format : formatNamed(flags.format).name;
  const usualOutput = defaultOutput(name, format, inputPath);
  const outputPath = placeFor(flags.output ?? output.path ?? usualOutput, flags);
  const namedOutput = output.path === undefined || output.path === '-' ? usualOutput : output.path;
  return Object.freeze({
    ...said,
    job: name,
    /** As it was named; `null` for a job that is no file. */
    jobFile: file,
    input: Object.freeze({
      ...input,
      path: inputPath,
      /** How messages call it. */
      name: inputPath === '-' ? 'standard input' : inputPath,
      ...(format !== undefined && { format }),
      /** Only the first so many rows; `null` is all of them. */
      limit: flags.limit ?? null,
    }),
    output: Object.freeze({
      ...output,
      /** With `{{date}}` and `{{run}}` still in it; `-` is standard output. */
      path: outputPath,
      format: outputFormatOf(outputPath === '-' ? namedOutput : outputPath),
    }),
    limits: Object.freeze({
      ...limits,
      concurrency,
      chunkSize: limits.chunkSize ?? chunkSize(concurrency, limits.promptsPerRequest),
    }),
    prices: pricesOf(job),
    queue: flags.queue ?? env.queue,
    stateDir: env.stateDir,
    logLevel: logLevelOf(flags.logLevel ?? env.logLevel),
    /** Calls go to the emulator of this process: its queue and its results are kept apart from real ones. */
    emulated: flags.emulate ?? false,
    /** Take part in the calls; false leaves them to `promptmill work`. */
    work: flags.work ?? true,
    restart: flags.restart ?? false,
    overwrite: flags.overwrite ?? false,
    /** Answers below `answer.require` replace none that are good, and no output of another job is replaced. */
    scheduled: flags.scheduled ?? false,
    /** The rows of a finished output that are called again, in the words of the command line; `null` for a run. */
    retry: flags.retry ?? null,
  });
}

/**
 * Rows in a chunk: whole requests, as many as are called at once, and at most about a hundred. A larger chunk makes
 * the queue's share of the work smaller (bench/overhead: 100 rows instead of 50 are 9 % more rows a second on Redis),
 * and takes more rows away from other workers.
 */
function chunkSize(concurrency: number, promptsPerRequest: number): number {
  const requests = Math.min(Math.ceil(100 / promptsPerRequest), concurrency);
  return requests * promptsPerRequest;
}

/**
 * The answers of an emulator go to a name of their own, also where the command line names the output: no file without
 * `.emulated` in its name has any, and none with it has others. What `retry` is given is there already, and says itself what it is.
 */
function placeFor(output: string, { emulate = false, retry }: RunFlags): string {
  if (output === '-' || retry !== undefined || isMarked(output, 'emulated') === emulate) return output;
  if (emulate) return marked(output, 'emulated');
  throw new UsageError(
    'output_of_rehearsal',
    `${output} is the name of a rehearsal, and this run is none`,
    'Name another output, or add --emulate.',
  );
}

/** Where a job writes that does not say: in the format of the input, where an output can have it. */
export function defaultOutput(job: string, format: string | undefined, input: string): string {
  const name = format ?? formatOfName(input)?.name;
  const { endings } = OUTPUT_FORMATS.find((known) => known.name === name) ?? OUTPUT_FORMATS[0];
  return join('out', `${job}${endings[0]}`);
}

/** @throws UsageError naming the value received */
export function logLevelOf(value: string): LogLevel {
  const level = LOG_LEVELS.find((known) => known === value.toLowerCase());
  if (level !== undefined) return level;
  throw new UsageError(
    'bad_log_level',
    `the log level must be one of ${LOG_LEVELS.join(', ')}, got ${value}`,
    'Correct --log-level, or PROMPTMILL_LOG_LEVEL in the environment or .env.',
  );
}
