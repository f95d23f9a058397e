import { cost, count, duration, percent } from '../figures.js';
import { CALL_COUNTS, CALLS } from '../store/counters.js';
import type { Summary } from './summary.js';
import { type Counts, type FilterCounts, sumOf } from './tally.js';
import { plain } from './terminal-text.js';

/** A table of figures with a title: of a report, and of the dashboard's page of a run. Its texts are plain. */
export interface ReportSection {
  /** Stable, for links. */
  readonly id: string;
  readonly title: string;
  readonly rows: readonly SectionRow[];
}

export interface SectionRow {
  readonly name: string;
  readonly value: string;
  /** The share of the row in all of its section, as text and as a number from 0 to 1; `null` where there is none. */
  readonly percent: string | null;
  readonly fraction: number | null;
  /** One message of an error. Only where it is known. */
  readonly sample?: string;
  /** What to do about it. Only of what something can be done about. */
  readonly advice?: string;
}

/** The figures of a summary. A section without rows is left out. */
export function sectionsOf(summary: Summary): ReportSection[] {
  return [
    { id: 'answers', title: 'Answers', rows: shared(summary.answers) },
    { id: 'sources', title: 'Where answers come from', rows: sources(summary) },
    { id: 'scores', title: 'Scores', rows: scores(summary) },
    { id: 'drift', title: 'Difference to the last run', rows: drift(summary) },
    { id: 'finish_reasons', title: 'Finish reasons', rows: shared(summary.finish_reasons) },
    { id: 'errors', title: 'Errors', rows: errors(summary) },
    { id: 'tokens', title: 'Tokens', rows: tokens(summary) },
    {
      id: 'calls',
      title: 'Calls',
      rows: CALLS.map((name) => row(CALL_COUNTS[name], count(summary.calls[name]))),
    },
    { id: 'reused', title: 'Rows without a call', rows: reused(summary) },
    {
      id: 'latency',
      title: 'Latency',
      rows: Object.entries(summary.latency_ms).flatMap(([name, ms]) =>
        ms === null ? [] : [row(name, duration(ms / 1000))],
      ),
    },
    {
      id: 'prompt_filter',
      title: 'Content filter, prompts',
      rows: filters(summary.filters.prompt),
    },
    {
      id: 'completion_filter',
      title: 'Content filter, completions',
      rows: filters(summary.filters.completion),
    },
  ].filter((section) => section.rows.length > 0);
}

const row = (name: string, value: string): SectionRow => ({ name, value, percent: null, fraction: null });

/** The most frequent first, each with its share of all. */
function shared(counts: Counts): SectionRow[] {
  const all = sumOf(counts);
  return sorted(counts).map(([name, n]) => ({
    name: plain(name),
    value: count(n),
    percent: percent(n, all),
    fraction: n / all,
  }));
}

const sorted = (counts: Counts): [string, number][] =>
  Object.entries(counts)
    .filter(([, n]) => n > 0)
    .toSorted(([, a], [, b]) => b - a);

/** How many answers are others than in the last run. */
function drift({ drift: found }: Summary): SectionRow[] {
  if (found === undefined) return [];
  return [
    row('Compared with run', plain(found.against)),
    row('Rows compared', count(found.rows)),
    {
      name: 'Other answers',
      value: count(found.changed),
      percent: found.rows === 0 ? null : percent(found.changed, found.rows),
      fraction: found.share,
    },
    row('Alarm above', percent(found.alarm, 1)),
  ];
}

/** Those that there are, in words. */
export const sourceCounts = (sources: Summary['answer_sources']): Counts =>
  Object.fromEntries(
    Object.entries(sources).flatMap(([source, n]) => (n === 0 ? [] : [[source.replaceAll('_', ' '), n]])),
  );

/** Only where a job has done more than to read them. */
function sources({ answer_sources: { read, ...others } }: Summary): SectionRow[] {
  return sumOf(others) === 0 ? [] : shared(sourceCounts({ read, ...others }));
}

function errors({ errors, error_samples: samples = {} }: Summary): SectionRow[] {
  return sorted(errors).map(([code, n]) => ({
    ...row(plain(code), count(n)),
    ...(Object.hasOwn(samples, code) && { sample: plain(samples[code] ?? '') }),
  }));
}

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
