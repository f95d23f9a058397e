import { cost, count, duration, percent, rate } from '../figures.js';
import type { Summary } from '../report/summary.js';
import { type Counts, type FilterCounts, sumOf } from '../report/tally.js';
import { reconciliation, sourceCounts } from '../report/terminal.js';
import { plain } from '../report/terminal-text.js';
import { CALL_COUNTS, CALLS } from '../store/counters.js';
import { type Figure, type Share, sharesOf } from './front-page.js';
import type { WatchedRun } from './watch.js';

/** A table of the page of a run. Rows with a share get a bar. */
export interface Section {
  readonly title: string;
  readonly rows: readonly SectionRow[];
}

interface SectionRow {
  readonly name: string;
  readonly value: string;
  readonly percent: string | null;
  readonly fraction: number | null;
}

/** `GET /api/runs/ID`: what the page of a run shows. */
export interface RunPage {
  readonly id: string;
  readonly job: string;
  /** Whether it changes yet. */
  readonly ended: boolean;
  readonly stateText: string;
  readonly note: string | null;
  readonly startedAt: string;
  readonly rowsText: string;
  readonly shares: readonly Share[];
  readonly facts: readonly Figure[];
  readonly sections: readonly Section[];
}

/** The sections of the terminal's summary, as tables. A section without rows is left out. */
export function runPageOf({ beat, standing }: WatchedRun): RunPage {
  const { summary } = beat;
  const { rows } = summary;
  return {
    id: beat.run,
    job: plain(summary.job),
    ended: beat.state !== 'running',
    stateText: {
      running: beat.waiting === null ? 'Running' : 'Waiting',
      lost: 'Lost',
      finished: 'Finished',
      stopped: 'Stopped',
      interrupted: 'Interrupted',
    }[standing],
    note: plainOrNull(summary.stopped ?? summary.missed ?? beat.waiting),
    startedAt: summary.started_at,
    rowsText: reconciliation(summary),
    shares: sharesOf(rows),
    facts: [
      ['Run', beat.run],
      ['Deployment', plain(summary.deployment) + (beat.emulated ? ' (emulated)' : '')],
      ['API version', plain(summary.api_version)],
      ['Input', plain(summary.input.path)],
      ['Rows of the input', count(summary.input.rows)],
      ['SHA-256 of the input', plain(summary.input.sha256)],
      ['Output', plain(summary.output)],
      ['Duration', duration(summary.duration_s)],
      ['Mean speed', rate(summary.rows_per_second, ' rows')],
      ['Process', `${plain(beat.host)}, ${beat.pid}`],
    ],
    sections: [
      { title: 'Answers', rows: shared(summary.answers) },
      { title: 'Where answers come from', rows: sources(summary) },
      { title: 'Scores', rows: scores(summary) },
      { title: 'Finish reasons', rows: shared(summary.finish_reasons) },
      { title: 'Errors', rows: counted(summary.errors) },
      { title: 'Tokens', rows: tokens(summary) },
      { title: 'Calls', rows: CALLS.map((name) => row(CALL_COUNTS[name], count(summary.calls[name]))) },
      { title: 'Rows without a call', rows: reused(summary) },
      {
        title: 'Latency',
        rows: Object.entries(summary.latency_ms).flatMap(([name, ms]) =>
          ms === null ? [] : [row(name, duration(ms / 1000))],
        ),
      },
      { title: 'Content filter, prompts', rows: filters(summary.filters.prompt) },
      { title: 'Content filter, completions', rows: filters(summary.filters.completion) },
    ].filter((section) => section.rows.length > 0),
  };
}

/** Only where a job has done more than to read them. */
function sources({ answer_sources: { read, ...others } }: Summary): SectionRow[] {
  return sumOf(others) === 0 ? [] : shared(sourceCounts({ read, ...others }));
}

const plainOrNull = (text: string | null): string | null => (text === null ? null : plain(text));

const row = (name: string, value: string): SectionRow => ({ name, value, percent: null, fraction: null });

/** The most frequent first, each with its share of all. */
function shared(counts: Counts): SectionRow[] {
  const all = Object.values(counts).reduce((sum, n) => sum + n, 0);
  return sorted(counts).map(([name, n]) => ({
    name: plain(name),
    value: count(n),
    percent: percent(n, all),
    fraction: n / all,
  }));
}

const counted = (counts: Counts): SectionRow[] =>
  sorted(counts).map(([name, n]) => row(plain(name), count(n)));

const sorted = (counts: Counts): [string, number][] =>
  Object.entries(counts)
    .filter(([, n]) => n > 0)
    .toSorted(([, a], [, b]) => b - a);

/** Only of a job with `input.dedupe` or `input.only_new`. */
const reused = ({ reused }: Summary): SectionRow[] =>
  reused === undefined
    ? []
    : [
        row('copied from an earlier row', count(reused.copied)),
        row('carried over from an earlier run', count(reused.carried)),
      ];

/** Only of a job with `answer.gold`, once a row with gold is answered. */
function scores({ scores }: Summary): SectionRow[] {
  if (!scores?.accuracy) return [];
  const { value, low, high } = scores.accuracy;
  return [
    row('accuracy', percent(value, 1)),
    row('95 % interval', `${percent(low, 1)} to ${percent(high, 1)}`),
    ...(scores.macro_f1 === null ? [] : [row('macro F1', scores.macro_f1.toFixed(3))]),
    ...(scores.kappa === null ? [] : [row('kappa', scores.kappa.toFixed(3))]),
    ...(scores.brier === null ? [] : [row('Brier score', scores.brier.toFixed(3))]),
    ...(scores.ece === null ? [] : [row('calibration error', scores.ece.toFixed(3))]),
    row('rows with gold', count(scores.rows)),
    ...(scores.unanswered === 0 ? [] : [row('rows with gold and no answer', count(scores.unanswered))]),
  ];
}

function tokens({ usage, cost: price }: Summary): SectionRow[] {
  return [
    row('prompt', count(usage.prompt_tokens)),
    row('completion', count(usage.completion_tokens)),
    row('total', count(usage.total_tokens)),
    ...(price === null ? [] : [row('cost', cost(price))]),
  ];
}

function filters(categories: FilterCounts): SectionRow[] {
  return Object.entries(categories).map(([category, counts]) =>
    row(
      plain(category),
      sorted(counts)
        .map(([severity, n]) => `${count(n)} ${plain(severity)}`)
        .join(', ') || '0',
    ),
  );
}
