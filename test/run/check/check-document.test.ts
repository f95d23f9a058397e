import { describe, expect, test } from 'vitest';
import { renderTerminal } from '../../../src/render/terminal.js';
import { checkDocument } from '../../../src/run/check/check-document.js';
import type { CheckReport } from '../../../src/run/check/check-report.js';

const report: CheckReport = {
  job: 'nightly-topics',
  deployment: 'text-davinci-003',
  api_version: '2022-12-01',
  input: { path: 'samples/reviews.csv', sha256: 'a'.repeat(64), rows: 1_350 },
  rows: { total: 1_350, to_send: 1_338, skipped: 10, failing: 2 },
  skipped: [
    {
      code: 'review',
      rows: 10,
      examples: [9, 80, 87, 88, 1_117, 1_175].map((line) => ({
        row: line,
        line,
        message: 'review is empty',
      })),
    },
  ],
  problems: [
    {
      code: 'ragged_record',
      rows: 2,
      examples: [
        { row: 4, line: 5, message: 'the record on line 5 has 3 cells, and the header has 2' },
        { row: 8, line: 9, message: 'the record on line 9 has 1 cells, and the header has 2' },
      ],
    },
  ],
  mistakes: [],
  warnings: [],
  tokens: {
    tokenizer: 'p50k_base',
    tokenizer_assumed: false,
    spread: { least: 1, most: 1 },
    context_window: 4097,
    prompt_tokens: 138_331,
    completion_tokens: { least: 0, most: 6_690 },
    total_tokens: { least: 138_331, most: 145_021 },
    longest_prompt: { row: 89, line: 104, tokens: 254 },
  },
  cacheable_prompt_tokens: 66_900,
  cacheable_prompt_share: 0.48,
  cacheable_at_best: { columns: ['review'], prompt_tokens: 80_280 },
  answer_schema: null,
  extra_body: null,
  requests: 1_338,
  duplicates: {
    rows: 3,
    at_least: false,
    dedupe_would_copy: false,
    prompt_tokens: 300,
    total_tokens: { least: 300, most: 315 },
    cost: { least: 0.006, most: 0.0063 },
    examples: [
      { line: 7, same_as_line: 3 },
      { line: 1_200, same_as_line: 3 },
    ],
  },
  columns: ['review', 'status', 'answer'],
  prices: { prompt: 0.02, completion: 0.02 },
  cost: { least: 2.76662, most: 2.90042 },
  cost_per_1000_rows: { least: 1.97616, most: 2.07173 },
  time: { seconds: 267.6, limit: 'requests_per_minute', call_seconds: 2 },
  deadline: { seconds: 18_000, verdict: 'holds', call_seconds: 134.5 },
  budget: [
    { limit: 'tokens', budget: 140_000, verdict: 'depends' },
    { limit: 'cost', budget: 5, verdict: 'inside' },
  ],
  first_prompt: {
    row: 1,
    line: 2,
    tokens: 12,
    parameters: { max_tokens: 5 },
    text: 'What is the main topic?\n\nReview: fine\nTopic:',
    clipped: false,
  },
};

const render = (change: Partial<CheckReport> = {}, width = 90): string =>
  renderTerminal(checkDocument({ ...report, ...change }), { width, color: false });

/** In one line, so that it does not matter where lines break. */
const flat = (change: Partial<CheckReport>): string => render(change).replace(/\s+/g, ' ');

test('a person sees on one screen what a run would take', () => {
  expect(render()).toBe(`\
nightly-topics, deployment text-davinci-003

1,350 rows = 1,338 to send + 2 failing + 10 skipped

skipped         10 without review: lines 9, 80, 87, 88, 1,117 and 5 more
failing         2 ragged_record
                  line 5: the record on line 5 has 3 cells, and the header has 2
                  line 9: the record on line 9 has 1 cells, and the header has 2
                  The record has more or fewer cells than the header: put a cell with a
                  separator or a quote in it into quotes. Mend these records in the input
                  and run them alone: --input with a file of them.
tokens          138,331 prompt + 0 to 6,690 completion = 138,331 to 145,021 total
                longest prompt 254, line 104, context window 4,097
                tokenizer p50k_base
duplicates      3 rows ask what an earlier one asks, 300 to 315 tokens,
                cost 0.006 to 0.0063
                line 7 as 3, line 1,200 as 3
requests        1,338
cost            2.76662 to 2.90042; 1.97616 to 2.07173 for 1,000 rows
                1,000 tokens: prompt 0.02, completion 0.02
time            4 min 28 s by limits.requests_per_minute, as long as a call takes 2 s or
                less on average
deadline        5 h 0 min holds, as long as a call takes 2 min 15 s or less on average
budget          140,000 tokens may not be enough: that depends on how long the answers
                are; if not, the run will stop, resumably
                cost 5.00 is enough
columns         review, status, answer
first prompt    line 2, 12 tokens
                │ What is the main topic?
                │
                │ Review: fine
                │ Topic:
`);
});

test('every price is shown, with its currency', () => {
  const prices = { prompt: 3, cached: 1, completion: 9, flex: 0.5, batch: 0.4, currency: 'EUR' };
  const shown = '1,000 tokens: prompt 3, cached 1, completion 9, flex × 0.5, batch × 0.4, in EUR ';
  expect(flat({ prices })).toContain(shown);
  expect(flat({ prices: null })).not.toContain('1,000 tokens:');
});

test('several endpoints are listed with what is known of each', () => {
  const east = { deployment: 'd2', requests_per_minute: null, tokens_per_minute: 90_000, prices: null };
  const west = {
    ...{ deployment: 'd1', requests_per_minute: 600, tokens_per_minute: null },
    prices: { prompt: 0.5, completion: 2 },
  };
  expect(flat({ endpoints: { west, east } })).toContain(
    'endpoints west: d1, 600 requests a minute, prices 0.5 and 2 east: d2, 90,000 tokens a minute',
  );
});

test('of repeated rows it says whether they are copied, or could be', () => {
  const rows = { ...report.rows, to_send: 1_335, copied: 3 };
  expect(flat({ rows })).toContain('1,350 rows = 1,335 to send + 3 to copy + 2 failing + 10 skipped');
  expect(flat({ rows })).toContain('they are copied and not called (input.dedupe)');
  expect(flat({ rows: { ...rows, copied: 2 } })).toContain('2 of them are copied and not called');
  const duplicates = { ...report.duplicates, dedupe_would_copy: true };
  expect(flat({ duplicates })).toContain('input.dedupe: true would copy their outcomes');
  expect(render()).not.toContain('dedupe');
});

test('of long prompts it says how much of them a service could cache', () => {
  const long = {
    tokens: { ...report.tokens, prompt_tokens: 1_338 * 1_260 },
    cacheable_prompt_tokens: 1_338 * 50,
    cacheable_at_best: { columns: ['review'], prompt_tokens: 1_338 * 1_210 },
  };
  expect(flat(long)).toContain(
    'cacheable: 50 of 1,260 tokens are the same at the beginning of every row; 1,210 if {{ review }} comes last',
  );
  expect(flat({ ...long, cacheable_at_best: null })).toContain('at the beginning of every row duplicates');
  expect(render()).not.toContain('cacheable');
});

test('what there is nothing to say about is left out', () => {
  const empty: Partial<CheckReport> = {
    rows: { total: 2, to_send: 0, skipped: 0, failing: 2 },
    skipped: [],
    problems: [
      { code: 'empty_prompt', rows: 2, examples: [{ row: 1, line: 2, message: 'the prompt is empty' }] },
    ],
    requests: 0,
    duplicates: { ...report.duplicates, rows: 0 },
    cost: { least: 0, most: 0 },
    time: null,
    deadline: null,
    budget: [],
    first_prompt: null,
  };
  expect(render(empty)).toBe(`\
nightly-topics, deployment text-davinci-003

2 rows = 0 to send + 2 failing + 0 skipped

failing         2 empty_prompt
                  line 2: the prompt is empty
                  and 1 more
                  The prompt of these rows is empty. Fill their columns, or name them in
                  input.require to have such rows skipped.
columns         review, status, answer
`);
});

describe('what cannot be said is named with its reason', () => {
  test('time without a quota', () => {
    expect(flat({ time: null })).toContain('not quoted: without limits.requests_per_minute');
  });

  test('a deadline without a quota', () => {
    const deadline = { seconds: 60, verdict: 'unknown', call_seconds: 1.5 } as const;
    expect(flat({ time: null, deadline })).toContain(
      '1 min 0 s: cannot be said without a quota; it holds as long as a call takes 1.5 s or less on average',
    );
  });

  test('the tokenizer of a model that is not known', () => {
    const tokens = { ...report.tokens, tokenizer_assumed: true, context_window: null };
    expect(flat({ tokens })).toContain(
      'tokenizer p50k_base is assumed: the model of the deployment is not known, and service.model can name it. The count is approximate',
    );
    expect(flat({ tokens })).toContain('about 138,331 prompt');
    expect(flat({ tokens })).toContain('context window not known');
  });

  test('repeats when there are too many different prompts to remember', () => {
    expect(flat({ duplicates: { ...report.duplicates, at_least: true } })).toContain('at least 3 rows ask');
  });
});

test('a run that would stop early is told why', () => {
  expect(flat({ deadline: { seconds: 60, verdict: 'does_not_hold', call_seconds: 1 } })).toContain(
    '1 min 0 s does not hold: the quota is too small for it',
  );
  const budget: CheckReport['budget'] = [
    { limit: 'tokens', budget: 1_000, verdict: 'exceeded' },
    { limit: 'cost', budget: 1, verdict: 'exceeded' },
  ];
  expect(flat({ budget })).toContain(
    '1,000 tokens is not enough: the prompts alone take 138,331; the run will stop, resumably',
  );
  expect(flat({ budget })).toContain('cost 1.00 is not enough: the prompts alone take 2.76662');
});

test('a long prompt is cut, and says so', () => {
  const text = Array.from({ length: 100 }, (_, i) => `line ${i}`).join('\n');
  const shown = render({
    first_prompt: { row: 1, line: 2, tokens: 1, parameters: {}, text, clipped: false },
  });
  expect(shown).toContain('│ line 29\n');
  expect(shown).not.toContain('│ line 30\n');
  expect(shown).toContain('… --json has more');
});

test('the columns are shown, and so many at most', () => {
  const columnsOf = (columns: readonly string[]): string =>
    renderTerminal(checkDocument({ ...report, columns }), { width: 80, color: false });
  expect(columnsOf(['id', 'an\u001b[31mswer'])).toMatch(/^columns +id, an\\u\{1b\}\[31mswer$/m);
  expect(columnsOf(Array.from({ length: 60 }, (_, i) => `column_${i}`))).toMatch(
    /column_15,\s+and 44 more\n/,
  );
});

test('says how many calls answers that do not fit may take, and that a budget depends on them', () => {
  expect(flat({})).not.toContain('further calls');
  const asked = { most: 1_338, ask_again: 2, deployment: null };
  expect(flat({ further_calls: asked })).toContain(
    'asked again up to 1,338 further calls for answers that do not fit (answer.on_invalid: 2 times): no other figure counts them',
  );
  const cost = { least: 1, most: 2 };
  const budget = [{ limit: 'cost', budget: 5, verdict: 'depends' }] as const;
  const text = flat({ further_calls: { ...asked, ask_again: 1, deployment: 'large' }, cost, budget });
  expect(text).toContain(
    '(answer.on_invalid: once, then large once), at the prices of the job: no other figure',
  );
  expect(text).toContain('how long the answers are, and how many do not fit; if not');
  const last = { further_calls: { ...asked, ask_again: 0, deployment: 'large' }, cost: null };
  expect(flat(last)).toContain('(answer.on_invalid: large once): no other figure');
});

test('says what votes cost', () => {
  expect(flat({})).not.toContain('votes');
  expect(flat({ votes: 5 })).toContain(
    'votes 5 choices of each row are billed (answer.votes): up to 6,690 completion tokens, 1,338 without them',
  );
});
