import { join } from 'node:path';
import type { AnswerSpec } from '../answer/answer-spec.js';
import { UsageError } from '../errors.js';
import type { Json, Parameters } from '../model.js';
import { OUTPUT_FORMATS, outputFormatOf } from '../output/format.js';
import { isMarked, marked } from '../output/output-name.js';
import type { FixedParameters } from '../prompt/row-request.js';
import type { ReuseSettings } from '../reuse/keys.js';
import type { EndpointSpec } from '../service/endpoint-spec.js';
import { formatNamed, formatOfName } from '../source/format.js';
import type { Environment } from './environment.js';
import { durationMs, FIXED_PARAMETERS, type Job, type NamedJob, sureness } from './job-schema.js';
import { labelNames } from './labels-schema.js';
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
  const { service, limits } = job;
  const concurrency = flags.concurrency ?? limits.concurrency;
  const promptsPerRequest = limits.prompts_per_request;
  const inputPath = flags.input ?? job.input.path;
  const format = flags.format === undefined ? job.input.format : formatNamed(flags.format).name;
  const usualOutput = defaultOutput(job.name, format, inputPath);
  const outputPath = placeFor(flags.output ?? job.output.path ?? usualOutput, flags);
  const namedOutput =
    job.output.path === undefined || job.output.path === '-' ? usualOutput : job.output.path;
  return Object.freeze({
    job: job.name,
    /** As it was named; `null` for a job that is no file. */
    jobFile: job.file ?? null,
    endpoint: Object.freeze<EndpointSpec>({
      deployment: service.deployment,
      // Only where it is named: runs of versions that did not know it go on.
      ...(service.model !== undefined && { model: service.model }),
      apiVersion: service.api_version,
      style: service.style,
      timeoutMs: limits.timeout_seconds * 1000,
    }),
    input: Object.freeze({
      path: inputPath,
      /** How messages call it. */
      name: inputPath === '-' ? 'standard input' : inputPath,
      ...(format !== undefined && { format }),
      ...(job.input.encoding !== undefined && { encoding: job.input.encoding }),
      ...(job.input.delimiter !== undefined && { delimiter: job.input.delimiter }),
      require: job.input.require,
      /** Only the first so many rows; `null` is all of them. */
      limit: flags.limit ?? null,
    }),
    /** Rows that need not be called. */
    reuse: Object.freeze<ReuseSettings>({
      dedupe: job.input.dedupe,
      onlyNew: job.input.only_new,
      id: job.input.id ?? null,
    }),
    prompt: job.prompt ?? null,
    parameters: requestParameters(job),
    rowParameters: job.row_parameters,
    /** Parameters that a row may not change. */
    fixedParameters: fixedParameters(job),
    answer: answerSpec(job.answer),
    /** What is done with answers that do not fit; `null` where nothing is. */
    onInvalid: onInvalidOf(job.answer),
    /** The record says where its answer comes from. */
    answerSource: onInvalidOf(job.answer) !== null || 'votes' in answerSpec(job.answer),
    /** What is asked of the answers; `null` where the answer is the text. It may change between executions. */
    require: job.answer?.require ?? null,
    /** Column of the input with the right answers; `null` where the job names none. */
    gold: job.answer?.gold ?? null,
    output: Object.freeze({
      /** With `{{date}}` and `{{run}}` still in it; `-` is standard output. */
      path: outputPath,
      format: outputFormatOf(outputPath === '-' ? namedOutput : outputPath),
      columns: job.output.columns ?? null,
      formulas: job.output.formulas,
      /** A column for the probability of each label. */
      probabilities: job.output.probabilities,
    }),
    limits: Object.freeze({
      concurrency,
      chunkSize: limits.chunk_size ?? chunkSize(concurrency, promptsPerRequest),
      promptsPerRequest,
      /** Quota of the deployment; `null` where the job says nothing. */
      requestsPerMinute: limits.requests_per_minute ?? null,
      tokensPerMinute: limits.tokens_per_minute ?? null,
      tokenEstimate: limits.token_estimate,
      attempts: limits.attempts,
      /** What becomes of a row of whose call nobody knows the end. */
      unknownOutcome: limits.unknown_outcome,
      /** Time without an answered row after which a run stops, in milliseconds. */
      giveUpMs: durationMs(limits.give_up_after),
      /** Rows that may be without an answer, or a fraction of the rows so far. */
      stopAfterFailures: mostUnanswered(limits.stop_after_failures),
      /** Longest time of one execution, in milliseconds. */
      deadlineMs: limits.deadline === undefined ? null : durationMs(limits.deadline),
      /** What the run may be billed in all its executions together; `null` is no limit. */
      budget: budgetOf(limits),
      /** Rows that go ahead of the rest, and must be good enough; 0 is none. */
      canary: limits.canary ?? 0,
    }),
    prices: pricesOf(job),
    /** The answers are compared with those of the last run; `null` where they are not. It may change between executions. */
    drift: job.drift ?? null,
    /** A report is written beside the output. */
    report: job.report,
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

/** A number is that of failures. */
const mostUnanswered = (most: Job['limits']['stop_after_failures']) =>
  typeof most === 'number' ? { failures: most } : (most ?? {});

/** An empty budget is none. */
function budgetOf({
  budget,
}: Job['limits']): { readonly tokens: number | null; readonly cost: number | null } | null {
  if (budget?.tokens === undefined && budget?.cost === undefined) return null;
  return { tokens: budget.tokens ?? null, cost: budget.cost ?? null };
}

/** As much as the service says of a token, of its likeliest choice. */
const LOGPROBS = { logprobs: 5, temperature: 0 } as const;

function requestParameters({ answer, parameters }: Job): Parameters {
  const { confidence, votes } = sureness(answer);
  if (votes !== undefined) return { ...parameters, n: votes };
  return confidence === undefined ? parameters : { ...parameters, ...LOGPROBS };
}

function fixedParameters({ answer }: Job): FixedParameters | null {
  const { confidence, votes } = sureness(answer);
  if (votes !== undefined) return FIXED_PARAMETERS.votes;
  return confidence === undefined ? null : FIXED_PARAMETERS.confidence;
}

function answerSpec(answer: Job['answer']): AnswerSpec {
  if (answer === undefined) return { kind: 'text' };
  if ('labels' in answer) {
    const names = labelNames(answer.labels);
    const synonyms = names.map(([, ...others]) => others);
    return {
      kind: 'labels',
      labels: names.map(([label]) => label),
      // Only where they are said: runs of versions that did not know them go on.
      ...(synonyms.some((others) => others.length > 0) && { synonyms }),
      ...(answer.multiple && { multiple: true }),
      ...(answer.confidence && { confidence: answer.confidence }),
      ...(answer.votes !== undefined && { votes: answer.votes }),
      ...(answer.abstain_below !== undefined && { abstainBelow: answer.abstain_below }),
      ...(answer.abstain !== undefined && { abstainFor: answer.abstain.accuracy }),
    };
  }
  if ('number' in answer) {
    const { min, max, integer } = answer.number;
    return {
      kind: 'number',
      ...(min !== undefined && { min }),
      ...(max !== undefined && { max }),
      ...(integer && { integer: true }),
      ...(answer.votes !== undefined && { votes: answer.votes }),
    };
  }
  return {
    kind: 'json',
    schema: answer.json satisfies { [key: string]: Json },
    ...(answer.on_invalid?.repair && { repair: true }),
  };
}

/** `askAgain` times the own deployment, with `prompt` (`null`: the default), then `deployment` once (`null`: none). */
function onInvalidOf(answer: Job['answer']) {
  const {
    repair = false,
    ask_again: askAgain = 0,
    prompt = null,
    deployment = null,
  } = answer?.on_invalid ?? {};
  if (!repair && askAgain === 0 && deployment === null) return null;
  return Object.freeze({ repair, askAgain, prompt, deployment });
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
