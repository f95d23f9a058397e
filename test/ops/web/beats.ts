import { withLatencies } from '../../../src/account/latency.js';
import type { Summary } from '../../../src/account/summary.js';
import type { RunHeartbeat, WorkerHeartbeat } from '../../../src/ops/heartbeat.js';
import type { FailedEntry, QueueView } from '../../../src/queue/queue-views.js';
import type { Folder, KeyValue, Listed } from '../../../src/store/key-value.js';

/** Posts in memory, as old as a test says. */
export class MemoryBeats implements Pick<KeyValue, 'list'> {
  readonly #beats = new Map<string, Listed & { readonly folder: Folder }>();
  /** Set to make the store stop answering. */
  away = false;

  async put(folder: Folder, name: string, text: string, ageMs = 0): Promise<void> {
    this.#beats.set(`${folder} ${name}`, { folder, name, text, ageMs });
  }

  async list(folder: Folder): Promise<readonly Listed[]> {
    if (this.away) throw new Error('connect ECONNREFUSED 127.0.0.1:6379');
    return [...this.#beats.values()].filter((beat) => beat.folder === folder);
  }

  async remove(folder: Folder, name: string): Promise<void> {
    this.#beats.delete(`${folder} ${name}`);
  }

  /** Puts up a run's beat, or a worker's. */
  run(beat: RunHeartbeat, ageMs = 0): Promise<void> {
    return this.put('run', beat.run, JSON.stringify(beat), ageMs);
  }

  worker(beat: WorkerHeartbeat): Promise<void> {
    return this.put('worker', beat.id, JSON.stringify(beat));
  }
}

/** A run half through its 1,000 rows. */
export function runBeat(
  change: Partial<RunHeartbeat> = {},
  summary: Partial<Summary> = {},
  run = '20261121-020000-aaaaaa',
): RunHeartbeat {
  return {
    v: 1,
    run,
    state: 'running',
    queue: 'promptmill-lm-35-turbo-instruct-1234abcd',
    emulated: false,
    host: 'night1',
    pid: 4711,
    began: null,
    space: 'elsewhere',
    known: 500,
    called: 488,
    rows_per_second: 21.4,
    seconds_left: 23.4,
    waiting: null,
    limits: {
      requests_per_minute: 600,
      tokens_per_minute: null,
      token_estimate: 'full',
      prompts_per_request: 1,
      chunk_size: 20,
    },
    summary: {
      run,
      job: 'review-sentiment',
      deployment: 'lm-35-turbo-instruct',
      api_version: '2023-09-15-preview',
      emulated: false,
      input: { path: 'samples/reviews.csv', sha256: 'a'.repeat(64), rows: 1000 },
      output: 'out/reviews.csv',
      started_at: '2026-11-21T02:00:00.000Z',
      finished_at: new Date().toISOString(),
      duration_s: 25,
      stopped: null,
      missed: null,
      rows: { total: 480, completed: 460, filtered: 5, failed: 3, skipped: 12 },
      finish_reasons: { stop: 450, length: 15 },
      answers: { positive: 300, negative: 120, neutral: 40 },
      answers_invalid: 0,
      answers_refused: 0,
      answers_abstained: 0,
      answer_sources: { read: 460, repaired: 0, asked_again: 0, voted: 0, escalated: 0 },
      usage: { prompt_tokens: 12_000, completion_tokens: 900, total_tokens: 12_900 },
      cost: 0.0198,
      cost_per_1000_rows: 0.04125,
      cost_per_answer: 0.000043,
      filters: { prompt: { hate: { safe: 470, filtered: 0 } }, completion: {} },
      errors: { timeout: 3 },
      calls: { sent: 490, retried: 12, rate_limited: 7, repeated: 0 },
      latency_ms: { p50: 210, p90: 400, p95: 480, p99: 700, max: 912 },
      rows_per_second: 19.2,
      ...summary,
    },
    latency: withLatencies(null, [100, 200, 300, 900]),
    ...change,
  };
}

/** A queue on a server, with one failed entry. */
export const queueView = (failed: Partial<FailedEntry> = {}): QueueView => ({
  name: 'promptmill-lm-35-turbo-instruct-1234abcd',
  depth: async () => ({ active: 40, prioritized: 13_105, waiting: 0, delayed: 205, failed: 1_310 }),
  failed: async () => [
    {
      id: '20261121-020000-aaaaaa-x1-3105',
      rows: [3_105, 3_124],
      at: Date.parse('2026-11-21T02:12:05.000Z'),
      reason: 'refused: not a chunk of this deployment',
      ...failed,
    },
  ],
});

export function workerBeat(change: Partial<WorkerHeartbeat> = {}): WorkerHeartbeat {
  return {
    v: 1,
    id: 'night1-4711-9f3a',
    host: 'night1',
    pid: 4711,
    began: null,
    space: 'elsewhere',
    started_at: '2026-11-21T02:00:00.000Z',
    run: null,
    queues: [
      {
        queue: 'promptmill-lm-35-turbo-instruct-1234abcd',
        deployment: 'lm-35-turbo-instruct',
        concurrency: 8,
        in_flight: 6,
        waiting: null,
        quota: null,
      },
    ],
    concurrency: 50,
    draining: false,
    rows: 480,
    rows_per_second: 18.5,
    calls: { '200': 470, '429': 7, timeout: 3 },
    ...change,
  };
}
