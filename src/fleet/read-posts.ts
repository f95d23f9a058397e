import { z } from 'zod';
import type { Posted } from './board.js';
import { RUN_LOST_MS, type RunPost, type RunState, type WorkerPost } from './posts.js';

/** A post of a run, read, and how old it is. */
export interface SeenRun {
  readonly post: RunPost;
  /** Milliseconds since the run last said something of itself. */
  readonly ageMs: number;
}

/** A post of a worker, read, and how old it is. */
export interface SeenWorker {
  readonly post: WorkerPost;
  readonly ageMs: number;
}

/** `lost`: its process was killed, or cannot reach the store; the same command resumes it. */
export type Standing = RunState | 'lost';

export const standingOf = ({ post, ageMs }: SeenRun): Standing =>
  post.state === 'running' && ageMs > RUN_LOST_MS ? 'lost' : post.state;

const counts = z.record(z.string(), z.number());
const filters = z.record(z.string(), counts);
const milliseconds = z.number().nullable();

/** Unknown fields are left out: a later version may say more. */
const summarySchema = z.object({
  run: z.string(),
  job: z.string(),
  deployment: z.string(),
  api_version: z.string(),
  input: z.object({ path: z.string(), sha256: z.string(), rows: z.number() }),
  output: z.string(),
  started_at: z.string(),
  finished_at: z.string(),
  duration_s: z.number(),
  stopped: z.string().nullable(),
  rows: z.object({
    total: z.number(),
    completed: z.number(),
    filtered: z.number(),
    failed: z.number(),
    skipped: z.number(),
  }),
  finish_reasons: counts,
  answers: counts,
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number(), total_tokens: z.number() }),
  cost: z.number().nullable(),
  filters: z.object({ prompt: filters, completion: filters }),
  errors: counts,
  calls: z.object({
    sent: z.number(),
    retried: z.number(),
    rate_limited: z.number(),
    repeated: z.number(),
  }),
  latency_ms: z.object({
    p50: milliseconds,
    p90: milliseconds,
    p95: milliseconds,
    p99: milliseconds,
    max: milliseconds,
  }),
  rows_per_second: z.number(),
});

const perMinute = z.number().positive().nullable();

const runSchema = z.object({
  v: z.literal(1),
  run: z.string().min(1).max(200),
  state: z.enum(['running', 'finished', 'stopped', 'interrupted']),
  queue: z.string(),
  emulated: z.boolean(),
  host: z.string(),
  pid: z.number(),
  known: z.number(),
  rows_per_second: z.number().nullable(),
  waiting: z.string().nullable(),
  limits: z.object({
    requests_per_minute: perMinute,
    tokens_per_minute: perMinute,
    token_estimate: z.enum(['full', 'learned']),
    // The bounds of the job file: a worker sizes what it takes by these.
    prompts_per_request: z.int().min(1).max(2048),
    chunk_size: z.int().min(1).max(1_000_000),
  }),
  summary: summarySchema,
  latency: z.object({ histogram: z.string(), max: z.number() }).nullable(),
});

const workerSchema = z.object({
  v: z.literal(1),
  id: z.string().min(1).max(200),
  host: z.string(),
  pid: z.number(),
  started_at: z.string(),
  run: z.string().nullable(),
  queues: z.array(
    z.object({
      queue: z.string(),
      deployment: z.string(),
      concurrency: z.number(),
      in_flight: z.number(),
      waiting: z.string().nullable(),
    }),
  ),
  concurrency: z.number(),
  draining: z.boolean(),
  rows: z.number(),
  rows_per_second: z.number(),
  calls: counts,
});

/** The posts of runs among those of a board; what is none, because it was forged or is of another version, is left out. */
export function readRuns(posts: readonly Posted[]): SeenRun[] {
  return posts.flatMap(({ id, text, ageMs }) => {
    const { data: post } = runSchema.safeParse(parseJson(text));
    return post?.run === id ? [{ post, ageMs }] : [];
  });
}

/** The posts of workers among those of a board; what is none is left out. */
export function readWorkers(posts: readonly Posted[]): SeenWorker[] {
  return posts.flatMap(({ id, text, ageMs }) => {
    const { data: post } = workerSchema.safeParse(parseJson(text));
    return post?.id === id ? [{ post, ageMs }] : [];
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
