import type { WorkerPost } from './posts.js';
import { type SeenRun, type SeenWorker, type Standing, standingOf } from './read-posts.js';

/** A run, as `promptmill status --json` has it. */
export interface RunStatus {
  readonly run: string;
  readonly job: string;
  readonly state: Standing;
  readonly deployment: string;
  readonly queue: string;
  readonly emulated: boolean;
  readonly host: string;
  readonly pid: number;
  readonly started_at: string;
  /** Seconds since it last said something of itself. */
  readonly seen_s: number;
  /** `total` is what it was asked to do, `known` what has an outcome; the others are on disk. */
  readonly rows: {
    readonly total: number;
    readonly known: number;
    readonly completed: number;
    readonly filtered: number;
    readonly failed: number;
    readonly skipped: number;
  };
  /** Null while it is not known, and when the run has ended. */
  readonly rows_per_second: number | null;
  /** Seconds to its end at this rate; null while it is not known. */
  readonly eta_s: number | null;
  readonly waiting: string | null;
  /** Why it stopped early; null otherwise. */
  readonly stopped: string | null;
  readonly calls: SeenRun['post']['summary']['calls'];
  readonly cost: number | null;
  /** Rows that needed no call; only of a job with `input.dedupe` or `input.only_new`. */
  readonly reused?: SeenRun['post']['summary']['reused'];
  readonly output: string;
}

/** A process that makes calls, as `promptmill status --json` has it. */
export interface WorkerStatus extends Omit<WorkerPost, 'v'> {
  readonly in_flight: number;
  readonly seen_s: number;
}

export interface Status {
  /** Those that go on first, then the lost ones, then those that ended, newest first. */
  readonly runs: readonly RunStatus[];
  readonly workers: readonly WorkerStatus[];
}

/** Runs that have ended and are shown. */
const ENDED_SHOWN = 5;
const ORDER: readonly Standing[] = ['running', 'lost'];

/**
 * What a board shows.
 * @param job only runs of this job, and the workers of their queues; null is all
 */
export function statusOf(
  runs: readonly SeenRun[],
  workers: readonly SeenWorker[],
  job: string | null,
): Status {
  const shown = runs
    .filter(({ post }) => job === null || post.summary.job === job)
    .sort((a, b) => rank(a) - rank(b) || a.ageMs - b.ageMs);
  const going = shown.filter((seen) => rank(seen) < ORDER.length);
  const ended = shown.filter((seen) => rank(seen) === ORDER.length).slice(0, ENDED_SHOWN);
  const queues = new Set(going.map(({ post }) => post.queue));
  return {
    runs: [...going, ...ended].map(runStatus),
    workers: workers
      .filter(({ post }) => job === null || post.queues.some(({ queue }) => queues.has(queue)))
      .map(workerStatus)
      .sort((a, b) => (a.host === b.host ? a.pid - b.pid : a.host < b.host ? -1 : 1)),
  };
}

function rank(seen: SeenRun): number {
  const place = ORDER.indexOf(standingOf(seen));
  return place === -1 ? ORDER.length : place;
}

function runStatus(seen: SeenRun): RunStatus {
  const { post, ageMs } = seen;
  const { summary } = post;
  const { completed, filtered, failed, skipped } = summary.rows;
  const state = standingOf(seen);
  const rate = state === 'running' ? post.rows_per_second : null;
  const left = Math.max(0, summary.input.rows - post.known);
  return {
    run: post.run,
    job: summary.job,
    state,
    deployment: summary.deployment,
    queue: post.queue,
    emulated: post.emulated,
    host: post.host,
    pid: post.pid,
    started_at: summary.started_at,
    seen_s: Math.round(ageMs / 1000),
    rows: { total: summary.input.rows, known: post.known, completed, filtered, failed, skipped },
    rows_per_second: rate === null ? null : Math.round(rate * 100) / 100,
    eta_s: rate === null || rate === 0 || post.waiting !== null ? null : Math.ceil(left / rate),
    waiting: state === 'running' ? post.waiting : null,
    stopped: summary.stopped,
    calls: summary.calls,
    cost: summary.cost,
    ...(summary.reused !== undefined && { reused: summary.reused }),
    output: summary.output,
  };
}

function workerStatus({ post, ageMs }: SeenWorker): WorkerStatus {
  const { v: _, ...rest } = post;
  return {
    ...rest,
    in_flight: post.queues.reduce((sum, { in_flight }) => sum + in_flight, 0),
    seen_s: Math.round(ageMs / 1000),
  };
}
