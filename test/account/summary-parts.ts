import type { SummaryParts } from '../../src/account/summary.js';
import { emptyTally, fold } from '../../src/account/tally.js';
import { advanced, beginTimeline } from '../../src/account/timeline.js';
import { completed, failed, promptBlocked } from './outcomes.js';

const totals = {
  ...{ rows: 4, failed: 1, prompt_tokens: 120, completion_tokens: 4, sent: 5, rate_limited: 1 },
};
/** What a summary has besides its figures. */
export const DETAILS: SummaryParts['details'] = {
  timeline: advanced(beginTimeline(0, totals), 1_000, totals, [400, 30]),
  settings: { prompt: '"Review: {{ review }}"', '--emulate': 'false' },
  limits: {
    concurrency: 20,
    requests_per_minute: 600,
    tokens_per_minute: null,
    ...{ prompts_per_request: 1, timeout_s: 120, attempts: 6, unknown_outcome: 'retry' },
    ...{ budget: { tokens: null, cost: null }, give_up_s: 3600, deadline_s: null },
    ...{ stop_after: { failures: null, abstained: null }, canary: 0 },
  },
  state: { fingerprint: { input: 'same' }, execution: 1, prompt_tokens: 0, completion_tokens: 0 },
  input_bytes: 1_234,
  prompt: 'Review: {{ review }}',
};

/** What the summary of a short run is made of, which ended in several ways. */
export const parts: SummaryParts = {
  run: '20261121-020000-4f9c1a',
  job: 'reviews',
  job_file: 'reviews.yaml',
  deployment: 'd',
  api_version: 'v',
  emulated: false,
  input: { path: 'reviews.csv', sha256: 'a'.repeat(64), rows: 4 },
  output: 'out/reviews.csv',
  started_at: '2026-11-21T02:00:00.000Z',
  finished_at: '2026-11-21T02:00:01.000Z',
  duration_s: 1,
  stopped: null,
  missed: null,
  tally: fold(emptyTally(), [completed('positive'), completed('negative'), failed('timeout'), promptBlocked]),
  calls: { sent: 5, retried: 0, rate_limited: 1, repeated: 0 },
  prices: null,
  details: DETAILS,
};
