import type { StoredSummary } from '../../src/account/summary.js';
import { emptyTally } from '../../src/account/tally.js';
import { advanced, beginTimeline, type Timeline } from '../../src/account/timeline.js';
import { type RunReport, runReport } from '../../src/render/run-report.js';
import { runBeat } from '../ops/web/beats.js';

/** Whatever is put into a page as markup would run this, or reach for something. */
export const MARKUP = [
  '<img src=x onerror="document.title=`owned`"><script>document.title="owned"</script></script></style></title>',
  '<svg onload=document.title="owned"> &lt;img src=x onerror=alert(1)&gt; {{ 7 * 7 }} <!-- --> ]]>',
  '<a href="javascript:document.title=`owned`" style="color:red" onfocus=alert(1) autofocus>x</a>"\' onclick=alert(1)',
].join('\n');

/** Reorders what is read, hides, rings. */
const UNSEEN = 'a\u202Etxt.exe\u202C\u200B\u0007\u001b[31mred \u2066b\u2069 \u0000 \ud800';

const ARABIC = 'المنتج رائع جداً وسريع، وأنصح به للجميع';

type ReportRow = NonNullable<RunReport['table']>['rows'][number];

export type SampleName =
  | 'plain'
  | 'gold'
  | 'failures'
  | 'hostile'
  | 'empty'
  | 'one'
  | 'labels'
  | 'long'
  | 'arabic';

/** A report of each kind that a page must stay readable with. */
export function sampleReport(name: SampleName): RunReport {
  const { summary, rows } = SAMPLES[name]();
  return runReport(
    { ...beatSummary(), ...summary },
    { columns: COLUMNS, rows, records: summary.rows?.total ?? 1000, ...countsOf(rows) },
  );
}

/** As if the output had twice the rows that are shown. */
function countsOf(rows: readonly ReportRow[]) {
  const twice = (names: readonly string[]): Record<string, number> =>
    Object.fromEntries(
      [...new Set(names)].map((name) => [name, 2 * names.filter((each) => each === name).length]),
    );
  return {
    outcomes: twice(rows.map(({ outcome }) => outcome)),
    answers: twice(rows.flatMap(({ cells: [answer = ''] }) => (answer === '' ? [] : [answer]))),
  };
}

const beatSummary = (): StoredSummary => ({
  ...runBeat().summary,
  finished_at: '2026-11-21T02:10:00.000Z',
  rows: { total: 1000, completed: 975, filtered: 8, failed: 5, skipped: 12 },
  input: { path: 'samples/reviews.csv', sha256: 'a3f8'.repeat(16), rows: 1000 },
  answers: { positive: 620, negative: 260, neutral: 95 },
  duration_s: 94.2,
  rows_per_second: 10.6,
  errors: { timeout: 3, http_500: 2, content_filter: 8 },
  error_samples: { timeout: 'no answer within 120 s', http_500: 'the service says: internal error' },
  filters: {
    prompt: { hate: { safe: 990, high: 8, filtered: 8 }, violence: { safe: 996, low: 4 } },
    completion: {},
  },
  details: {
    v: 1,
    tally: emptyTally(),
    steps: {},
    timeline: timeline(94_200, 1000),
    settings: { parameters: 'max_tokens 5, temperature 0', answer: 'labels positive, negative, neutral' },
    limits: {
      concurrency: 50,
      requests_per_minute: 900,
      tokens_per_minute: null,
      ...{ prompts_per_request: 1, timeout_s: 120, attempts: 6, unknown_outcome: 'retry' },
      ...{ budget: { tokens: null, cost: 2.5 }, give_up_s: 3600, deadline_s: null },
      ...{ stop_after: { failures: null, abstained: null }, canary: 0 },
    },
    state: { fingerprint: { input: 'same' }, execution: 1, prompt_tokens: 0, completion_tokens: 0 },
    input_bytes: 120_000,
    prompt:
      'Classify the sentiment of the review as positive, negative or neutral.\nReview: {{ review }}\nSentiment:',
  },
});

const COLUMNS = [
  { name: 'answer', of: 'answer' },
  { name: 'review', of: 'prompt' },
  { name: 'text', of: 'came' },
  { name: 'error_code', of: 'came' },
  { name: 'error_message', of: 'came' },
  { name: 'review_id', of: 'row' },
] as const;

const SAMPLES: Readonly<Record<SampleName, () => { summary: Partial<StoredSummary>; rows: ReportRow[] }>> = {
  plain: () => ({ summary: {}, rows: rowsOf(40) }),
  gold: () => ({
    summary: { scores: goldScores() },
    rows: rowsOf(200, (i) => (['answered', 'wrong', 'answered', 'failed', 'refused'] as const)[i % 5]).map(
      (row, i) => ({ ...row, gold: ['positive', 'neutral', 'negative'][i % 3] ?? '' }),
    ),
  }),
  failures: () => ({
    summary: {
      rows: { total: 20_000, completed: 15_000, filtered: 100, failed: 4900, skipped: 0 },
      errors: { timeout: 4000, http_500: 900, content_filter: 100 },
    },
    rows: rowsOf(2000, (i) => (i % 50 === 0 ? 'filtered' : 'failed')),
  }),
  hostile: () => {
    const named = { [MARKUP]: 40, [UNSEEN]: 10, __proto__x: 1 };
    const summary = beatSummary();
    return {
      summary: {
        job: MARKUP,
        deployment: MARKUP,
        output: MARKUP,
        input: { ...summary.input, path: MARKUP },
        stopped: `code: ${MARKUP}`,
        answers: named,
        finish_reasons: named,
        errors: named,
        error_samples: { [MARKUP]: MARKUP, [UNSEEN]: UNSEEN },
        filters: { prompt: { [MARKUP]: named }, completion: { [UNSEEN]: named } },
        scores: {
          ...goldScores(),
          confusion: { [MARKUP]: { [MARKUP]: 3, [UNSEEN]: 2 }, [UNSEEN]: { [UNSEEN]: 1 } },
        },
        details: {
          ...summary.details,
          prompt: `${MARKUP}\n${UNSEEN}`,
          settings: { [MARKUP]: MARKUP },
        },
      },
      rows: rowsOf(12).map((row) => ({
        ...{ ...row, gold: MARKUP },
        cells: [MARKUP, UNSEEN, MARKUP, MARKUP, MARKUP, UNSEEN],
      })),
    };
  },
  empty: () => ({
    summary: {
      rows: { total: 0, completed: 0, filtered: 0, failed: 0, skipped: 0 },
      input: { path: 'empty.csv', sha256: 'e'.repeat(64), rows: 0 },
      answers: {},
      errors: {},
      finish_reasons: {},
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      cost: null,
      filters: { prompt: {}, completion: {} },
      calls: { sent: 0, retried: 0, rate_limited: 0, repeated: 0 },
      latency_ms: { p50: null, p90: null, p95: null, p99: null, max: null },
      rows_per_second: 0,
      duration_s: 0,
    },
    rows: [],
  }),
  one: () => ({
    summary: {
      rows: { total: 1, completed: 1, filtered: 0, failed: 0, skipped: 0 },
      answers: { positive: 1 },
    },
    rows: rowsOf(1),
  }),
  labels: () => {
    const labels = Array.from({ length: 100 }, (_, i) => `label ${i + 1} of a long list`);
    return {
      summary: {
        answers: Object.fromEntries(labels.map((label, i) => [label, 1000 - 9 * i])),
        scores: {
          ...goldScores(),
          confusion: Object.fromEntries(
            labels.map((label, i) => [label, { [label]: 90, [labels[(i + 7) % 100] ?? '']: 1 + (i % 9) }]),
          ),
        },
      },
      rows: rowsOf(100, () => 'answered').map((row, i) => ({
        ...row,
        cells: [labels[i] ?? '', ...row.cells.slice(1)],
      })),
    };
  },
  long: () => {
    const word = 'a-very-long-name-without-any-place-to-break_'.repeat(6).replaceAll('-', '');
    return {
      summary: {
        job: word,
        deployment: word,
        output: `/${word}/${word}.csv`,
        answers: { [word]: 900, b: 100 },
        errors: { [word]: 3 },
        error_samples: { [word]: word },
      },
      rows: rowsOf(30).map((row) => ({ ...row, cells: row.cells.map(() => word) })),
    };
  },
  arabic: () => ({
    summary: { job: ARABIC, answers: { إيجابي: 700, سلبي: 300 } },
    rows: rowsOf(30).map((row) => ({ ...row, cells: ['إيجابي', ARABIC, 'إيجابي', '', '', 'R1'] })),
  }),
};

function rowsOf(
  count: number,
  outcomeOf: (i: number) => ReportRow['outcome'] | undefined = (i) =>
    (['answered', 'answered', 'answered', 'failed', 'filtered', 'invalid', 'abstained'] as const)[i % 7],
): ReportRow[] {
  return Array.from({ length: count }, (_, i) => {
    const outcome = outcomeOf(i) ?? 'answered';
    const answer =
      outcome === 'answered' || outcome === 'wrong' ? (['positive', 'negative', 'neutral'][i % 3] ?? '') : '';
    const error =
      outcome === 'failed'
        ? ['timeout', 'no answer within 120 s after 6 attempts']
        : outcome === 'filtered'
          ? ['content_filter', 'the prompt was blocked: hate high']
          : ['', ''];
    return {
      row: i * 3 + 1,
      ...{ outcome, gold: '' },
      cells: [
        answer,
        `I bought it ${i + 2} weeks ago & it works, “mostly”. The lid doesn't close, though, and the manual is missing.`,
        answer === '' && outcome === 'invalid' ? 'I am not sure what to say about this review' : answer,
        ...error,
        `R${String(i + 1).padStart(6, '0')}`,
      ],
    };
  });
}

function timeline(ms: number, rows: number): Timeline {
  const steps = 60;
  let line = beginTimeline(0, totals(0));
  for (let i = 1; i <= steps; i++) {
    const share = i / steps - 0.12 * Math.sin((i / steps) * Math.PI * 4) * (1 - i / steps);
    line = advanced(line, (ms * i) / steps, totals(Math.round(rows * share)), [
      180 + 90 * Math.sin(i / 3),
      400 + 250 * Math.abs(Math.sin(i)),
    ]);
  }
  return line;
}

const totals = (rows: number) => ({
  rows,
  failed: Math.floor(rows / 40),
  prompt_tokens: rows * 60,
  completion_tokens: rows * 3,
  sent: Math.round(rows * 1.04),
  rate_limited: Math.round(rows * 0.03),
});

function goldScores(): NonNullable<StoredSummary['scores']> {
  return {
    rows: 940,
    unanswered: 6,
    accuracy: { value: 0.912, low: 0.892, high: 0.928 },
    majority: { label: 'positive', accuracy: 0.649 },
    abstained: 0,
    answered: 940,
    answered_accuracy: 0.912,
    macro_f1: 0.874,
    kappa: 0.83,
    brier: 0.14,
    ece: 0.041,
    labels: {
      positive: { precision: 0.95, recall: 0.96, f1: 0.955, support: 610 },
      negative: { precision: 0.9, recall: 0.88, f1: 0.89, support: 240 },
      neutral: { precision: 0.74, recall: 0.73, f1: 0.735, support: 90 },
    },
    confusion: {
      positive: { positive: 586, negative: 14, neutral: 10 },
      negative: { positive: 16, negative: 211, neutral: 13 },
      neutral: { positive: 15, negative: 9, neutral: 60, '(none)': 6 },
    },
    confusions: [],
    calibration: [
      { from: 0.4, to: 0.5, rows: 12, confidence: 0.46, accuracy: 0.5 },
      { from: 0.5, to: 0.6, rows: 30, confidence: 0.55, accuracy: 0.53 },
      { from: 0.6, to: 0.7, rows: 48, confidence: 0.66, accuracy: 0.6 },
      { from: 0.7, to: 0.8, rows: 90, confidence: 0.76, accuracy: 0.74 },
      { from: 0.8, to: 0.9, rows: 180, confidence: 0.86, accuracy: 0.88 },
      { from: 0.9, to: 1, rows: 580, confidence: 0.97, accuracy: 0.985 },
    ],
    properties: {},
  };
}
