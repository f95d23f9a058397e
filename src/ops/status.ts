import type { RowCounts } from '../account/tally.js';
import {
  type ObservedState,
  observedState,
  type RunHeartbeat,
  type SeenRun,
  type SeenWorker,
  type WorkerHeartbeat,
} from './heartbeat.js';

/** Fields of `promptmill status --json` that are named as in the heartbeat and in its summary. */
type OfBeat = 'run' | 'queue' | 'emulated' | 'host' | 'pid' | 'rows_per_second' | 'waiting';
type OfSummary =
  | 'job'
  | 'deployment'
  | 'started_at'
  | 'answers_invalid'
  | 'answers_refused'
  | 'stopped'
  | 'missed'
  | 'calls'
  | 'cost'
  | 'reused'
  | 'batches'
  | 'output';

export interface RunStatus extends Pick<RunHeartbeat, OfBeat>, Pick<RunHeartbeat['summary'], OfSummary> {
  readonly state: ObservedState;
  readonly seen_s: number;
  /** `total` were asked for, `known` have an outcome; the others are on disk. */
  readonly rows: RowCounts & { readonly known: number };
  readonly beyond: number;
  /** Seconds left, at the current rate or at the quota if that is lower; null while unknown. */
  readonly eta_s: number | null;
}

export interface WorkerStatus extends Omit<WorkerHeartbeat, 'v' | 'began' | 'space'> {
  readonly in_flight: number;
  readonly seen_s: number;
}

export interface Status {
  /** Running runs first, then lost ones, then ended ones, newest first. */
  readonly runs: readonly RunStatus[];
  readonly workers: readonly WorkerStatus[];
}

const ENDED_SHOWN = 5;
const ORDER: readonly ObservedState[] = ['running', 'lost'];

/** @param job only runs of this job and the workers of their queues; null is all */
export function statusOf(
  runs: readonly SeenRun[],
  workers: readonly SeenWorker[],
  job: string | null,
): Status {
  const shown = runs
    .filter(({ beat }) => job === null || beat.summary.job === job)
    .sort((a, b) => rank(a) - rank(b) || a.ageMs - b.ageMs);
  const going = shown.filter((seen) => rank(seen) < ORDER.length);
  const ended = shown.filter((seen) => rank(seen) === ORDER.length).slice(0, ENDED_SHOWN);
  const queues = new Set(going.map(({ beat }) => beat.queue));
  return {
    runs: [...going, ...ended].map(runStatus),
    workers: workers
      .filter(({ beat }) => job === null || beat.queues.some(({ queue }) => queues.has(queue)))
      .map(workerStatus)
      .sort((a, b) => (a.host === b.host ? a.pid - b.pid : a.host < b.host ? -1 : 1)),
  };
}

function rank(seen: SeenRun): number {
  const place = ORDER.indexOf(observedState(seen));
  return place === -1 ? ORDER.length : place;
}

function runStatus(seen: SeenRun): RunStatus {
  const { beat, ageMs } = seen;
  const { summary } = beat;
  const { completed, filtered, failed, skipped } = summary.rows;
  const state = observedState(seen);
  const rate = state === 'running' ? beat.rows_per_second : null;
  const left = state === 'running' ? beat.seconds_left : null;
  return {
    run: beat.run,
    job: summary.job,
    state,
    deployment: summary.deployment,
    queue: beat.queue,
    emulated: beat.emulated,
    host: beat.host,
    pid: beat.pid,
    started_at: summary.started_at,
    seen_s: Math.round(ageMs / 1000),
    rows: { total: summary.input.rows, known: beat.known, completed, filtered, failed, skipped },
    answers_invalid: summary.answers_invalid,
    answers_refused: summary.answers_refused,
    beyond: beat.beyond ?? 0,
    rows_per_second: rate === null ? null : Math.round(rate * 100) / 100,
    eta_s: left === null || beat.waiting !== null ? null : Math.ceil(left),
    waiting: state === 'running' ? beat.waiting : null,
    stopped: summary.stopped,
    missed: summary.missed,
    calls: summary.calls,
    cost: summary.cost,
    ...(summary.reused !== undefined && { reused: summary.reused }),
    ...(summary.batches !== undefined && { batches: summary.batches }),
    output: summary.output,
  };
}

function workerStatus({ beat, ageMs }: SeenWorker): WorkerStatus {
  const { v: _, began: __, space: ___, ...rest } = beat;
  return {
    ...rest,
    in_flight: beat.queues.reduce((sum, { in_flight }) => sum + in_flight, 0),
    seen_s: Math.round(ageMs / 1000),
  };
}
