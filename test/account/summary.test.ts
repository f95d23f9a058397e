import { AssertionError } from 'node:assert/strict';
import { expect, test } from 'vitest';
import { type SummaryParts, summarise } from '../../src/account/summary.js';
import { emptyTally, fold } from '../../src/account/tally.js';
import { completed, completionBlocked, failed, skipped } from './outcomes.js';
import { DETAILS } from './summary-parts.js';

const parts: SummaryParts = {
  run: 'review-sentiment-k3x9',
  job: 'review-sentiment',
  deployment: 'lm-35-turbo-instruct',
  api_version: '2023-09-15-preview',
  emulated: false,
  input: { path: 'samples/reviews.csv', sha256: 'a'.repeat(64), rows: 5 },
  output: 'out/reviews.csv',
  started_at: '2025-11-21T02:00:00.000Z',
  finished_at: '2025-11-21T02:00:03.000Z',
  duration_s: 3.0004999,
  stopped: null,
  missed: null,
  tally: fold(emptyTally(), [
    completed('positive', { latency_ms: 10 }),
    completed('negative', { latency_ms: 20 }),
    completionBlocked,
    failed('timeout', { latency_ms: null }),
    skipped,
  ]),
  calls: { repeated: 0, rate_limited: 1, retried: 2, sent: 6 },
  prices: { prompt: 0.0015, completion: 0.002 },
  details: DETAILS,
};

test('the summary has its fixed fields, in their order', () => {
  const { details: _, ...figures } = summarise(parts);
  expect(JSON.stringify(figures, null, 1)).toBe(
    JSON.stringify(
      {
        run: 'review-sentiment-k3x9',
        job: 'review-sentiment',
        deployment: 'lm-35-turbo-instruct',
        api_version: '2023-09-15-preview',
        emulated: false,
        input: { path: 'samples/reviews.csv', sha256: 'a'.repeat(64), rows: 5 },
        output: 'out/reviews.csv',
        started_at: '2025-11-21T02:00:00.000Z',
        finished_at: '2025-11-21T02:00:03.000Z',
        duration_s: 3,
        stopped: null,
        missed: null,
        rows: { total: 5, completed: 2, filtered: 1, failed: 1, skipped: 1 },
        finish_reasons: { stop: 2, content_filter: 1 },
        answers: { positive: 1, negative: 1 },
        answers_invalid: 0,
        answers_refused: 0,
        answers_abstained: 0,
        answer_sources: { read: 2, repaired: 0, asked_again: 0, voted: 0, escalated: 0 },
        usage: { prompt_tokens: 180, completion_tokens: 9, total_tokens: 189 },
        cost: 0.000288,
        cost_per_1000_rows: 0.0576,
        cost_per_answer: 0.000144,
        filters: {
          prompt: { hate: { safe: 3, filtered: 0 } },
          completion: { hate: { safe: 2, filtered: 0 }, violence: { medium: 1, filtered: 1 } },
        },
        errors: { content_filter: 1, timeout: 1 },
        error_samples: { content_filter: 'blocked', timeout: 'because of timeout' },
        calls: { sent: 6, retried: 2, rate_limited: 1, repeated: 0 },
        latency_ms: { p50: 20, p90: 500, p95: 500, p99: 500, max: 500 },
        rows_per_second: 1.67,
      },
      null,
      1,
    ),
  );
});

test('answers are read as they are where nothing else is counted, as in what the version before has counted', () => {
  const tally = {
    ...parts.tally,
    rows: { total: 10, completed: 10, filtered: 0, failed: 0, skipped: 0 },
    ...{ invalid: { answer_not_json: 2 }, abstained: 1, sources: { repaired: 3, escalated: 1 } },
  };
  expect(summarise({ ...parts, tally }).answer_sources).toEqual({
    ...{ read: 3, repaired: 3, asked_again: 0, voted: 0, escalated: 1 },
  });
});

test('a job that reuses outcomes has the rows that were not called at the end, also when there are none', () => {
  expect(Object.entries(summarise({ ...parts, reuses: true })).at(-2)).toEqual([
    'reused',
    { copied: 0, carried: 0 },
  ]);
  const tally = fold(parts.tally, [
    completed('positive', { origin: { copied_from: 1 } }),
    completed('positive', { origin: { carried_from: 'a-run' } }),
    failed('timeout', { origin: { copied_from: 1 } }),
  ]);
  expect(summarise({ ...parts, tally, reuses: true }).reused).toEqual({ copied: 2, carried: 1 });
});

test('the job file stands behind the name of the job, where the job comes from one', () => {
  const summary = summarise({ ...parts, job_file: 'jobs/sentiment.yaml' });
  expect(Object.entries(summary).slice(1, 3)).toEqual([
    ['job', 'review-sentiment'],
    ['job_file', 'jobs/sentiment.yaml'],
  ]);
});

test('amounts of money have the currency of the prices', () => {
  expect(summarise({ ...parts, currency: 'EUR' }).currency).toBe('EUR');
  expect(summarise(parts)).not.toHaveProperty('currency');
});

test('a usable answer is neither invalid nor abstained, and what costs nothing per row says nothing', () => {
  const one = { ...parts.tally, abstained: 1 };
  expect(summarise({ ...parts, tally: one }).cost_per_answer).toBe(0.000288);
  const none = { ...one, invalid: { answer_unknown: 1 } };
  expect(summarise({ ...parts, tally: none }).cost_per_answer).toBeNull();
});

test('without prices the cost is null, and not 0', () => {
  const without = summarise({ ...parts, prices: null });
  expect([without.cost, without.cost_per_1000_rows, without.cost_per_answer]).toEqual([null, null, null]);
});

test('a stopped run says why, with the code first', () => {
  const stopped = { code: 'budget_spent', message: '2,000,000 tokens are used' };
  expect(summarise({ ...parts, stopped }).stopped).toBe('budget_spent: 2,000,000 tokens are used');
});

test('a run that took no time has no rate that JSON could not hold', () => {
  expect(summarise({ ...parts, duration_s: 0 }).rows_per_second).toBe(0);
});

test('rows that do not add up are a defect, and no summary is made of them', () => {
  const rows = { total: 6, completed: 2, filtered: 1, failed: 1, skipped: 1 };
  expect(() => summarise({ ...parts, tally: { ...parts.tally, rows } })).toThrow(AssertionError);
});
