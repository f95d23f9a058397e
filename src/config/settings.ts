import { join } from 'node:path';
import { UsageError } from '../errors.js';
import type { AnswerSpec, Json, Parameters } from '../model.js';
import { OUTPUT_FORMATS, outputFormatOf } from '../output/format.js';
import type { OutputFormat } from '../output/record.js';
import type { ReuseSettings } from '../reuse/keys.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import { formatNamed, formatOfName } from '../source/format.js';
import type { Environment } from './environment.js';
import { durationMs, type Job } from './job-schema.js';

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
  readonly logLevel?: string | undefined;
}

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Everything a run needs to know, validated and frozen. Keys are not part of it: see the key ring. */
export interface Settings {
  readonly job: string;
  readonly endpoint: EndpointSpec;
  readonly input: {
    readonly path: string;
    readonly format?: string;
    readonly encoding?: string;
    readonly delimiter?: string;
    readonly require: readonly string[];
    /** Only the first so many rows; `null` is all of them. */
    readonly limit: number | null;
  };
  /** Rows that need not be called. */
  readonly reuse: ReuseSettings;
  readonly prompt: string | null;
  readonly parameters: Parameters;
  readonly rowParameters: readonly (keyof Parameters)[];
  readonly answer: AnswerSpec;
  readonly output: {
    /** With `{{date}}` and `{{run}}` still in it; `-` is standard output. */
    readonly path: string;
    readonly format: OutputFormat;
    readonly columns: readonly string[] | null;
    readonly formulas: 'protect' | 'raw';
  };
  readonly limits: {
    readonly concurrency: number;
    readonly chunkSize: number;
    readonly promptsPerRequest: number;
    /** Quota of the deployment; `null` where the job says nothing. */
    readonly requestsPerMinute: number | null;
    readonly tokensPerMinute: number | null;
    readonly tokenEstimate: 'full' | 'learned';
    readonly attempts: number;
    /** What becomes of a row of whose call nobody knows the end. */
    readonly unknownOutcome: 'retry' | 'hold';
    /** Time without an answered row after which a run stops, in milliseconds. */
    readonly giveUpMs: number;
    /** Rows that may fail, or a fraction of the rows so far. */
    readonly stopAfterFailures: number | null;
    /** Longest time of one execution, in milliseconds. */
    readonly deadlineMs: number | null;
    /** What the run may be billed in all its executions together; `null` is no limit. */
    readonly budget: { readonly tokens: number | null; readonly cost: number | null } | null;
    /** Rows that go ahead of the rest, and must not all fail; 0 is none. */
    readonly canary: number;
  };
  readonly prices: { readonly prompt: number; readonly completion: number } | null;
  readonly queue: string;
  readonly stateDir: string;
  readonly logLevel: LogLevel;
  /** Calls go to the emulator of this process: its queue and its results are kept apart from real ones. */
  readonly emulated: boolean;
  /** Take part in the calls; false leaves them to `promptmill work`. */
  readonly work: boolean;
  readonly restart: boolean;
  readonly overwrite: boolean;
}

/**
 * Merges what the user said: flags over environment over job file over defaults.
 * @throws UsageError naming the option and the value received
 */
export function settle(job: Job & { name: string }, env: Environment, flags: RunFlags): Settings {
  const concurrency = flags.concurrency ?? job.limits.concurrency;
  const promptsPerRequest = job.limits.prompts_per_request;
  const inputPath = flags.input ?? job.input.path;
  const format = flags.format === undefined ? job.input.format : formatNamed(flags.format).name;
  const outputPath = flags.output ?? job.output.path ?? defaultOutput(job.name, format, inputPath);
  return Object.freeze({
    job: job.name,
    endpoint: {
      deployment: job.service.deployment,
      // Only where it is named: runs of versions that did not know it go on.
      ...(job.service.model !== undefined && { model: job.service.model }),
      apiVersion: job.service.api_version,
      style: job.service.style,
      timeoutMs: job.limits.timeout_seconds * 1000,
    },
    input: {
      path: inputPath,
      ...(format !== undefined && { format }),
      ...(job.input.encoding !== undefined && { encoding: job.input.encoding }),
      ...(job.input.delimiter !== undefined && { delimiter: job.input.delimiter }),
      require: job.input.require,
      limit: flags.limit ?? null,
    },
    reuse: { dedupe: job.input.dedupe, onlyNew: job.input.only_new, id: job.input.id ?? null },
    prompt: job.prompt ?? null,
    parameters: job.parameters,
    rowParameters: job.row_parameters,
    answer: answerSpec(job.answer),
    output: {
      path: outputPath,
      format: outputFormatOf(
        outputPath === '-' ? (job.output.path ?? defaultOutput(job.name, format, inputPath)) : outputPath,
      ),
      columns: job.output.columns ?? null,
      formulas: job.output.formulas,
    },
    limits: {
      concurrency,
      chunkSize: job.limits.chunk_size ?? chunkSize(concurrency, promptsPerRequest),
      promptsPerRequest,
      requestsPerMinute: job.limits.requests_per_minute ?? null,
      tokensPerMinute: job.limits.tokens_per_minute ?? null,
      tokenEstimate: job.limits.token_estimate,
      attempts: job.limits.attempts,
      unknownOutcome: job.limits.unknown_outcome,
      giveUpMs: durationMs(job.limits.give_up_after),
      stopAfterFailures: job.limits.stop_after_failures ?? null,
      deadlineMs: job.limits.deadline === undefined ? null : durationMs(job.limits.deadline),
      budget: budgetOf(job.limits),
      canary: job.limits.canary ?? 0,
    },
    prices: job.prices ?? null,
    queue: flags.queue ?? env.queue,
    stateDir: env.stateDir,
    logLevel: logLevelOf(flags.logLevel ?? env.logLevel),
    emulated: flags.emulate ?? false,
    work: flags.work ?? true,
    restart: flags.restart ?? false,
    overwrite: flags.overwrite ?? false,
  });
}

/**
 * Rows in a chunk: whole requests, as many as are called at once, and at most about a hundred. A larger chunk makes
 * the queue's share of the work smaller (bench/overhead: 100 rows instead of 50 are 9 % more rows a second on Redis
 * and 20 % more embedded), and takes more rows away from other workers.
 */
function chunkSize(concurrency: number, promptsPerRequest: number): number {
  const requests = Math.min(Math.ceil(100 / promptsPerRequest), concurrency);
  return requests * promptsPerRequest;
}

/** An empty budget is none. */
function budgetOf({ budget }: Job['limits']): Settings['limits']['budget'] {
  if (budget?.tokens === undefined && budget?.cost === undefined) return null;
  return { tokens: budget.tokens ?? null, cost: budget.cost ?? null };
}

function answerSpec(answer: Job['answer']): AnswerSpec {
  if (answer === undefined) return { kind: 'text' };
  if ('labels' in answer) return { kind: 'labels', labels: answer.labels };
  return { kind: 'json', schema: answer.json satisfies { [key: string]: Json } };
}

/** In the format of the input, where an output can have it. */
function defaultOutput(job: string, format: string | undefined, input: string): string {
  const name = format ?? formatOfName(input)?.name;
  const { endings } = OUTPUT_FORMATS.find((known) => known.name === name) ?? OUTPUT_FORMATS[0];
  return join('out', `${job}${endings[0]}`);
}

/** @throws UsageError naming the value received */
export function logLevelOf(value: string): LogLevel {
  const level = LOG_LEVELS.find((known) => known === value.toLowerCase());
  if (level !== undefined) return level;
  throw new UsageError('bad_log_level', `log level must be one of ${LOG_LEVELS.join(', ')}, got ${value}`);
}
