import assert from 'node:assert/strict';
import type { CallCounts, Fault, Usage } from '../model.js';
import type { Counts } from './counts.js';
import { type LatencyPercentiles, percentiles } from './latency.js';
import type { FilterTally, ReusedCounts, RowCounts, Tally } from './tally.js';

/** Currency units per 1,000 tokens. */
export interface Prices {
  readonly prompt: number;
  readonly completion: number;
}

/** `summary.json`: fields, names and order are fixed. @see contract: beside the output */
export interface Summary {
  readonly run: string;
  readonly job: string;
  readonly deployment: string;
  readonly api_version: string;
  /** `rows` is what the run was asked to do; a stopped run has done fewer. */
  readonly input: { readonly path: string; readonly sha256: string; readonly rows: number };
  readonly output: string;
  /** ISO 8601. */
  readonly started_at: string;
  /** ISO 8601. */
  readonly finished_at: string;
  /** Seconds that the run took, waits for the service included. */
  readonly duration_s: number;
  /** Why the run stopped early, as `code: message`; `null` when it finished. */
  readonly stopped: string | null;
  readonly rows: RowCounts;
  readonly finish_reasons: Counts;
  readonly answers: Counts;
  readonly usage: Usage;
  /** In the currency of the prices; `null` without prices. */
  readonly cost: number | null;
  readonly filters: FilterTally;
  readonly errors: Counts;
  readonly calls: CallCounts;
  readonly latency_ms: LatencyPercentiles;
  /** `rows.total / duration_s`. */
  readonly rows_per_second: number;
  /** Rows that were not called; only of a job with `input.dedupe` or `input.only_new`. */
  readonly reused?: ReusedCounts;
}

/** What a summary is made of. */
export interface SummaryParts
  extends Pick<
    Summary,
    | 'run'
    | 'job'
    | 'deployment'
    | 'api_version'
    | 'input'
    | 'output'
    | 'started_at'
    | 'finished_at'
    | 'duration_s'
    | 'calls'
  > {
  readonly stopped: Fault | null;
  readonly tally: Tally;
  readonly prices: Prices | null;
  /** Whether the job reuses outcomes. @default false */
  readonly reuses?: boolean;
}

/** @throws AssertionError when the rows do not add up, which is a defect of Promptmill */
export function summarise(parts: SummaryParts): Summary {
  const { tally, stopped, prices, input, calls } = parts;
  const { total, completed, filtered, failed, skipped } = tally.rows;
  assert.equal(total, completed + filtered + failed + skipped, 'rows do not add up to their total');
  return {
    run: parts.run,
    job: parts.job,
    deployment: parts.deployment,
    api_version: parts.api_version,
    input: { path: input.path, sha256: input.sha256, rows: input.rows },
    output: parts.output,
    started_at: parts.started_at,
    finished_at: parts.finished_at,
    duration_s: rounded(parts.duration_s, 3),
    stopped: stopped && `${stopped.code}: ${stopped.message}`,
    rows: { total, completed, filtered, failed, skipped },
    finish_reasons: tally.finish_reasons,
    answers: tally.answers,
    usage: tally.usage,
    cost: prices && costOf(tally.usage, prices),
    filters: tally.filters,
    errors: tally.errors,
    calls: {
      sent: calls.sent,
      retried: calls.retried,
      rate_limited: calls.rate_limited,
      repeated: calls.repeated,
    },
    latency_ms: percentiles(tally.latency),
    rows_per_second: parts.duration_s > 0 ? rounded(total / parts.duration_s, 2) : 0,
    ...(parts.reuses && {
      reused: { copied: tally.reused?.copied ?? 0, carried: tally.reused?.carried ?? 0 },
    }),
  };
}

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
