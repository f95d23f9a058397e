import { cost, count, duration, moment, percent } from '../figures.js';
import { CALL_COUNTS, CALLS } from '../store/counters.js';
import { adviceOn } from './advice.js';
import type { Summary } from './summary.js';
import { type Counts, type FilterCounts, sumOf } from './tally.js';
import { plain } from './terminal-text.js';
import type { Timeline } from './timeline.js';

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
    { id: 'tokens', title: 'Tokens and money', rows: tokens(summary) },
    { id: 'calls', title: 'Calls', rows: calls(summary) },
    { id: 'quota', title: 'Quota', rows: quota(summary) },
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
    { id: 'last_run', title: 'Against the run before', rows: against(summary) },
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
    ...adviceRow(code),
  }));
}

function adviceRow(code: string): Pick<SectionRow, 'advice'> {
  const advice = adviceOn(code);
  return advice === null ? {} : { advice };
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

function calls(summary: Summary): SectionRow[] {
  const twice = repeatsCost(summary);
  return [
    ...CALLS.map((name) => row(CALL_COUNTS[name], count(summary.calls[name]))),
    ...(twice === null ? [] : [row('repeated, in money', `about ${cost(twice)}`)]),
  ];
}

/** What calls cost that may have been paid for twice, about: nobody knows the bill of an answer that was lost. */
export function repeatsCost({ calls, cost: price, rows, reused }: Summary): number | null {
  const taken = reused === undefined ? 0 : reused.copied + reused.carried;
  const called = rows.completed + rows.filtered - taken;
  return price === null || calls.repeated === 0 || called <= 0 ? null : (price / called) * calls.repeated;
}

/** Requests and tokens a minute, on average and in the busiest minute, against what the job allows. */
function quota({ details }: Summary): SectionRow[] {
  if (details === undefined || details.timeline.until_ms === 0) return [];
  const { timeline, limits } = details;
  const tokens = timeline.prompt_tokens.map((n, i) => n + (timeline.completion_tokens[i] ?? 0));
  const used = (what: string, counts: readonly number[], limit: number | null): SectionRow[] => {
    const rate = (name: string, perMinute: number): SectionRow => ({
      name: `${what} a minute, ${name}`,
      value: limit === null ? count(perMinute) : `${count(perMinute)} of ${count(limit)}`,
      percent: limit === null ? null : percent(perMinute, limit),
      fraction: limit === null ? null : Math.min(1, perMinute / limit),
    });
    const mean = (counts.reduce((sum, n) => sum + n, 0) / timeline.until_ms) * MINUTE_MS;
    const most = busiestMinute(timeline, counts);
    return [rate('mean', mean), ...(most === null ? [] : [rate('busiest', most)])];
  };
  return [
    ...used('requests', timeline.sent, limits.requests_per_minute),
    ...used('tokens', tokens, limits.tokens_per_minute),
  ];
}

const MINUTE_MS = 60_000;

/** What came in the busiest minute, or in the busiest bucket, a minute, where buckets are longer; `null` for a shorter run. */
function busiestMinute({ width_ms, until_ms }: Timeline, counts: readonly number[]): number | null {
  if (until_ms < MINUTE_MS) return null;
  const buckets = Math.ceil(MINUTE_MS / width_ms);
  const sums = counts.map((_, i) => counts.slice(i, i + buckets).reduce((sum, n) => sum + n, 0));
  return (Math.max(...sums) / (buckets * width_ms)) * MINUTE_MS;
}

/** Only where the job has a run before this one. */
function against(summary: Summary): SectionRow[] {
  const { last_run: last } = summary;
  if (last === undefined) return [];
  const pair = <T>(
    name: string,
    before: T | null,
    now: T | null,
    text: (value: T) => string,
  ): SectionRow[] =>
    before === null || now === null
      ? []
      : [row(name, before === now ? `${text(now)}, as before` : `${text(before)} → ${text(now)}`)];
  const shareIn = (answers: Counts, name: string): number => {
    const all = sumOf(answers);
    return all === 0 ? 0 : (Object.hasOwn(answers, name) ? (answers[name] ?? 0) : 0) / all;
  };
  const share = (value: number): string => percent(value, 1);
  const names = sorted(summary.answers).slice(0, MOST_COMPARED);
  return [
    row('run', plain(last.run)),
    row('its output', plain(last.output)),
    row('finished at', moment(last.finished_at)),
    ...pair('rows', last.rows.total, summary.rows.total, count),
    ...pair('failed', last.rows.failed, summary.rows.failed, count),
    ...pair('filtered', last.rows.filtered, summary.rows.filtered, count),
    ...pair('invalid answers', last.answers_invalid, summary.answers_invalid, count),
    ...names.flatMap(([name]) =>
      pair(`answer ${plain(name)}`, shareIn(last.answers, name), shareIn(summary.answers, name), share),
    ),
    ...pair('accuracy', last.accuracy, summary.scores?.accuracy?.value ?? null, share),
    ...pair('tokens', last.usage.total_tokens, summary.usage.total_tokens, count),
    ...pair('cost', last.cost, summary.cost, cost),
    ...pair('median latency', last.p50, summary.latency_ms.p50, (ms) => duration(ms / 1000)),
  ];
}

/** Answers of a run that are held against those of the run before. */
const MOST_COMPARED = 10;

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
