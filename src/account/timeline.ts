import * as z from 'zod';
import { eachOf } from '../core/counters.js';
import { amount, type DeepReadonly } from './untrusted.js';

/** With one more, neighbours are merged in pairs. */
export const MOST_BUCKETS = 120;

const FIRST_WIDTH_MS = 250;

/** Per bucket. The sum over all buckets is the figure of the run. */
const COUNTED = ['rows', 'failed', 'prompt_tokens', 'completion_tokens', 'sent', 'rate_limited'] as const;

const series = z.array(amount).max(MOST_BUCKETS).readonly();

/** By working time, in buckets of equal width. Plain data in the manifest that does not grow with the run. */
export const timelineSchema = z
  .object({
    /** The last bucket may be incomplete. */
    width_ms: amount,
    /** Its end, in milliseconds of work since the run began. */
    until_ms: amount,
    ...eachOf(COUNTED, () => series),
    /** Rows whose last call has a latency, the sum of these latencies, and their maximum. */
    timed: series,
    latency_sum_ms: series,
    latency_max_ms: series,
  })
  .refine(
    ({ width_ms, until_ms: _, ...lists }) =>
      width_ms > 0 && Object.values(lists).every(({ length }) => length === lists.rows.length),
  );

export type Timeline = DeepReadonly<z.output<typeof timelineSchema>>;

export type RunningTotals = { readonly [name in (typeof COUNTED)[number]]: number };

export type TimelinePoint = RunningTotals & {
  /** Seconds of work since the run began. */
  readonly from_s: number;
  readonly to_s: number;
  /** Milliseconds; `null` if no call ended. */
  readonly latency_mean_ms: number | null;
  readonly latency_max_ms: number | null;
};

const SERIES = [...COUNTED, 'timed', 'latency_sum_ms', 'latency_max_ms'] as const;
type Buckets = { [name in (typeof SERIES)[number]]: number[] };

/** For a new run, or one that has worked without a timeline: that time becomes the first bucket. */
export function beginTimeline(workedMs: number, totals: RunningTotals): Timeline {
  const empty = {
    width_ms: Math.max(FIRST_WIDTH_MS, Math.round(workedMs)),
    until_ms: 0,
    ...eachOf(SERIES, (): number[] => []),
  };
  return workedMs === 0 ? empty : advanced(empty, workedMs, totals);
}

/**
 * @param atMs milliseconds of work since the run began; an earlier moment than the last counts as the last
 * @param totals the figures now. A gain is spread over the time since the last moment, because one row may
 *   hold back others that ended long ago. A loss is taken from the last buckets
 * @param latencies of the added rows, in milliseconds
 */
export function advanced(
  timeline: Timeline,
  atMs: number,
  totals: RunningTotals,
  latencies: Iterable<number> = [],
): Timeline {
  const until = Math.max(timeline.until_ms, Math.round(atMs));
  const { width, buckets } = reaching(timeline, until, MOST_BUCKETS);
  const last = buckets.rows.length - 1;
  for (const name of COUNTED) {
    const list = buckets[name];
    let change = totals[name] - sum(list);
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

/** Spreads a whole number over buckets in proportion to time; the parts add up to the amount. */
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

export function coarser(timeline: Timeline, most: number): Timeline {
  const { width, buckets } = reaching(timeline, timeline.until_ms, most);
  return { width_ms: width, until_ms: timeline.until_ms, ...buckets };
}

/** Milliseconds of work; the periods of a shorter run tell nothing. */
const TOLD_FROM_MS = 60_000;

export const periodsOf = (timeline: Timeline | undefined, most: number): readonly TimelinePoint[] =>
  timeline === undefined || timeline.until_ms < TOLD_FROM_MS ? [] : pointsOf(coarser(timeline, most));

function reaching(timeline: Timeline, untilMs: number, most: number): { width: number; buckets: Buckets } {
  let width = timeline.width_ms;
  let buckets: Buckets = eachOf(SERIES, (name) => [...timeline[name]]);
  // A bucket includes its end.
  const needed = (): number => Math.max(1, Math.ceil(untilMs / width), buckets.rows.length);
  while (needed() > most) {
    width *= 2;
    const wide = buckets;
    buckets = eachOf(SERIES, (name) => paired(wide[name], name === 'latency_max_ms' ? Math.max : add));
  }
  const missing = needed() - buckets.rows.length;
  for (const name of SERIES) buckets[name].push(...new Array<number>(missing).fill(0));
  return { width, buckets };
}

const paired = (list: readonly number[], join: (a: number, b: number) => number): number[] =>
  Array.from({ length: Math.ceil(list.length / 2) }, (_, i) => join(list[2 * i] ?? 0, list[2 * i + 1] ?? 0));

const add = (a: number, b: number): number => a + b;
const sum = (list: readonly number[]): number => list.reduce(add, 0);

export function pointsOf(timeline: Timeline): TimelinePoint[] {
  const { width_ms: width, until_ms: until, timed } = timeline;
  return timed.map((n, i) => {
    const at = (name: (typeof SERIES)[number]): number => timeline[name][i] ?? 0;
    return {
      from_s: (i * width) / 1000,
      to_s: Math.min((i + 1) * width, Math.max(until, i * width)) / 1000,
      ...eachOf(COUNTED, at),
      latency_mean_ms: n === 0 ? null : at('latency_sum_ms') / n,
      latency_max_ms: n === 0 ? null : at('latency_max_ms'),
    };
  });
}
