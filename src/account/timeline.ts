import * as z from 'zod';
import { amount, type DeepReadonly } from './untrusted.js';

/** Buckets of a timeline at most; with one more, each two neighbours become one. */
export const MOST_BUCKETS = 120;

/** Width of the first buckets, in milliseconds. */
const FIRST_WIDTH_MS = 250;

/** What is counted of each bucket. Each sum over all buckets is the figure of the run. */
const COUNTED = [
  'rows',
  'failed',
  'prompt_tokens',
  'completion_tokens',
  /** Calls, as the counters of a run have them. */
  'sent',
  'rate_limited',
] as const;

const series = z.array(amount).max(MOST_BUCKETS).readonly();

/**
 * How a run went over the time that was worked on it: buckets of equal width, a list of numbers for each figure. Plain data
 * that lives in the manifest: it survives JSON, and does not grow with the run.
 */
export const timelineSchema = z
  .object({
    /** Milliseconds of a bucket; the last may be begun. */
    width_ms: amount,
    /** Where it ends, in milliseconds of work since the run began. */
    until_ms: amount,
    rows: series,
    failed: series,
    prompt_tokens: series,
    completion_tokens: series,
    sent: series,
    rate_limited: series,
    /** Rows whose last call has a latency, the sum of these latencies, and the longest of them. */
    timed: series,
    latency_sum_ms: series,
    latency_max_ms: series,
  })
  .refine(
    ({ width_ms, until_ms: _, ...lists }) =>
      width_ms > 0 && Object.values(lists).every(({ length }) => length === lists.rows.length),
  );

export type Timeline = DeepReadonly<z.output<typeof timelineSchema>>;

/** Figures of a run as they stand, from its beginning. */
export type Standing = { readonly [name in (typeof COUNTED)[number]]: number };

/** A bucket, as a chart shows it. */
export type TimelinePoint = Standing & {
  /** Seconds of work since the run began. */
  readonly from_s: number;
  readonly to_s: number;
  /** Milliseconds; `null` where no call ended. */
  readonly latency_mean_ms: number | null;
  readonly latency_max_ms: number | null;
};

const SERIES = [...COUNTED, 'timed', 'latency_sum_ms', 'latency_max_ms'] as const;
type Buckets = { [name in (typeof SERIES)[number]]: number[] };

/** The timeline of a run that begins, or that has worked for some time without one: that time is its first bucket. */
export function beginTimeline(workedMs: number, standing: Standing): Timeline {
  const empty = {
    width_ms: Math.max(FIRST_WIDTH_MS, Math.round(workedMs)),
    until_ms: 0,
    ...bucketsOf(() => []),
  };
  return workedMs === 0 ? empty : advanced(empty, workedMs, standing);
}

/**
 * The timeline up to a later moment.
 * @param atMs milliseconds of work since the run began; an earlier one than the last counts as that
 * @param standing the figures of the run at this moment. What one has gained is spread over the time since the last moment: a row
 *   may hold up others that have ended long ago. Where one is lower than before, it is taken back from the last buckets
 * @param latencies of the rows that were added, in milliseconds
 */
export function advanced(
  timeline: Timeline,
  atMs: number,
  standing: Standing,
  latencies: Iterable<number> = [],
): Timeline {
  const until = Math.max(timeline.until_ms, Math.round(atMs));
  const { width, buckets } = reaching(timeline, until, MOST_BUCKETS);
  const last = buckets.rows.length - 1;
  for (const name of COUNTED) {
    const list = buckets[name];
    let change = standing[name] - sum(list);
    if (change > 0) {
      spread(change, list, timeline.until_ms, until, width);
      continue;
    }
    for (let place = last; place >= 0 && change !== 0; place--) {
      const changed = Math.max(0, (list[place] ?? 0) + change);
      change -= changed - (list[place] ?? 0);
      list[place] = changed;
    }
  }
  for (const latency of latencies) {
    buckets.timed[last] = (buckets.timed[last] ?? 0) + 1;
    buckets.latency_sum_ms[last] = (buckets.latency_sum_ms[last] ?? 0) + latency;
    buckets.latency_max_ms[last] = Math.max(buckets.latency_max_ms[last] ?? 0, latency);
  }
  return { width_ms: width, until_ms: until, ...buckets };
}

/** Adds whole numbers to the buckets of a time, by how much of it is in each; together they are the amount. */
function spread(amount: number, list: number[], fromMs: number, untilMs: number, width: number): void {
  const last = list.length - 1;
  let given = 0;
  for (let place = Math.min(last, Math.floor(fromMs / width)); place <= last; place++) {
    const passed = ((place + 1) * width - fromMs) / (untilMs - fromMs);
    const due = place === last ? amount : Math.floor(amount * passed);
    list[place] = (list[place] ?? 0) + due - given;
    given = due;
  }
}

/** The timeline in fewer and wider buckets, for where a person reads its numbers. */
export function coarser(timeline: Timeline, most: number): Timeline {
  const { width, buckets } = reaching(timeline, timeline.until_ms, most);
  return { width_ms: width, until_ms: timeline.until_ms, ...buckets };
}

/** Milliseconds of work below which the few periods of a run, one beside the other, tell nothing. */
const TOLD_FROM_MS = 60_000;

/** The periods of a run, for those who list them; none of a run that was short. @param most so many at most */
export const periodsOf = (timeline: Timeline | undefined, most: number): readonly TimelinePoint[] =>
  timeline === undefined || timeline.until_ms < TOLD_FROM_MS ? [] : pointsOf(coarser(timeline, most));

/** Its buckets, with one for this moment, and wide enough that they are not too many. */
function reaching(timeline: Timeline, untilMs: number, most: number): { width: number; buckets: Buckets } {
  let width = timeline.width_ms;
  let buckets = bucketsOf((name) => [...timeline[name]]);
  // The end of a bucket is part of it.
  const needed = (): number => Math.max(1, Math.ceil(untilMs / width), buckets.rows.length);
  while (needed() > most) {
    width *= 2;
    const wide = buckets;
    buckets = bucketsOf((name) => paired(wide[name], name === 'latency_max_ms' ? Math.max : add));
  }
  const missing = needed() - buckets.rows.length;
  for (const name of SERIES) buckets[name].push(...new Array<number>(missing).fill(0));
  return { width, buckets };
}

const paired = (list: readonly number[], join: (a: number, b: number) => number): number[] =>
  Array.from({ length: Math.ceil(list.length / 2) }, (_, i) => join(list[2 * i] ?? 0, list[2 * i + 1] ?? 0));

const add = (a: number, b: number): number => a + b;
const sum = (list: readonly number[]): number => list.reduce(add, 0);

const bucketsOf = (listOf: (name: (typeof SERIES)[number]) => number[]): Buckets => ({
  rows: listOf('rows'),
  failed: listOf('failed'),
  prompt_tokens: listOf('prompt_tokens'),
  completion_tokens: listOf('completion_tokens'),
  sent: listOf('sent'),
  rate_limited: listOf('rate_limited'),
  timed: listOf('timed'),
  latency_sum_ms: listOf('latency_sum_ms'),
  latency_max_ms: listOf('latency_max_ms'),
});

/** The buckets, from the first to the last. */
export function pointsOf(timeline: Timeline): TimelinePoint[] {
  const { width_ms: width, until_ms: until, timed } = timeline;
  return timed.map((n, i) => {
    const at = (name: (typeof SERIES)[number]): number => timeline[name][i] ?? 0;
    return {
      from_s: (i * width) / 1000,
      to_s: Math.min((i + 1) * width, Math.max(until, i * width)) / 1000,
      rows: at('rows'),
      failed: at('failed'),
      prompt_tokens: at('prompt_tokens'),
      completion_tokens: at('completion_tokens'),
      sent: at('sent'),
      rate_limited: at('rate_limited'),
      latency_mean_ms: n === 0 ? null : at('latency_sum_ms') / n,
      latency_max_ms: n === 0 ? null : at('latency_max_ms'),
    };
  });
}
