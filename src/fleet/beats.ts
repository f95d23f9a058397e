import * as z from 'zod';
import { inShort, scoresSchema } from '../account/scores.js';
import { summarySchema } from '../account/summary.js';
import { amount, counts, type DeepReadonly, moment, words } from '../account/untrusted.js';
import { parseJson } from '../json.js';
import { hasEnded } from '../lock.js';
import type { Listed } from '../store/key-value.js';

/** How a run stands. `running` with an old beat is a run whose process was killed. */
const runState = z.enum(['running', 'finished', 'stopped', 'interrupted']);
export type RunState = z.output<typeof runState>;

const perMinute = z.number().positive().nullable();
/** What names a beat: it is compared and asked for, so it is never cut. */
const name = z.string().min(1).max(200);

/** The process that says it. */
const processFields = {
  host: words,
  pid: amount,
  began: words.nullable(),
  space: words,
};

/**
 * What a run says of itself about once a second, and when it ends. No key, no address with a password. This is what is
 * written and what is read.
 */
const runBeat = z.object({
  v: z.literal(1),
  run: name,
  state: runState,
  /** Name of the BullMQ queue that its chunks are in. */
  queue: words,
  /** True when its calls go to an emulator of the run's own: no other worker can make them. */
  emulated: z.boolean(),
  ...processFields,
  /** Rows whose outcome is known, on disk or in the ledger. */
  known: amount,
  /** Rows of the input that are behind its `--limit`. Absent: none. */
  beyond: z.exactOptional(amount),
  /** Rows that needed a call and got their outcome, in this execution. */
  called: amount,
  /** The same a second over the last half minute; null while there is nothing to measure. */
  rows_per_second: amount.nullable(),
  /** Until the rows that are to be called have their outcomes; null while it is not known. */
  seconds_left: amount.nullable(),
  /** What it waits for, in words; null while it gets on. */
  waiting: words.nullable(),
  /** What workers must know to call for it. The bounds are those of the job file: a worker sizes what it takes by these. */
  limits: z.object({
    requests_per_minute: perMinute,
    tokens_per_minute: perMinute,
    token_estimate: z.enum(['full', 'learned']),
    prompts_per_request: z.int().min(1).max(2048),
    chunk_size: z.int().min(1).max(1_000_000),
  }),
  /** The summary as it would be if the run ended now; `finished_at` is when the beat was written. */
  summary: summarySchema
    .omit({ error_samples: true, details: true })
    .extend({ scores: z.exactOptional(scoresSchema.transform(inShort)) }),
  /** For histograms; the summary has the percentiles. */
  latency: z.object({ histogram: z.string(), max: amount }).nullable(),
});
export type RunBeat = DeepReadonly<z.output<typeof runBeat>>;

/** Queues of one worker that are read. */
const MOST_QUEUES = 100;

const workerQueue = z.object({
  queue: words,
  deployment: words,
  /** Calls at once that it may make now. */
  concurrency: amount,
  in_flight: amount,
  /** What it waits for, in words; null while it calls. */
  waiting: words.nullable(),
  /** What it knows of the quota of the queue; null while nothing is known. */
  quota: z
    .object({
      requests_per_minute: perMinute,
      /** Whether only refusals told the requests. */
      is_found: z.boolean(),
      tokens_per_minute: perMinute,
    })
    .nullable(),
});

/** What a process that makes calls says of itself every few seconds. */
const workerBeat = z.object({
  v: z.literal(1),
  /** Host, process and chance: `web1-4711-9f3a`. */
  id: name,
  ...processFields,
  /** ISO 8601. */
  started_at: moment,
  /** The run that it belongs to; null for `promptmill work`. */
  run: words.nullable(),
  queues: z.array(workerQueue).transform((queues) => queues.slice(0, MOST_QUEUES)),
  /** Most calls at once. */
  concurrency: amount,
  /** True when it takes no more rows and finishes those at hand. */
  draining: z.boolean(),
  /** Rows recorded since it started, and a second over the last ten seconds. */
  rows: amount,
  rows_per_second: amount,
  /** Calls since it started, by HTTP status, or by error code where there was none (`timeout`, `connection_failed`, …). */
  calls: counts,
});
export type WorkerBeat = DeepReadonly<z.output<typeof workerBeat>>;

/** A running run whose beat is older than this is taken for killed, in milliseconds. */
export const RUN_LOST_MS = 15_000;

/** The last beat of a run, and how old it is. */
export interface SeenRun {
  readonly beat: RunBeat;
  /** Milliseconds since the run last said something of itself. */
  readonly ageMs: number;
}

/** The last beat of a worker, and how old it is. */
export interface SeenWorker {
  readonly beat: WorkerBeat;
  readonly ageMs: number;
}

/** `lost`: its process was killed, or cannot reach the store; the same command resumes it. */
export type Standing = RunState | 'lost';

export const standingOf = ({ beat, ageMs }: SeenRun): Standing =>
  beat.state === 'running' && (ageMs > RUN_LOST_MS || isGone(beat)) ? 'lost' : beat.state;

/** Whether the process of a beat has ended, as far as that can be seen: on its own machine, and in its own container. */
const isGone = ({ host, pid, began, space }: Pick<RunBeat, keyof typeof processFields>): boolean =>
  hasEnded({ host, pid, began, space });

/** The beats of the folder `run`; what is none, because it was forged or is of another version, is left out (fault 85). */
export function readRuns(listed: readonly Listed[]): SeenRun[] {
  return listed.flatMap(({ name, text, ageMs }) => {
    const { data: beat } = runBeat.safeParse(parseJson(text));
    return beat?.run === name ? [{ beat, ageMs }] : [];
  });
}

/** The beats of the folder `worker`; what is none, or of a process that has ended, is left out. */
export const readWorkers = (listed: readonly Listed[]): SeenWorker[] => withoutGone(readAllWorkers(listed));

/** Those of processes that have ended as well. */
export function readAllWorkers(listed: readonly Listed[]): SeenWorker[] {
  return listed.flatMap(({ name, text, ageMs }) => {
    const { data: beat } = workerBeat.safeParse(parseJson(text));
    return beat?.id === name ? [{ beat, ageMs }] : [];
  });
}

export const withoutGone = (workers: readonly SeenWorker[]): SeenWorker[] =>
  workers.filter(({ beat }) => !isGone(beat));
