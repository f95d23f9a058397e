import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { CALLS, eachOf } from '../core/counters.js';
import { count } from '../core/figures.js';
import { type AnswerSource, type Problem, STATUSES, type Tokens, type Usage } from '../core/model.js';
import { writtenSchema } from '../output/written.js';
import { driftSchema } from './drift.js';
import type { GoldTally } from './gold-tally.js';
import { percentiles } from './latency.js';
import { invalidOf, refusedOf } from './require.js';
import { scoresOf, scoresSchema } from './scores.js';
import { type StepFacts, stepFactsSchema } from './steps.js';
import { rowsCalled, type Tally, tallySchema } from './tally.js';
import { timelineSchema } from './timeline.js';
import { amount, counts, type DeepReadonly, moment, named, words } from './untrusted.js';

/** Per 1,000 tokens. */
export interface Prices {
  readonly prompt: number;
  /** Of prompt tokens from the service's cache. @default as the others */
  readonly cached?: number | undefined;
  readonly completion: number;
  /** Factors of these for the answers of other tiers. @default 0.5 */
  readonly flex?: number | undefined;
  readonly batch?: number | undefined;
  /** ISO 4217. @default unknown */
  readonly currency?: string | undefined;
}

const filterCounts = z.record(z.string(), counts);
const milliseconds = amount.nullable();

/** In display order. */
export const SOURCES = [
  'read',
  'repaired',
  'asked_again',
  'voted',
  'escalated',
] as const satisfies AnswerSource[];

/** Characters. */
const LONGEST_PROMPT = 20_000;

const rowCounts = z.object({ total: amount, ...eachOf(STATUSES, () => amount) });
const usage = z.object({
  prompt_tokens: amount,
  completion_tokens: amount,
  total_tokens: amount,
  /** Parts of the two; absent where the service tells of none. */
  cached_tokens: z.exactOptional(amount),
  reasoning_tokens: z.exactOptional(amount),
});

/** Data that cannot be recomputed from the figures, for reports, retries and comparisons. */
const detailsSchema = z.object({
  v: z.literal(1),
  /** All other figures are computed from it. */
  tally: tallySchema,
  steps: stepFactsSchema,
  timeline: timelineSchema,
  /** What the records depend on, by part, shortened, as in the manifest. */
  settings: z.record(z.string(), z.string()),
  /** The job's limits and budget; `null` where it sets none. Times are seconds. */
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
    /** That many rows, or a share below 1, stop the run. */
    stop_after: z.object({ failures: amount.nullable(), abstained: amount.nullable() }),
    /** Rows that go ahead; 0: none. */
    canary: amount,
  }),
  /** Besides the figures, what the run goes on with when rows are added to its output. */
  state: z.object({
    /** Hashes of what the records depend on, by part; `values`, or else `settings`, has the parts. */
    fingerprint: z.record(z.string(), z.string()),
    /** Set after a retry, whose own parts are in `settings`. */
    values: z.record(z.string(), z.string()).exactOptional(),
    execution: z.int().positive(),
    /** Billed for all calls, also for those whose answers are not in the output. */
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
    /** When its first call in the flex tier was, in ms since 1970; absent in other tiers. */
    flex_since: amount.exactOptional(),
    /** The sample whose answers a run over the first rows knows, by the name of its run. */
    sample: words.exactOptional(),
  }),
  /** Bytes of the input file. */
  input_bytes: amount,
  /** The template's first 20,000 characters; `null` if each row has its own prompt. */
  prompt: z.string().nullable(),
  /** Fingerprint of the output. In every file, but not in what is printed for a run without an output. */
  written: z.exactOptional(writtenSchema),
  /** Set while answers are merged. If that is killed, the output matches either `written` or this. */
  next: z.exactOptional(
    z.object({ written: writtenSchema, merged_review: z.object({ rows: amount, at: moment }) }),
  ),
  /** SHA-256 of the summary without this field, as JSON without spaces. */
  check: z.exactOptional(z.string()),
});

/** Figures of the job's previous run. Shares are from 0 to 1. */
const lastRunSchema = z.object({
  run: words,
  output: words,
  finished_at: moment,
  rows: rowCounts,
  answers: counts,
  answers_invalid: amount,
  usage,
  cost: amount.nullable(),
  /** Median in milliseconds. */
  p50: milliseconds,
  accuracy: amount.nullable(),
});

/** `summary.json`: fields, names and order are fixed. Heartbeats of runs are read with it as well. */
export const summarySchema = z.object({
  run: words,
  job: words,
  /** As given; absent for a job that is no file. */
  job_file: z.exactOptional(words),
  /** Other values for fields of that file, as `path=value`; absent if none. */
  job_set: z.exactOptional(z.array(words)),
  deployment: words,
  api_version: words,
  /** An emulator answered (`--emulate`), not the service. */
  emulated: z.boolean(),
  /** `rows`: what the run was asked to do; a stopped run has done fewer. */
  input: z.object({ path: words, sha256: words, rows: amount }),
  output: words,
  started_at: moment,
  finished_at: moment,
  /** Seconds, waits for the service included. */
  duration_s: amount,
  /** Why the run stopped early, as `code: message`; `null` if it finished. */
  stopped: words.nullable(),
  /** What a finished run misses of its job's requirements, as `code: message`; `null` if nothing. */
  missed: words.nullable(),
  /**
   * Only of a `promptmill serve` run below `answer.require`: `output` has `.rejected` before its ending, and
   * the job's newest good output stays; `null` if there is none.
   */
  rejected: z.exactOptional(z.object({ good_output: words.nullable() })),
  rows: rowCounts,
  finish_reasons: counts,
  answers: counts,
  /** Of answers in JSON: enums, numbers and booleans by property, and their rows by value; absent if none, and in heartbeats. */
  properties: z.exactOptional(named(counts)),
  /** Completed rows with an invalid answer. */
  answers_invalid: amount,
  /** Completed rows that the model refused to answer. */
  answers_refused: amount,
  /** Completed rows whose label was left out for low confidence. */
  answers_abstained: amount,
  /** Completed rows with an answer, by its origin. */
  answer_sources: z.object(eachOf(SOURCES, () => amount)),
  /** Labels without a confidence although the job asks for it; absent if 0. */
  answers_without_confidence: z.exactOptional(amount),
  usage,
  /** Rows whose token counts are estimates: a share of a request, or our own count; absent if 0. */
  usage_estimated: z.exactOptional(amount),
  /** `null` without prices. So are the other amounts of money. */
  cost: amount.nullable(),
  /** ISO 4217, of all amounts of money; absent where the prices do not say. */
  currency: z.exactOptional(words),
  /** Of all rows, those without a call included. */
  cost_per_1000_rows: amount.nullable(),
  /** Of a usable one: completed, and neither invalid, refused nor abstained. */
  cost_per_answer: amount.nullable(),
  /** Only of a job with several, by name. `rows`: those that it answered. */
  endpoints: z.exactOptional(
    z.record(
      z.string(),
      z.object({ calls: amount, rows: amount, usage, cost: amount.nullable(), rate_limited: amount }),
    ),
  ),
  /** Only of a job that asks for another tier than online, or has known answers (`done`), by the name that the service says. `rows`: those that it answered. */
  tiers: z.exactOptional(z.record(z.string(), z.object({ rows: amount, usage, cost: amount.nullable() }))),
  /** What the same answers would have cost online, less what was paid; `null` without prices. Where there are `tiers`. */
  saved: z.exactOptional(amount.nullable()),
  /** Those of the batch tier, in the order of their rows. `file`: name of the input file; `answered`: as the service counts. */
  batches: z.exactOptional(
    z.array(
      z.object({
        id: words,
        file: words,
        requests: amount,
        answered: amount.nullable(),
        status: words,
        created_at: moment.nullable(),
        ended_at: moment.nullable(),
      }),
    ),
  ),
  filters: z.object({ prompt: filterCounts, completion: filterCounts }),
  errors: counts,
  /** The first message of each code of `errors`; absent if none, and in heartbeats. */
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
  /** Only of a job with `answer.gold`. Heartbeats omit single labels. */
  scores: z.exactOptional(scoresSchema),
  /**
   * Rows whose answer a person gave since (`promptmill merge-review`), over all merges, and when the last
   * was. An answer that replaces an earlier one counts again. The other figures are the run's.
   */
  merged_review: z.exactOptional(z.object({ rows: amount, at: moment })),
  /**
   * Rows called again since (`promptmill retry`), over all retries, and when the last ended. Rows and answers
   * are counted as they are now; calls add up.
   */
  retried: z.exactOptional(z.object({ rows: amount, at: moment })),
  /** Rows not called; only of a job with `input.dedupe` or `input.only_new`. */
  reused: z.exactOptional(z.object({ copied: amount, carried: amount })),
  /** Only of a job with `drift` whose last run was found. */
  drift: z.exactOptional(driftSchema),
  /** Only if the files of the job's previous run exist. */
  last_run: z.exactOptional(lastRunSchema),
  /** Only of a run over a sample of its input (`--sample`). */
  sample: z.exactOptional(z.object({ rows: amount, seed: amount, by: words.nullable() })),
  /** Input rows that `--limit` or `--sample` left out. */
  beyond: z.exactOptional(amount),
  /** Never in a heartbeat. */
  details: detailsSchema,
});

export type StoredSummary = DeepReadonly<z.output<typeof summarySchema>>;

/** A summary, or a heartbeat's: without the details. */
export type Summary = Omit<StoredSummary, 'details'> & Partial<Pick<StoredSummary, 'details'>>;

type DetailParts = Pick<
  StoredSummary['details'],
  'timeline' | 'settings' | 'state' | 'limits' | 'input_bytes' | 'prompt'
>;

export interface SummaryParts
  extends Pick<
    Summary,
    | 'run'
    | 'job'
    | 'job_file'
    | 'job_set'
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
  readonly stopped: Problem | null;
  readonly missed: Problem | null;
  /** @default not rejected */
  readonly rejected?: Summary['rejected'];
  readonly tally: Tally;
  readonly prices: Prices | null;
  /** @default unknown */
  readonly currency?: string | undefined;
  /** Of a job with several: their prices and calls. @default it has one */
  readonly byEndpoint?: readonly EndpointFigures[];
  /** Whether the job asks for another tier than online. @default false */
  readonly hasTiers?: boolean;
  /** @default the job has none */
  readonly batches?: Summary['batches'];
  /** Whether the job reuses outcomes. @default false */
  readonly reuses?: boolean;
  /** @default false */
  readonly hasGold?: boolean;
  /** Later changes of the output. @default none */
  readonly since?: Pick<Summary, 'merged_review' | 'retried'> | undefined;
  /** @default none: rows are left */
  readonly steps?: StepFacts;
  readonly details: DetailParts;
  /** @default none */
  readonly sample?: Summary['sample'] | null;
  /** The job's previous run. @default none, or the run is not at its end */
  readonly lastRun?: { readonly output: string; readonly summary: Summary } | null;
}

/** One of several endpoints: what the tally does not have. */
interface PricedEndpoint {
  readonly name: string;
  readonly prices: Prices | null;
}

interface EndpointFigures extends PricedEndpoint {
  readonly calls: number;
  readonly rate_limited: number;
}

/** @throws AssertionError when the rows do not add up, which is a defect of Promptmill */
export function summarise(parts: SummaryParts): StoredSummary {
  const { tally, stopped, missed, byEndpoint, input, calls, steps = {} } = parts;
  const { total, completed, filtered, failed, skipped } = tally.rows;
  assert.equal(total, completed + filtered + failed + skipped, 'rows do not add up to their total');
  return {
    run: parts.run,
    job: parts.job,
    ...(parts.job_file !== undefined && { job_file: parts.job_file }),
    ...(parts.job_set !== undefined && { job_set: parts.job_set }),
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
    ...(tally.properties && { properties: tally.properties }),
    answers_invalid: invalidOf(tally) - refusedOf(tally),
    answers_refused: refusedOf(tally),
    answers_abstained: tally.abstained ?? 0,
    answer_sources: sourcesOf(tally),
    ...(tally.without_confidence !== undefined && {
      answers_without_confidence: tally.without_confidence,
    }),
    usage: tally.usage,
    ...(tally.estimated !== undefined && { usage_estimated: tally.estimated }),
    ...moneyOf(paidFor(tally, parts), tally, parts.currency),
    ...(byEndpoint && { endpoints: endpointsIn(tally, byEndpoint) }),
    ...((parts.hasTiers || tally.tiers) && {
      tiers: tiersIn(tally, parts.prices),
      saved: savedIn(tally, parts.prices),
    }),
    ...(parts.batches && { batches: parts.batches }),
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
    ...(parts.sample && { sample: parts.sample }),
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

/** The details have hundreds of numbers, and stay on one line. */
export function summaryText(summary: StoredSummary): string {
  const { details, ...figures } = { ...summary, details: { ...summary.details, check: checkOf(summary) } };
  const text = JSON.stringify(figures, null, 2);
  return `${text.slice(0, -'\n}'.length)},\n  "details": ${JSON.stringify(details)}\n}\n`;
}

/** `details.check`. @param summary as written, or as `JSON.parse` returns it */
export function checkOf({ details, ...figures }: Pick<StoredSummary, 'details'>): string {
  const { check: _, ...told } = details;
  return createHash('sha256')
    .update(JSON.stringify({ ...figures, details: told }))
    .digest('hex');
}

/** Answers that no other source counts are `read`. */
function sourcesOf(tally: Tally): Summary['answer_sources'] {
  const others = Object.values(tally.sources ?? {}).reduce((sum, n) => sum + n, 0);
  const read = tally.rows.completed - invalidOf(tally) - (tally.abstained ?? 0) - others;
  return { ...eachOf(SOURCES, (source) => tally.sources?.[source] ?? 0), read };
}

const reasonOf = (problem: Problem | null): string | null => problem && `${problem.code}: ${problem.message}`;

const NO_GOLD: GoldTally = { rows: 0, right: 0, unanswered: 0 };

/** By how rows ended; the parts add up to the total. Completed rows are split unless all are answered. */
export function outcomeParts(summary: Reconciled): [name: string, rows: number][] {
  const { rows } = summary;
  const without = unanswered(summary);
  const answered = without.reduce((left, [, count]) => left - count, rows.completed);
  const completed: [string, number][] =
    answered === rows.completed
      ? [['completed', answered]]
      : [['answered', answered], ...without.filter(([name, count]) => name === 'invalid' || count > 0)];
  const { filtered, failed, skipped } = rows;
  return [...completed, ['filtered', filtered], ['failed', failed], ['skipped', skipped]];
}

/** Completed rows without an answer, by why. */
const unanswered = (summary: Reconciled): [name: string, rows: number][] => [
  ['invalid', summary.answers_invalid],
  ['refused', summary.answers_refused],
  ['abstained', summary.answers_abstained],
];

/** `answers.invalid 7`, and what else left completed rows without an answer. */
export const unansweredTexts = (summary: Reconciled): string[] =>
  unanswered(summary).flatMap(([name, of]) => (of === 0 ? [] : [`answers.${name} ${count(of)}`]));

/** Refusals included: what `answer.require` counts as invalid. */
export const invalidIn = ({
  answers_invalid: invalid,
  answers_refused: refused,
}: Pick<Summary, 'answers_invalid' | 'answers_refused'>): number => invalid + refused;

export type Reconciled = Pick<Summary, 'rows' | 'answers_invalid' | 'answers_refused' | 'answers_abstained'>;

/** Only rows that were called: reused rows would make a run of few calls look fast. */
export const calledPerSecond = (summary: Summary): number =>
  summary.duration_s > 0 ? rowsCalled(summary) / summary.duration_s : 0;

/** The fields of the summary for what the rows have cost. */
export function moneyOf(
  cost: number | null,
  tally: Tally,
  currency: string | undefined,
): Pick<Summary, 'cost' | 'currency' | 'cost_per_1000_rows' | 'cost_per_answer'> {
  const { rows, abstained = 0 } = tally;
  const usable = rows.completed - invalidOf(tally) - abstained;
  const per = (count: number): number | null =>
    cost === null || count <= 0 ? null : rounded(cost / count, 6);
  return {
    cost,
    ...(currency !== undefined && { currency }),
    cost_per_1000_rows: per(rows.total / 1000),
    cost_per_answer: per(usable),
  };
}

/** Null where an endpoint has no prices. */
export function paidFor(
  tally: Pick<Tally, 'usage' | 'endpoints' | 'tiers'>,
  { prices, byEndpoint }: Pick<SummaryParts, 'prices'> & { byEndpoint?: readonly PricedEndpoint[] },
): number | null {
  const { usage, endpoints: used = {} } = tally;
  if (byEndpoint === undefined)
    return (
      prices &&
      rounded(costOf(usage, prices) - (savedIn(tally, prices) ?? 0) - (paidElsewhere(tally, prices) ?? 0), 6)
    );
  return byEndpoint.reduce<number | null>((sum, { name, prices: own }) => {
    if (sum === null || own === null) return null;
    return rounded(sum + costOf(used[name]?.usage ?? NO_TOKENS, own), 6);
  }, 0);
}

const NO_TOKENS = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

const endpointsIn = (
  { endpoints: used = {} }: Tally,
  endpoints: readonly EndpointFigures[],
): NonNullable<Summary['endpoints']> =>
  Object.fromEntries(
    endpoints.map(({ name, prices, calls, rate_limited }) => {
      const { rows, usage } = used[name] ?? { rows: 0, usage: NO_TOKENS };
      return [name, { calls, rows, usage, cost: prices && costOf(usage, prices), rate_limited }];
    }),
  );

/** What a tier costs where the prices do not say, as a factor of them. */
const USUAL_FACTOR = 0.5;

/** The service may name tiers that the prices do not have. Known answers (`done`) count as a batch, which most of them were. */
export function factorOf(tier: string | undefined, prices: Prices | null): number {
  if (tier === 'flex') return prices?.flex ?? USUAL_FACTOR;
  return tier === 'batch' || tier === 'done' ? (prices?.batch ?? USUAL_FACTOR) : 1;
}

/** For answers of `input.done`, before this run; null without prices. */
const paidElsewhere = ({ tiers = {} }: Pick<Tally, 'tiers'>, prices: Prices | null): number | null =>
  prices && rounded(costOf(tiers['done']?.usage ?? NO_TOKENS, prices) * factorOf('done', prices), 6);

const tiersIn = ({ tiers = {} }: Tally, prices: Prices | null): NonNullable<Summary['tiers']> =>
  Object.fromEntries(
    Object.entries(tiers).map(([tier, { rows, usage }]) => {
      const cost = prices && rounded(costOf(usage, prices) * factorOf(tier, prices), 6);
      return [tier, { rows, usage, cost }];
    }),
  );

/** Null without prices. */
export const savedIn = ({ tiers = {} }: Pick<Tally, 'tiers'>, prices: Prices | null): number | null =>
  prices &&
  rounded(
    Object.entries(tiers).reduce(
      (sum, [tier, { usage }]) => sum + costOf(usage, prices) * (1 - factorOf(tier, prices)),
      0,
    ),
    6,
  );

/** In the currency of the prices. */
export function costOf(usage: Tokens & Pick<Usage, 'cached_tokens'>, prices: Prices): number {
  const cached = usage.cached_tokens ?? 0;
  const prompt = (usage.prompt_tokens - cached) * prices.prompt + cached * (prices.cached ?? prices.prompt);
  return rounded((prompt + usage.completion_tokens * prices.completion) / 1000, 6);
}

function rounded(value: number, decimals: number): number {
  return Number(value.toFixed(decimals));
}
