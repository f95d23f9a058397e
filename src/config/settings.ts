import { join } from 'node:path';
import { answerReader } from '../answer/answer.js';
import { goldColumns } from '../answer/gold.js';
import { UsageError } from '../core/errors.js';
import { OUTPUT_FORMATS, outputFormatOf } from '../output/format.js';
import { isEmulated, marked } from '../output/output-name.js';
import type { RecordedJob } from '../output/reader.js';
import type { OriginColumn } from '../output/result-columns.js';
import type { ReuseSettings, SharedOutcomes } from '../prompt/reuse-keys.js';
import type { Budget } from '../pace/budget.js';
import { mapped, type Several } from '../service/endpoint-spec.js';
import { commonOperation, operationOf } from '../service/operation.js';
import { listedLogprobs } from '../service/parameters.js';
import { formatNamed, formatOfName } from '../source/format.js';
import type { JobEndpoint } from './endpoints-schema.js';
import type { Environment } from './environment.js';
import { type Concurrency, callsAtOnce, type NamedJob } from './job-schema.js';
import { pricesOf } from './prices-file.js';

/** `undefined` means not given. */
export interface RunFlags {
  /** Other values for fields of the job file, as `path=value`. */
  readonly set?: readonly string[] | undefined;
  readonly input?: string | undefined;
  /** In place of the job's `input.done`. */
  readonly done?: readonly string[] | undefined;
  readonly format?: string | undefined;
  readonly output?: string | undefined;
  readonly queue?: string | undefined;
  readonly concurrency?: Concurrency | undefined;
  readonly limit?: number | undefined;
  /** Rows chosen at random instead. */
  readonly sample?: number | undefined;
  readonly seed?: number | undefined;
  readonly by?: string | undefined;
  readonly emulate?: boolean | undefined;
  /** Seconds that a hosted batch of the emulator takes. */
  readonly batchSeconds?: number | undefined;
  /** Faults of the emulator's hosted batches, each with its share. */
  readonly batchFail?: Readonly<Record<string, number>> | undefined;
  readonly work?: boolean | undefined;
  readonly restart?: boolean | undefined;
  readonly overwrite?: boolean | undefined;
  /** Whether rows that were appended to the input are added to a finished output. @default false */
  readonly extend?: boolean | undefined;
  /** Whether the schedule started the run, unattended. @default false */
  readonly scheduled?: boolean | undefined;
  /** Which rows of a finished output to call again, as for `promptmill retry`. @default none: it is a run */
  readonly retry?: string | undefined;
  readonly logLevel?: string | undefined;
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** All settings of a run, validated and frozen. Keys are not included: see the key ring. */
export type Settings = ReturnType<typeof settle>;

/** Flags over environment over job file over defaults. @throws UsageError with option and value */
export function settle(job: NamedJob, env: Environment, flags: RunFlags) {
  const { name, file = null, set = [], input, output, limits, schedule: _, onFinish: __, ...said } = job;
  const { most, untilAnswered } = callsAtOnce(flags.concurrency ?? limits.concurrency);
  const inputPath = flags.input ?? input.path;
  const format = flags.format === undefined ? input.format : formatNamed(flags.format).name;
  const usualOutput = defaultOutput(name, output.format ?? format, inputPath);
  const outputPath = placeFor(flags.output ?? output.path ?? usualOutput, flags);
  const namedOutput = output.path === undefined || output.path === '-' ? usualOutput : output.path;
  const endpoints = mapped(job.endpoints, (each) => ({
    ...each,
    prices: each.prices ?? pricesOf({ ...job, endpoint: each.spec }),
  }));
  return Object.freeze({
    ...said,
    job: name,
    /** As it was named; `null` for a job that has no file. */
    jobFile: file,
    jobSet: set,
    input: Object.freeze({
      ...input,
      path: inputPath,
      /** Name in messages. */
      name: inputPath === '-' ? 'standard input' : inputPath,
      ...(format !== undefined && { format }),
      /** Only the first so many rows; `null` for all. */
      limit: flags.limit ?? null,
      /** Only so many rows, chosen at random; `null` for all. */
      sample: sampleOf(flags),
    }),
    output: Object.freeze({
      ...output,
      /** With `{{date}}` and `{{run}}` still in it; `-` is standard output. */
      path: outputPath,
      format: outputFormatOf(outputPath === '-' ? namedOutput : outputPath, output.format),
    }),
    reuse: Object.freeze({ ...said.reuse, ...NOTHING_SHARED }),
    limits: Object.freeze({
      ...limits,
      concurrency: most,
      /** Most calls at once before the first are answered. */
      untilAnswered,
      chunkSize: limits.chunkSize ?? chunkSize(untilAnswered, limits.promptsPerRequest),
    }),
    /** Whether rows may have another tier than online. */
    hasTiers: said.flex !== null || said.batch !== null || input.done.length > 0,
    /** Null for a job without, and where those of its endpoints differ. */
    prices: isOneFor(endpoints) ? endpoints[0].prices : null,
    currency: currencyOf(endpoints),
    /** As a budget counts. */
    budgetPrices: budgetPrices(endpoints),
    endpoints,
    queue: flags.queue ?? env.queue,
    stateDir: env.stateDir,
    logLevel: logLevelOf(flags.logLevel ?? env.logLevel),
    /** Calls go to the emulator of this process; its queue and results are kept apart from real ones. */
    emulated: flags.emulate ?? false,
    emulatedBatches: {
      ...(flags.batchSeconds !== undefined && { seconds: flags.batchSeconds }),
      ...(flags.batchFail !== undefined && { faults: flags.batchFail }),
    },
    /** Whether this process makes calls; false leaves them to `promptmill work`. */
    work: flags.work ?? true,
    restart: flags.restart ?? false,
    overwrite: flags.overwrite ?? false,
    extend: flags.extend ?? false,
    /** Answers below `answer.require` replace no good ones, and the output of another job is not replaced. */
    scheduled: flags.scheduled ?? false,
    /** Rows of a finished output to call again, as on the command line; `null` for a run. */
    retry: flags.retry ?? null,
  });
}

const NOTHING_SHARED: SharedOutcomes = { known: [], keeps: false };

/** @throws UsageError `bad_options` */
function sampleOf({ sample: rows, seed, by, limit, extend }: RunFlags) {
  const others = { '--limit': limit !== undefined, '--extend': extend === true };
  const [other] = Object.entries(others).find(([, isGiven]) => isGiven) ?? [];
  if (rows !== undefined && other !== undefined) {
    const message = `--sample chooses its rows at random, and ${other} by their place in the input`;
    throw new UsageError('bad_options', message, 'Give one of the two.');
  }
  if (rows !== undefined) return { rows, seed: seed ?? 0, by: by ?? null };
  if (seed === undefined && by === undefined) return null;
  const message = `${seed === undefined ? '--by' : '--seed'} says how --sample chooses its rows`;
  throw new UsageError('bad_options', message, 'Add --sample N, or leave it out.');
}

const isOneFor = (endpoints: readonly { readonly prices: unknown }[]): boolean =>
  new Set(endpoints.map(({ prices }) => JSON.stringify(prices))).size === 1;

/** @throws UsageError when endpoints have several */
function currencyOf(endpoints: Several<JobEndpoint>): string | undefined {
  const [currency, ...others] = new Set(endpoints.flatMap(({ prices }) => prices?.currency ?? []));
  if (others.length === 0) return currency;
  throw new UsageError(
    'several_currencies',
    `the prices of service.endpoints are in ${[currency, ...others].join(' and ')}, and costs are added up`,
    'State all prices in one currency.',
  );
}

function budgetPrices(endpoints: Several<JobEndpoint>): Pick<Budget, 'prices' | 'byEndpoint'> {
  const all = endpoints.flatMap(({ spec: { name }, prices }) => (prices === null ? [] : [{ name, prices }]));
  if (all.length < endpoints.length || isOneFor(endpoints)) return { prices: endpoints[0].prices };
  const highest = (of: 'prompt' | 'completion') => Math.max(...all.map(({ prices }) => prices[of]));
  return {
    prices: {
      prompt: highest('prompt'),
      completion: highest('completion'),
      currency: currencyOf(endpoints),
    },
    byEndpoint: Object.fromEntries(all.map(({ name, prices }) => [name, prices])),
  };
}

/**
 * Whole requests, as many as are called at once, at most about 100 rows. A larger chunk costs less in the
 * queue (bench/overhead: 100 rows instead of 50 give 9 % more rows a second on Redis), but takes more rows
 * away from other workers.
 */
function chunkSize(concurrency: number, promptsPerRequest: number): number {
  const requests = Math.min(Math.ceil(100 / promptsPerRequest), concurrency);
  return requests * promptsPerRequest;
}

/**
 * A file has emulated answers exactly when its name has the mark `.emulated`, even when the command line
 * names it. For `retry` the output exists, and its name says which it is.
 */
function placeFor(output: string, { emulate = false, retry }: RunFlags): string {
  if (output === '-' || retry !== undefined || isEmulated(output) === emulate) return output;
  if (emulate) return marked(output, 'emulated');
  throw new UsageError(
    'output_of_rehearsal',
    `${output} is the name of a rehearsal, and this run is none`,
    'Name another output, or add --emulate.',
  );
}

/** The output of a job that names none. @param format its own, or that of the input where outputs can have it */
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

/** Whole records for a program that reads them one by one, whatever the job says. */
export const forReader = (output: Settings['output']): Settings['output'] => ({
  ...output,
  format: outputFormatOf('rows.jsonl'),
  columns: null,
});

export type RecordSettings = Pick<
  Settings,
  | 'operations'
  | 'endpoints'
  | 'hasTiers'
  | 'gold'
  | 'goldMap'
  | 'goldParts'
  | 'answer'
  | 'output'
  | 'reuse'
  | 'answerSource'
  | 'parameters'
  | 'rowParameters'
>;

/** Writers and readers must use the same options: an input column named like a result is renamed. */
export function recordOptions(job: RecordSettings): RecordedJob {
  const { output, parameters, endpoints } = job;
  return {
    spec: job.answer,
    gold: goldColumns(job) ?? undefined,
    answer: answerReader(job.answer),
    select: output.columns ?? undefined,
    formulas: output.formulas,
    tellsMore: commonOperation(job.operations).tellsMore,
    hasEndpoints: endpoints.length > 1,
    hasTiers: job.hasTiers,
    origins: originColumns(job.reuse),
    answerSource: job.answerSource,
    probabilities: output.probabilities,
    formOf: (endpoint) =>
      operationOf((endpoints.find(({ spec: { name } }) => name === endpoint) ?? endpoints[0]).spec),
    logprobs: listedLogprobs(parameters) !== null || job.rowParameters.includes('logprobs'),
  };
}

function originColumns({ dedupe, onlyNew }: ReuseSettings): readonly OriginColumn[] {
  return [...(dedupe ? (['copied_from'] as const) : []), ...(onlyNew ? (['carried_from'] as const) : [])];
}
