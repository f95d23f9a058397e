import { z } from 'zod';
import type { Board, Posted } from '../fleet/board.js';
import type { RunPost, WorkerPost } from '../fleet/posts.js';

/** A post that was read, and how old it is by the clock of the store. */
export interface Seen<Post> {
  readonly post: Post;
  readonly ageMs: number;
}

const count = z.number().min(0);
const counts = z.record(z.string(), count);
const usage = z.object({ prompt_tokens: count, completion_tokens: count, total_tokens: count });

/** Whoever reaches the store can put up a post, so the text is not trusted: a post of another shape is not shown. */
const runSchema: z.ZodType<RunPost> = z.object({
  v: z.literal(1),
  run: z.string().min(1).max(200),
  state: z.enum(['running', 'finished', 'stopped', 'interrupted']),
  queue: z.string(),
  emulated: z.boolean(),
  host: z.string(),
  pid: z.int(),
  known: count,
  rows_per_second: count.nullable(),
  waiting: z.string().nullable(),
  limits: z.object({
    requests_per_minute: count.nullable(),
    tokens_per_minute: count.nullable(),
    token_estimate: z.enum(['full', 'learned']),
    prompts_per_request: count,
    chunk_size: count,
  }),
  summary: z.object({
    run: z.string(),
    job: z.string(),
    deployment: z.string(),
    api_version: z.string(),
    input: z.object({ path: z.string(), sha256: z.string(), rows: count }),
    output: z.string(),
    started_at: z.iso.datetime(),
    finished_at: z.iso.datetime(),
    duration_s: count,
    stopped: z.string().nullable(),
    rows: z.object({ total: count, completed: count, filtered: count, failed: count, skipped: count }),
    finish_reasons: counts,
    answers: counts,
    usage,
    cost: count.nullable(),
    filters: z.object({ prompt: z.record(z.string(), counts), completion: z.record(z.string(), counts) }),
    errors: counts,
    calls: z.object({ sent: count, retried: count, rate_limited: count, repeated: count }),
    latency_ms: z.object({
      p50: count.nullable(),
      p90: count.nullable(),
      p95: count.nullable(),
      p99: count.nullable(),
      max: count.nullable(),
    }),
    rows_per_second: count,
  }),
  latency: z.object({ histogram: z.string().max(20_000), max: count }).nullable(),
});

const workerSchema: z.ZodType<WorkerPost> = z.object({
  v: z.literal(1),
  id: z.string().min(1).max(200),
  host: z.string(),
  pid: z.int(),
  started_at: z.iso.datetime(),
  run: z.string().nullable(),
  queues: z.array(
    z.object({
      queue: z.string(),
      deployment: z.string(),
      concurrency: count,
      in_flight: count,
      waiting: z.string().nullable(),
    }),
  ),
  concurrency: count,
  draining: z.boolean(),
  rows: count,
  rows_per_second: count,
  calls: counts,
});

/** Reads the posts of a board. A text that did not change is not read twice: most posts are of runs that ended. */
export class BoardReader {
  #runs = new Map<string, { readonly text: string; readonly post: RunPost | null }>();

  constructor(private readonly board: Board) {}

  async runs(): Promise<readonly Seen<RunPost>[]> {
    const posted = await this.board.posts('run');
    const before = this.#runs;
    this.#runs = new Map();
    return posted.flatMap(({ id, text, ageMs }) => {
      const known = before.get(id);
      const post = known?.text === text ? known.post : read(runSchema, text);
      this.#runs.set(id, { text, post });
      return post === null ? [] : [{ post, ageMs }];
    });
  }

  async workers(): Promise<readonly Seen<WorkerPost>[]> {
    return (await this.board.posts('worker')).flatMap(({ text, ageMs }: Posted) => {
      const post = read(workerSchema, text);
      return post === null ? [] : [{ post, ageMs }];
    });
  }
}

function read<Post>(schema: z.ZodType<Post>, text: string): Post | null {
  try {
    return schema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
