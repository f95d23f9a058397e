import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { type AnswerSource, type Fault, STATUSES, type Usage } from '../model.js';
import { writtenSchema } from '../output/written.js';
import { CALLS, eachOf } from '../store/counters.js';
import { driftSchema } from './drift.js';
import type { GoldTally } from './gold-tally.js';
import { percentiles } from './latency.js';
import { invalidOf } from './require.js';
import { scoresOf, scoresSchema } from './scores.js';
import { type StepFacts, stepFactsSchema } from './steps.js';
import { rowsCalled, type Tally, tallySchema } from './tally.js';
import { timelineSchema } from './timeline.js';
import { amount, counts, type DeepReadonly, moment, words } from './untrusted.js';

/** Currency units per 1,000 tokens. */
export interface Prices {
  readonly prompt: number;
  readonly completion: number;
}

const filterCounts = z.record(z.string(), counts);
const milliseconds = amount.nullable();

/** In the order in which they are shown. */
export const SOURCES = [
  'read',
  'repaired',
  'asked_again',
  'voted',
  'escalated',
] as const satisfies AnswerSource[];

/** Characters of a prompt template that are kept. */
const LONGEST_PROMPT = 20_000;

const rowCounts = z.object({ total: amount, ...eachOf(STATUSES, () => amount) });
const usage = z.object({ prompt_tokens: amount, completion_tokens: amount, total_tokens: amount });

/** What the figures of a summary are made of and cannot be made again out of them; for reports, retries and comparisons. */
const detailsSchema = z.object({
  v: z.literal(1),
  /** What all other figures are counted in. */
  tally: tallySchema,
  /** What came of the steps at the end of the run. */
  steps: stepFactsSchema,
  timeline: timelineSchema,
  /** What the records depend on, by part, in short: as in the manifest. */
  settings: z.record(z.string(), z.string()),
  /** What the job says of its speed, its patience and its budget; `null` where it says nothing. Times are seconds. */
  limits: z.object({
    concurrency: amount,
    requests_per_minute: amount.nullable(),
    tokens_per_minute: amount.nullable(),
    prompts_per_request: amount,
    timeout_s: amount,
    attempts: amount,
    unknown_outcome: words,
    budget: z.object({ tokens: amount.nullable(), cost: amount.nullable() }),
    give_up_s: amount,
    deadline_s: amount.nullable(),
    /** A number of rows that end so, or a share below 1, stops the run. */
    stop_after: z.object({ failures: amount.nullable(), abstained: amount.nullable() }),
    /** Rows that go ahead; 0 is none. */
    canary: amount,
  }),
  /** Size of the input file. */
  input_bytes: amount,
  /** The template, its first 20,000 characters; `null` where each row has a prompt of its own. */
  prompt: z.string().nullable(),
  /** By which the output is known to be what was written. In every file; not in what is printed of a run that has no output. */
  written: z.exactOptional(writtenSchema),
  /** What a merge of answers makes of output and summary. Where it was killed, the output says which of both it came to. */
  next: z.exactOptional(
    z.object({ written: writtenSchema, merged_review: z.object({ rows: amount, at: moment }) }),
  ),
  /** SHA-256 of the summary without this field, as JSON without spaces. */
  check: z.exactOptional(z.string()),
});

/** A few figures of the run of the job before this one. A share is a number from 0 to 1. */
const lastRunSchema = z.object({
  run: words,
  output: words,
  finished_at: moment,
  rows: rowCounts,
  answers: counts,
  answers_invalid: amount,
  usage,
  cost: amount.nullable(),
  /** Median latency in milliseconds. */
  p50: milliseconds,
  accuracy: amount.nullable(),
});

/**
 * `summary.json`: fields, names and order are fixed. This is the one place that knows them: the type, and what status and
 * dashboard read of a run's heartbeat, come from it.
 */
export const summarySchema = z.object({
  run: words,
  job: words,
  /** The path of the job file as it was given; not there for a job that is no file. */
  job_file: z.exactOptional(words),
  deployment: words,
  api_version: words,
  /** An emulator answered (`--emulate`), and not the service. */
  emulated: z.boolean(),
  /** `rows` is what the run was asked to do; a stopped run has done fewer. */
  input: z.object({ path: words, sha256: words, rows: amount }),
  output: words,
  /** ISO 8601. */
  started_at: moment,
  /** ISO 8601. */
  finished_at: moment,
  /** Seconds that the run took, waits for the service included. */
  duration_s: amount,
  /** Why the run stopped early, as `code: message`; `null` when it finished. */
  stopped: words.nullable(),
  /** What a run that finished has missed of what its job asks, as `code: message`; `null` when nothing. */
  missed: words.nullable(),
  /**
   * Only of a run of `promptmill serve` whose answers are below `answer.require`: `output` has `.rejected` before its ending. The
   * newest output of the job that is good stays where it is; `null` where there is none.
   */
  rejected: z.exactOptional(z.object({ good_output: words.nullable() })),
  rows: rowCounts,
  finish_reasons: counts,
  answers: counts,
  /** Completed rows whose answer is invalid. */
  answers_invalid: amount,
  /** Completed rows whose label was left out for want of confidence. */
  answers_abstained: amount,
  /** Completed rows with an answer, by where it comes from. */
  answer_sources: z.object(eachOf(SOURCES, () => amount)),
  /** Labels whose confidence is not known, although the job asks for it. Only where there are any. */
  answers_without_confidence: z.exactOptional(amount),
  usage,
  /** Rows whose token counts are estimates: shares of a request, or our own. Only where there are any. */
  usage_estimated: z.exactOptional(amount),
  /** In the currency of the prices; `null` without prices. */
  cost: amount.nullable(),
  filters: z.object({ prompt: filterCounts, completion: filterCounts }),
  errors: counts,
  /** One message of each code of `errors`, the first that came. Only where there are any; never in a run's heartbeat. */
  error_samples: z.exactOptional(z.record(z.string(), words)),
  calls: z.object(eachOf(CALLS, () => amount)),
  latency_ms: z.object({
    p50: milliseconds,
    p90: milliseconds,
    p95: milliseconds,
    p99: milliseconds,
    max: milliseconds,
  }),
  /** `rows.total / duration_s`. */
  rows_per_second: amount,
  /** Answers against the right ones; only of a job with `answer.gold`. A run's heartbeat has no figures of single labels. */
  scores: z.exactOptional(scoresSchema),
  /**
   * Answers of people that were put into the output since, added up over all merges (`promptmill merge-review`), and when the last
   * was; one that replaces an earlier one counts again. The other figures are the run's.
   */
  merged_review: z.exactOptional(z.object({ rows: amount, at: moment })),
  /**
   * Rows that were called again since, added up over all retries (`promptmill retry`), and when the last ended. Rows and answers
   * are counted as they are now; what the calls took is added up.
   */
  retried: z.exactOptional(z.object({ rows: amount, at: moment })),
  /** Rows that were not called; only of a job with `input.dedupe` or `input.only_new`. */
  reused: z.exactOptional(z.object({ copied: amount, carried: amount })),
  /** Only of a job with `drift` whose last run was found. */
  drift: z.exactOptional(driftSchema),
  /** The run before. Only where the job has one whose files are there. */
  last_run: z.exactOptional(lastRunSchema),
  /** Rows of the input that `--limit` left out. */
  beyond: z.exactOptional(amount),
  /** Never in a run's heartbeat. */
  details: detailsSchema,
});

export type StoredSummary = DeepReadonly<z.output<typeof summarySchema>>;

/** The same, or what a run's heartbeat says of it: without the details. */
export type Summary = Omit<StoredSummary, 'details'> & Partial<Pick<StoredSummary, 'details'>>;

/** What of the details is not in the tally. */
type DetailParts = Pick<
  StoredSummary['details'],
  'timeline' | 'settings' | 'limits' | 'input_bytes' | 'prompt'
>;

/** What a summary is made of. */
export interface SummaryParts
  extends Pick<
    Summary,
    | 'run'
    | 'job'
    | 'job_file'
    | 'deployment'
    | 'api_version'
    | 'emulated'
    | 'input'
    | 'output'
    | 'started_at'
    | 'finished_at'
    | 'duration_s'
    | 'calls'
  > {
  readonly stopped: Fault | null;
  readonly missed: Fault | null;
  /** @default the run was not rejected */
  readonly rejected?: Summary['rejected'];
  readonly tally: Tally;
  readonly prices: Prices | null;
  /** Whether the job reuses outcomes. @default false */
  readonly reuses?: boolean;
  /** Whether the job has right answers to score by. @default false */
  readonly hasGold?: boolean;
  /** What became of the output since it had its first rows. @default nothing */
  readonly since?: Pick<Summary, 'merged_review' | 'retried'> | undefined;
  /** What came of the last steps. @default nothing: rows are left */
  readonly steps?: StepFacts;
  readonly details: DetailParts;
  /** The run of the job before this one. @default there is none, or the run is not at its end */
  readonly lastRun?: { readonly output: string; readonly summary: Summary } | null;
}

/** @throws AssertionError when the rows do not add up, which is a defect of Promptmill */
export function summarise(parts: SummaryParts): StoredSummary {
  const { tally, stopped, missed, prices, input, calls, steps = {} } = parts;
  const { total, completed, filtered, failed, skipped } = tally.rows;
  assert.equal(total, completed + filtered + failed + skipped, 'rows do not add up to their total');
  return {
    run: parts.run,
    job: parts.job,
    ...(parts.job_file !== undefined && { job_file: parts.job_file }),
    deployment: parts.deployment,
    api_version: parts.api_version,
    emulated: parts.emulated,
    input: { path: input.path, sha256: input.sha256, rows: input.rows },
    output: parts.output,
    started_at: parts.started_at,
    finished_at: parts.finished_at,
    duration_s: rounded(parts.duration_s, 3),
    stopped: reasonOf(stopped),
    missed: reasonOf(missed),
    ...(parts.rejected && { rejected: parts.rejected }),
    rows: { total, completed, filtered, failed, skipped },
    finish_reasons: tally.finish_reasons,
    answers: tally.answers,
    answers_invalid: invalidOf(tally),
    answers_abstained: tally.abstained ?? 0,
    answer_sources: sourcesOf(tally),
    ...(tally.without_confidence !== undefined && {
      answers_without_confidence: tally.without_confidence,
    }),
    usage: tally.usage,
    ...(tally.estimated !== undefined && { usage_estimated: tally.estimated }),
    cost: prices && costOf(tally.usage, prices),
    filters: tally.filters,
    errors: tally.errors,
    ...(tally.samples !== undefined && { error_samples: tally.samples }),
    calls: eachOf(CALLS, (name) => calls[name]),
    latency_ms: percentiles(tally.latency),
    rows_per_second: parts.duration_s > 0 ? rounded(total / parts.duration_s, 2) : 0,
    ...(parts.hasGold && {
      scores: {
        ...scoresOf(tally.gold ?? NO_GOLD),
        ...(steps.abstain && { abstention: steps.abstain }),
      },
    }),
    ...parts.since,
    ...(parts.reuses && {
      reused: { copied: tally.reused?.copied ?? 0, carried: tally.reused?.carried ?? 0 },
    }),
    ...(steps.drift && { drift: steps.drift }),
    ...(parts.lastRun && { last_run: inBrief(parts.lastRun) }),
    details: {
      v: 1,
      tally,
      steps,
      ...parts.details,
      prompt: parts.details.prompt?.slice(0, LONGEST_PROMPT) ?? null,
    },
  };
}

const inBrief = ({
  output,
  summary,
}: NonNullable<SummaryParts['lastRun']>): NonNullable<Summary['last_run']> => ({
  run: summary.run,
  output,
  finished_at: summary.finished_at,
  rows: summary.rows,
  answers: summary.answers,
  answers_invalid: summary.answers_invalid,
  usage: summary.usage,
  cost: summary.cost,
  p50: summary.latency_ms.p50,
  accuracy: summary.scores?.accuracy?.value ?? null,
});

/** `summary.json`. The details have hundreds of numbers, and stand on one line. */
export function summaryText(summary: StoredSummary): string {
  const { details, ...figures } = { ...summary, details: { ...summary.details, check: checkOf(summary) } };
  const text = JSON.stringify(figures, null, 2);
  return `${text.slice(0, -'\n}'.length)},\n  "details": ${JSON.stringify(details)}\n}\n`;
}

/** What a summary says in `details.check`. @param summary as it is written, or as `JSON.parse` gives it */
export function checkOf({ details, ...figures }: Pick<StoredSummary, 'details'>): string {
  const { check: _, ...told } = details;
  return createHash('sha256')
    .update(JSON.stringify({ ...figures, details: told }))
    .digest('hex');
}

/** An answer is read as it is where nothing else is counted for its row. */
function sourcesOf(tally: Tally): Summary['answer_sources'] {
  const others = Object.values(tally.sources ?? {}).reduce((sum, n) => sum + n, 0);
  const read = tally.rows.completed - invalidOf(tally) - (tally.abstained ?? 0) - others;
  return { ...eachOf(SOURCES, (source) => tally.sources?.[source] ?? 0), read };
}

const reasonOf = (fault: Fault | null): string | null => fault && `${fault.code}: ${fault.message}`;

const NO_GOLD: GoldTally = { rows: 0, right: 0, unanswered: 0 };

/** How rows ended, in parts that add up to all of them: completed rows by their answers, where not all of them have a valid one. */
export function outcomeParts(summary: Reconciled): [name: string, rows: number][] {
  const { rows, answers_invalid: invalid, answers_abstained: abstained } = summary;
  const answered = rows.completed - invalid - abstained;
  const completed: [string, number][] =
    answered === rows.completed
      ? [['completed', answered]]
      : [
          ['answered', answered],
          ['invalid', invalid],
          ...(abstained === 0 ? [] : [['abstained', abstained] as [string, number]]),
        ];
  const { filtered, failed, skipped } = rows;
  return [...completed, ['filtered', filtered], ['failed', failed], ['skipped', skipped]];
}

/** What is counted of rows and their answers. */
export type Reconciled = Pick<Summary, 'rows' | 'answers_invalid' | 'answers_abstained'>;

/** Rows a second, of those that were called: the others would make a run of few calls a fast one. */
export const calledPerSecond = (summary: Summary): number =>
  summary.duration_s > 0 ? rowsCalled(summary) / summary.duration_s : 0;

/** What tokens cost, in the currency of the prices. */
export function costOf(usage: Pick<Usage, 'prompt_tokens' | 'completion_tokens'>, prices: Prices): number {
  return rounded(
    (usage.prompt_tokens * prices.prompt + usage.completion_tokens * prices.completion) / 1000,
    6,
  );
}

function rounded(value: number, decimals: number): number {
  return Number(value.toFixed(decimals));
}
