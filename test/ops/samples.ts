import { summarise } from '../../src/account/summary.js';
import { emptyTally } from '../../src/account/tally.js';
import type { RunHeartbeat, WorkerHeartbeat } from '../../src/ops/heartbeat.js';
import { DETAILS } from '../account/summary-parts.js';

/** A run of 100 rows, half of them known. */
export function runBeat(
  change: Partial<RunHeartbeat> = {},
  job = 'reviews',
  startedAt = '2026-11-21T02:00:00Z',
): RunHeartbeat {
  const run = change.run ?? '20261121-020000-4f9c1a';
  const { details: _, ...summary } = summarise({
    run,
    job,
    deployment: 'lm-35',
    api_version: '2023-09-15-preview',
    emulated: false,
    input: { path: 'in.csv', sha256: 'abc', rows: 100 },
    output: 'out.csv',
    started_at: startedAt,
    finished_at: startedAt,
    duration_s: 5,
    stopped: null,
    missed: null,
    tally: { ...emptyTally(), rows: { total: 40, completed: 38, filtered: 0, failed: 2, skipped: 0 } },
    calls: { sent: 55, retried: 1, rate_limited: 0, repeated: 0 },
    prices: null,
    details: DETAILS,
  });
  return {
    v: 1,
    run,
    state: 'running',
    queue: 'promptmill-lm-35-1234',
    emulated: false,
    host: 'web1',
    pid: 4711,
    began: null,
    space: 'elsewhere',
    known: 50,
    called: 50,
    rows_per_second: 10,
    seconds_left: 5,
    waiting: null,
    limits: {
      requests_per_minute: 600,
      tokens_per_minute: null,
      token_estimate: 'full',
      prompts_per_request: 1,
      chunk_size: 20,
    },
    summary,
    latency: null,
    ...change,
  };
}

export function workerBeat(change: Partial<WorkerHeartbeat> = {}): WorkerHeartbeat {
  return {
    v: 1,
    id: 'web1-4711-9f3a',
    host: 'web1',
    pid: 4711,
    began: null,
    space: 'elsewhere',
    started_at: '2026-11-21T02:00:00Z',
    run: null,
    queues: [
      {
        queue: 'promptmill-lm-35-1234',
        deployment: 'lm-35',
        concurrency: 16,
        in_flight: 12,
        waiting: null,
        quota: null,
      },
    ],
    concurrency: 50,
    draining: false,
    rows: 1_234,
    rows_per_second: 61.5,
    calls: { '200': 1_234, timeout: 1 },
    ...change,
  };
}
