import { describe, expect, test } from 'vitest';
import type { Summary } from '../../src/account/summary.js';
import { summaryDocument } from '../../src/render/run-document.js';
import { renderTerminal, type TerminalOptions } from '../../src/render/terminal.js';
import { wrapped } from '../../src/render/terminal-text.js';

const finished: Summary = {
  run: 'review-sentiment-k3x9',
  job: 'review-sentiment',
  deployment: 'lm-35-turbo-instruct',
  api_version: '2023-09-15-preview',
  emulated: false,
  input: { path: 'samples/reviews.csv', sha256: 'a'.repeat(64), rows: 1000 },
  output: 'out/reviews.csv',
  started_at: '2025-11-21T02:00:00.000Z',
  finished_at: '2025-11-21T02:01:43.000Z',
  duration_s: 103.2,
  stopped: null,
  missed: null,
  rows: { total: 1000, completed: 951, filtered: 5, failed: 2, skipped: 42 },
  finish_reasons: { stop: 951, content_filter: 2 },
  answers: { negative: 300, positive: 512, neutral: 139 },
  answers_invalid: 0,
  answers_refused: 0,
  answers_abstained: 0,
  answer_sources: { read: 951, repaired: 0, asked_again: 0, voted: 0, escalated: 0 },
  usage: { prompt_tokens: 57_180, completion_tokens: 1912, total_tokens: 59_092 },
  cost: 0.089594,
  currency: 'EUR',
  cost_per_1000_rows: 0.089594,
  cost_per_answer: 0.000094,
  filters: {
    prompt: { hate: { safe: 950, high: 3, filtered: 3 }, violence: { safe: 953, filtered: 0 } },
    completion: {
      violence: { safe: 951, medium: 2, filtered: 2 },
      jailbreak: { not_detected: 9, filtered: 0 },
    },
  },
  errors: { timeout: 1, content_filter: 5, context_length: 1 },
  calls: { sent: 1012, retried: 54, rate_limited: 6, repeated: 0 },
  latency_ms: { p50: 413, p90: 2431, p95: 2431, p99: 2431, max: 61_200 },
  rows_per_second: 9.69,
};

const FILES = [
  ['output', 'out/reviews.csv'],
  ['summary', 'out/reviews.summary.json'],
] as const;

const render = (
  summary: Summary,
  { width = 80, color = false, files = FILES, resume = 'promptmill run jobs/sentiment.yaml' }: Options = {},
): string => renderTerminal(summaryDocument(summary, { files, resume }), { width, color });

interface Options extends Partial<TerminalOptions> {
  readonly files?: readonly (readonly [name: string, path: string])[];
  readonly resume?: string;
}

test('each of several endpoints has its rows, calls, tokens and money', () => {
  const usage = { prompt_tokens: 500, completion_tokens: 20, total_tokens: 520 };
  const endpoints = {
    west: { calls: 810, rows: 800, usage, cost: 1.5, rate_limited: 6 },
    east: { calls: 156, rows: 156, usage, cost: null, rate_limited: 0 },
  };
  const shown = render({ ...finished, endpoints }, { width: 120 });
  expect(shown).toContain('west 800 rows of 810 calls, 6 rate limited, 520 tokens, cost 1.50 EUR');
  expect(shown).toContain('east 156 rows of 156 calls, 520 tokens');
});

test('what may have been paid for again is told in answers and in money', () => {
  const repeated = { ...finished, calls: { ...finished.calls, repeated: 20 } };
  expect(render(repeated)).toContain(`\
calls           1,012 sent, 54 retried, 6 rate limited, 20 repeated
                20 may have been paid for twice, about 0.001874 EUR in all
`);
  expect(render({ ...repeated, cost: null })).toContain('20 may have been paid for twice\nlatency');
});

test('where answers come from is told where a job has done more than to read them', () => {
  const sources = { read: 900, repaired: 40, asked_again: 9, voted: 0, escalated: 2 };
  const text = render({ ...finished, answer_sources: sources });
  expect(text).toContain('900 read, 40 repaired, 9 asked again, 2 escalated\n');
  expect(text).toMatch(/for 1,000 rows\),\s+escalated answers at the prices of the job\n/);
  expect(render({ ...finished, cost: null, answer_sources: sources })).not.toContain('prices of the job');
  const voted = { ...sources, read: 0, repaired: 0, asked_again: 0, voted: 951, escalated: 0 };
  for (const each of [finished, { ...finished, answer_sources: voted }])
    expect(render(each)).not.toMatch(/read,|voted|prices of the job/);
});

test('scores are told, with a matrix of few labels where there is room for it', () => {
  const f1 = { precision: 0.9, recall: 0.9, f1: 0.9, support: 20 };
  const scores = {
    rows: 40,
    unanswered: 0,
    accuracy: { value: 0.9, low: 0.7695, high: 0.9604 },
    abstained: 0,
    answered: 40,
    answered_accuracy: 0.9,
    macro_f1: 0.8996,
    kappa: 0.7999,
    brier: null,
    ece: null,
    calibration: [],
    labels: { bad: f1, '\u001b[31mvery good': f1 },
    confusion: {
      bad: { bad: 18, '\u001b[31mvery good': 1, '(none)': 1 },
      '\u001b[31mvery good': { '\u001b[31mvery good': 18, bad: 2 },
    },
    properties: {},
  };
  const shown = render({ ...finished, scores }, { width: 100 });
  expect(shown).toContain(`\
scores          accuracy 90.0 % (77.0 % to 96.0 %) of 40 rows, macro F1 0.900, kappa 0.800
                gold \\ answer        bad  \\u{1b}[31mvery good  (none)
                bad                   18                    1       1
                \\u{1b}[31mvery good    2                   18       0
`);
  expect(render({ ...finished, scores }, { width: 52 })).not.toContain('gold \\ answer');
  const unsure = {
    ...scores,
    abstained: 10,
    answered: 29,
    answered_accuracy: 0.95,
    brier: 0.1234,
    ece: 0.0567,
  };
  const told = render({ ...finished, scores: unsure }, { width: 200 });
  expect(told).toContain(
    'scores          29 of 40 rows with gold answered (72.5 %), accuracy 95.0 % of those, ' +
      'accuracy 90.0 % (77.0 % to 96.0 %) of all, macro F1',
  );
  const silent = { ...unsure, abstained: 40, answered: 0, answered_accuracy: null };
  expect(render({ ...finished, scores: silent }, { width: 200 })).toContain(
    'scores          0 of 40 rows with gold answered (0.0 %), accuracy 90.0 % (',
  );
  expect(told).toContain('kappa 0.800, Brier score 0.123, calibration error 0.057\n');
  const many = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`l${i}`, { l0: i + 1 }]));
  expect(render({ ...finished, scores: { ...scores, confusion: many } })).toContain(' 9  l8 → l0\n');
  const none = { ...scores, rows: 0, accuracy: null, macro_f1: null, kappa: null, labels: {}, confusion: {} };
  expect(render({ ...finished, scores: none })).toContain('scores          no row with gold so far\n');
  expect(render({ ...finished, scores: { ...none, unanswered: 3 } })).toContain(
    'scores          no answer to 3 rows with gold\n',
  );
  expect(render({ ...finished, scores: { ...scores, confusion: {} } })).not.toContain('gold \\ answer');
  const left_out = 'more than 100 different labels came: only the accuracy is counted';
  expect(render({ ...finished, scores: { ...none, left_out } }, { width: 100 })).toContain(`${left_out}\n`);
});

test('rows that were not called are told, and do not make the others seem cheaper', () => {
  const reused = { copied: 220, carried: 1 };
  expect(render({ ...finished, reused })).toContain(`\
calls           1,012 sent, 54 retried, 6 rate limited, 0 repeated
                220 rows copied, 1 carried over: not called
`);
  expect(render({ ...finished, reused: { copied: 0, carried: 1 } })).toContain(
    '1 row carried over: not called',
  );
  expect(render({ ...finished, reused: { copied: 0, carried: 0 } })).toContain(
    'no row copied or carried over',
  );
  const calls = { ...finished.calls, repeated: 2 };
  const most = render({ ...finished, calls, reused: { copied: 900, carried: 0 } });
  // 0.089594 for 956 − 900 rows, twice.
  expect(most).toContain('about 0.0032 EUR in all');
  expect(render({ ...finished, calls, reused: { copied: 956, carried: 0 } })).toContain('paid for twice\n');
});

test('at 80 columns a person sees the whole run', () => {
  expect(render(finished)).toBe(`\
review-sentiment, deployment lm-35-turbo-instruct

1,000 rows = 951 completed + 5 filtered + 2 failed + 42 skipped

answers         positive  512   53.8 %  ██████████████████████
                negative  300   31.5 %  █████████████
                neutral   139   14.6 %  ██████
finish reasons  951 stop, 2 content_filter
tokens          57,180 prompt + 1,912 completion = 59,092 total,
                cost 0.089594 EUR (0.089594 EUR for 1,000 rows)
filters         prompt hate          3 high, 3 filtered
                completion violence  2 medium, 2 filtered
errors          content_filter  5
                timeout         1
                context_length  1
calls           1,012 sent, 54 retried, 6 rate limited, 0 repeated
latency         p50 413 ms, p90 2.4 s, p95 2.4 s, p99 2.4 s, max 1 min 1 s
duration        1 min 43 s, 9.3 rows/s
files           output   out/reviews.csv
                summary  out/reviews.summary.json
`);
});

test('beside the count of an error stands one message of it, as far as there is room, and estimates are said', () => {
  const error_samples = {
    timeout: 'no whole answer\u001b in time: example.net',
    content_filter: 'x'.repeat(300),
  };
  expect(render({ ...finished, error_samples, usage_estimated: 300 })).toContain(`\
errors          content_filter  5  ${'x'.repeat(44)}…
                timeout         1  no whole answer\\u{1b} in time: example.net
                context_length  1
`);
  expect(render({ ...finished, usage_estimated: 300 })).toContain('estimated for 300 rows\n');
  expect(render({ ...finished, error_samples }, { width: 38 })).toContain('  content_filter  5\n');
});

test('a stopped run says why, how far it came, and how to go on', () => {
  const stopped = {
    ...finished,
    stopped: 'budget_spent: 2,000,000 tokens are used',
    input: { ...finished.input, rows: 5000 },
  };
  expect(render(stopped)).toContain(`
1,000 rows = 951 completed + 5 filtered + 2 failed + 42 skipped

Stopped after 1,000 of 5,000 rows: budget_spent: 2,000,000 tokens are used
Resume with:
  promptmill run jobs/sentiment.yaml

`);
  expect(render(finished)).not.toContain('promptmill run');
});

describe('the line that adds the rows up', () => {
  const big = { total: 1_000_000, completed: 951_000, filtered: 5000, failed: 44_000, skipped: 0 };
  const line = '1,000,000 rows = 951,000 completed + 5,000 filtered + 44,000 failed + 0 skipped';

  test.each([20, 50, 80, 120])('has one form, with every status and unbroken, at %i columns', (width) => {
    expect(render({ ...finished, rows: big }, { width }).split('\n')).toContain(line);
  });

  test('keeps that form under colours', () => {
    expect(render({ ...finished, rows: big }, { color: true })).toContain(line);
  });
});

test('wide characters keep the columns aligned', () => {
  const lines = render({ ...finished, answers: { 好评: 3, bad: 1 } }).split('\n');
  expect(lines).toContain('answers         好评  3   75.0 %  ██████████████████████████████');
  expect(lines).toContain('                bad   1   25.0 %  ██████████');
});

test('what there is nothing to say about is left out', () => {
  const empty: Summary = {
    ...finished,
    rows: { total: 2, completed: 0, filtered: 0, failed: 0, skipped: 2 },
    finish_reasons: {},
    answers: {},
    usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    cost: null,
    filters: { prompt: {}, completion: {} },
    errors: {},
    calls: { sent: 0, retried: 0, rate_limited: 0, repeated: 0 },
    latency_ms: { p50: null, p90: null, p95: null, p99: null, max: null },
    duration_s: 0.4,
    rows_per_second: 5,
  };
  expect(render(empty, { files: [] })).toBe(`\
review-sentiment, deployment lm-35-turbo-instruct

2 rows = 0 completed + 0 filtered + 0 failed + 2 skipped

calls           0 sent, 0 retried, 0 rate limited, 0 repeated
duration        400 ms
`);
});

test('tokens that do not add up are not shown as a sum', () => {
  const usage = { prompt_tokens: 100, completion_tokens: 5, total_tokens: 0 };
  expect(render({ ...finished, usage, cost: null })).toContain(
    'tokens          100 prompt, 5 completion, 0 total\n',
  );
});

test('a long list of answers is cut, and says so', () => {
  const answers = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`label ${n}`, 1]));
  const text = render({ ...finished, answers });
  expect(text).toContain("and 86 more, in the summary's file");
  expect(text).not.toContain('label 15');
});

test('joiners stay: words and emoji are made of them', () => {
  expect(render({ ...finished, job: 'می‌خواهم 👩‍💻' })).toContain('می‌خواهم 👩‍💻, deployment');
});

describe('what is said before and during a run', () => {
  const text = 'calling the model, 20 at a time\n  promptmill run a-job-file-with-a-name.yaml';

  test('is broken between words on a terminal, but for commands', () => {
    expect(wrapped(text, { isTTY: true, columns: 20 })).toBe(
      'calling the model,\n20 at a time\n  promptmill run a-job-file-with-a-name.yaml',
    );
  });

  test('stays a line in a pipe', () => {
    expect(wrapped(text, { columns: 20 })).toBe(text);
  });
});
