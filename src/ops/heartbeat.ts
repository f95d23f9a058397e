import * as z from 'zod';
import { inShort, scoresSchema } from '../account/scores.js';
import { summarySchema } from '../account/summary.js';
import { amount, counts, type DeepReadonly, moment, words } from '../account/untrusted.js';
import { parseJson } from '../core/json.js';
import { hasEnded } from '../core/lock.js';
import type { Listed } from '../store/key-value.js';

/** `running` with an old beat: the process of the run was killed. */
const runState = z.enum(['running', 'finished', 'stopped', 'interrupted']);
export type RunState = z.output<typeof runState>;

const perMinute = z.number().positive().nullable();
/** Compared and looked up, so it is never cut. */
const name = z.string().min(1).max(200);

const processFields = {
  host: words,
  pid: amount,
  began: words.nullable(),
  space: words,
};

/** As written and as read. Has no key, and no address with a password. */
const runHeartbeat = z.object({
  v: z.literal(1),
  run: name,
  state: runState,
  queue: words,
  /** True when an emulator of the run's own answers its calls: no other worker can make them. */
  emulated: z.boolean(),
  ...processFields,
  /** Rows with an outcome, on disk or in the ledger. */
  known: amount,
  beyond: z.exactOptional(amount),
  /** Rows that needed a call and got their outcome, in this execution. */
  called: amount,
  /** `called` a second, over the last half minute; null while there is nothing to measure. */
  rows_per_second: amount.nullable(),
  /** Until all rows to call have their outcomes; null while unknown. */
  seconds_left: amount.nullable(),
  /** In words; null while it is not waiting. */
  waiting: words.nullable(),
  /** Rows of a job with another tier are called online from now on; absent before. */
  online: z.exactOptional(z.boolean()),
  /** For workers that call for it. Bounded as in the job file: a worker sizes what it takes by these. */
  limits: z.object({
    requests_per_minute: perMinute,
    tokens_per_minute: perMinute,
    token_estimate: z.enum(['full', 'learned']),
    prompts_per_request: z.int().min(1).max(2048),
    chunk_size: z.int().min(1).max(1_000_000),
  }),
  /** The summary if the run ended now; `finished_at` is when the beat was written. */
  summary: summarySchema
    .omit({ error_samples: true, details: true, properties: true })
    .extend({ scores: z.exactOptional(scoresSchema.transform(inShort)) }),
  /** For histograms; the summary has the percentiles. */
  latency: z.object({ histogram: z.string(), max: amount }).nullable(),
});
export type RunHeartbeat = DeepReadonly<z.output<typeof runHeartbeat>>;

const MOST_QUEUES = 100;

const workerQueue = z.object({
  queue: words,
  deployment: words,
  concurrency: amount,
  in_flight: amount,
  /** In words; null while it calls. */
  waiting: words.nullable(),
  /** What it knows of the queue's quota; null while nothing is known. */
  quota: z
    .object({
      requests_per_minute: perMinute,
      /** True when the requests are known from refusals only. */
      is_found: z.boolean(),
      tokens_per_minute: perMinute,
    })
    .nullable(),
});

const workerHeartbeat = z.object({
  v: z.literal(1),
  /** Host, process and randomness: `web1-4711-9f3a`. */
  id: name,
  ...processFields,
  /** ISO 8601. */
  started_at: moment,
  /** Null for `promptmill work`. */
  run: words.nullable(),
  queues: z.array(workerQueue).transform((queues) => queues.slice(0, MOST_QUEUES)),
  concurrency: amount,
  /** True when it takes no more rows and only finishes those it has. */
  draining: z.boolean(),
  /** Rows recorded since it started, and per second over the last ten seconds. */
  rows: amount,
  rows_per_second: amount,
  /** Since it started, by HTTP status, or without one by error code (`timeout`, `connection_failed`, …). */
  calls: counts,
});
export type WorkerHeartbeat = DeepReadonly<z.output<typeof workerHeartbeat>>;

/** A running run counts as killed when its beat is older than this. */
export const RUN_LOST_MS = 15_000;

export interface SeenRun {
  readonly beat: RunHeartbeat;
  readonly ageMs: number;
}

export interface SeenWorker {
  readonly beat: WorkerHeartbeat;
  readonly ageMs: number;
}

/** `lost`: its process was killed or cannot reach the store; the same command resumes it. */
export type ObservedState = RunState | 'lost';

export const observedState = ({ beat, ageMs }: SeenRun): ObservedState =>
  beat.state === 'running' && (ageMs > RUN_LOST_MS || isGone(beat)) ? 'lost' : beat.state;

/** Sees only processes on this machine and in this container. */
const isGone = ({ host, pid, began, space }: Pick<RunHeartbeat, keyof typeof processFields>): boolean =>
  hasEnded({ host, pid, began, space });

/** Leaves out texts that are no beat: forged, or of another version (fault 85). */
export function readRuns(listed: readonly Listed[]): SeenRun[] {
  return listed.flatMap(({ name, text, ageMs }) => {
    const { data: beat } = runHeartbeat.safeParse(parseJson(text));
    return beat?.run === name ? [{ beat, ageMs }] : [];
  });
}

/** Leaves out processes that have ended. */
export const readWorkers = (listed: readonly Listed[]): SeenWorker[] => withoutGone(readAllWorkers(listed));

/** Includes processes that have ended. */
export function readAllWorkers(listed: readonly Listed[]): SeenWorker[] {
  return listed.flatMap(({ name, text, ageMs }) => {
    const { data: beat } = workerHeartbeat.safeParse(parseJson(text));
    return beat?.id === name ? [{ beat, ageMs }] : [];
  });
}

export const withoutGone = (workers: readonly SeenWorker[]): SeenWorker[] =>
  workers.filter(({ beat }) => !isGone(beat));
