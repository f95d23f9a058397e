import { z } from 'zod';
import { type DeepReadonly, summarySchema } from '../report/summary.js';
import { amount, counts, moment, words } from '../report/untrusted.js';

/** How a run stands. `running` with an old post is a run whose process was killed. */
const runState = z.enum(['running', 'finished', 'stopped', 'interrupted']);
export type RunState = z.output<typeof runState>;

const perMinute = z.number().positive().nullable();
/** What names a post: it is compared and asked for, so it is never cut. */
const name = z.string().min(1).max(200);

/**
 * What a run says of itself on the board, about once a second and when it ends. No key, no address with a password.
 * This is what is written and what is read; fields that a later version adds are left out when it is read.
 */
export const runPostSchema = z.object({
  v: z.literal(1),
  run: name,
  state: runState,
  /** Name of the BullMQ queue that its chunks are in. */
  queue: words,
  /** True when its calls go to an emulator of the run's own: no other worker can make them. */
  emulated: z.boolean(),
  host: words,
  pid: amount,
  /** Rows whose outcome is known, on disk or in the ledger. */
  known: amount,
  /** Rows a second over the last half minute; null while there is nothing to measure. */
  rows_per_second: amount.nullable(),
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
  /** The summary as it would be if the run ended now; `finished_at` is when the post was written. */
  summary: summarySchema.omit({ error_samples: true }),
  /** For histograms; the summary has the percentiles. */
  latency: z.object({ histogram: z.string(), max: amount }).nullable(),
});
export type RunPost = DeepReadonly<z.output<typeof runPostSchema>>;

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
});

/** What a process that makes calls says of itself on the board, every few seconds. */
export const workerPostSchema = z.object({
  v: z.literal(1),
  /** Host, process and chance: `web1-4711-9f3a`. */
  id: name,
  host: words,
  pid: amount,
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
export type WorkerPost = DeepReadonly<z.output<typeof workerPostSchema>>;

/** A running run whose post is older than this is taken for killed, in milliseconds. */
export const RUN_LOST_MS = 15_000;
/** A worker that has not posted for this time is gone, in milliseconds. */
export const WORKER_TTL_MS = 15_000;
/** Runs are remembered for this time, in milliseconds: 30 days. */
export const RUN_TTL_MS = 30 * 24 * 3_600_000;
/** Runs that are remembered at most; the oldest that have ended go first. */
export const RUNS_KEPT = 200;
