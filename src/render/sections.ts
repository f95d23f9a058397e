import { driftText } from '../account/drift.js';
import { calledPerSecond, type Summary } from '../account/summary.js';
import { type CountByName, type FilterCounts, type ReusedCounts, sumOf } from '../account/tally.js';
import type { Timeline } from '../account/timeline.js';
import { CALL_COUNTS, CALLS } from '../core/counters.js';
import { cost, count, counted, duration, moment, percent, rate, share } from '../core/figures.js';
import { adviceOn } from './advice.js';
import {
  type Block,
  type Figure,
  figure,
  figures,
  type Medium,
  type Section,
  section,
  text,
} from './document.js';
import type { ExampleTexts } from './example-texts.js';
import { scoreSections } from './score-sections.js';
import { escapeControls } from './terminal-text.js';

/** In `promptmill report --json` and on the dashboard's page of a run. Texts are plain. */
export interface ReportSection {
  /** Stable, for links. */
  readonly id: string;
  readonly title: string;
  readonly rows: readonly Figure[];
}

/** A terminal has a sentence for what is a table elsewhere. */
const TERMINAL: readonly Medium[] = ['terminal'];
const ELSEWHERE: readonly Medium[] = ['html', 'markdown'];

const MOST_LINES = 15;

export function summarySections(summary: Summary, examples?: ExampleTexts): Section[] {
  const {
    answers,
    answers_without_confidence: unsure = 0,
    drift,
    scores,
    filters,
    errors,
    properties = {},
  } = summary;
  const without =
    unsure === 0
      ? ''
      : `${counted(unsure, 'label')} without a confidence: the log probabilities are missing, or do not tell the labels apart`;
  const sourceList = figures(sources(summary), { areParts: true, said: sourceWords(summary) });
  const reasons = figures(shared(summary.finish_reasons), { areParts: true, said: 'by name' });
  const errorList = figures(errorFigures(errors, summary.error_samples), {
    heads: ['Error', 'Rows'],
    most: MOST_LINES,
  });
  return [
    section(
      'answers',
      'Answers',
      [figures(shared(answers), { areParts: true, most: MOST_LINES }), text(without)],
      { chapter: 'answers' },
    ),
    section(
      'properties_counted',
      'Answers by property',
      [figures(byProperty(properties), { most: MOST_LINES })],
      {
        short: 'properties',
        in: TERMINAL,
      },
    ),
    ...Object.entries(properties).map(([name, counts], i) =>
      section(`property_${i + 1}`, `Answers of ${name}`, [figures(shared(counts), { areParts: true })], {
        chapter: 'answers',
        in: ELSEWHERE,
      }),
    ),
    section('sources', 'Where answers come from', [sourceList], { short: '', chapter: 'answers' }),
    ...(scores === undefined ? [] : scoreSections(scores, examples)),
    section(
      'drift',
      'Difference to the last run',
      [
        text(drift === undefined ? '' : driftText(drift), { in: TERMINAL }),
        figures(driftFigures(summary), { in: ELSEWHERE }),
      ],
      { short: 'drift', chapter: 'last' },
    ),
    section('finish_reasons', 'Finish reasons', [reasons], { chapter: 'answers' }),
    section('tokens', 'Tokens and money', [figures(tokens(summary), { said: tokenWords(summary) })], {
      short: 'tokens',
      chapter: 'cost',
    }),
    section('filters', 'Filters', [figures(unsafe(filters))], { in: TERMINAL }),
    filterSection('prompt_filter', 'Content filter, prompts', filters.prompt),
    filterSection('completion_filter', 'Content filter, completions', filters.completion),
    section('errors', 'Errors', [errorList], { chapter: 'errors' }),
    section(
      'calls',
      'Calls',
      [figures(calls(summary), { said: callWords(summary) }), ...callTexts(summary)],
      {
        chapter: 'cost',
      },
    ),
    section('endpoints', 'Endpoints', [figures(endpoints(summary), { said: 'by name' })], {
      chapter: 'cost',
    }),
    section('tiers', 'Tiers', [figures(tiers(summary), { said: 'by name' })], { chapter: 'cost' }),
    section('batches', 'Batches', [figures(batchFigures(summary))], { chapter: 'cost', in: ELSEWHERE }),
    section('reused', 'Rows without a call', [figures(reused(summary))], { chapter: 'cost', in: ELSEWHERE }),
    section('latency', 'Latency', [figures(latencies(summary), { said: 'by name' })], { chapter: 'cost' }),
    section('duration', 'Duration', [text(durationText(summary))], { in: TERMINAL }),
  ];
}

const filterSection = (id: string, title: string, categories: FilterCounts): Section =>
  section(id, title, [figures(filterFigures(categories))], { chapter: 'filter', in: ELSEWHERE });

export const furtherSections = (summary: Summary): Section[] => [
  section('quota', 'Quota', [figures(quota(summary))], { chapter: 'cost' }),
  section('last_run', 'Against the run before', [figures(against(summary))], {
    short: 'run before',
    chapter: 'last',
  }),
];

/** Sections without figures are left out. */
export const sectionsOf = (summary: Summary): ReportSection[] =>
  [...summarySections(summary), ...furtherSections(summary)].flatMap(({ id, title, in: media, blocks }) => {
    const [found] = blocks.filter((block) => block.kind === 'figures');
    if (found === undefined || found.rows.length === 0 || media?.includes('html') === false) return [];
    return [{ id, title, rows: found.rows.map(plainFigure) }];
  });

const plainFigure = ({ name, value, sample, ...figure }: Figure): Figure => ({
  name: escapeControls(name),
  value: escapeControls(value),
  ...figure,
  ...(sample !== undefined && { sample: escapeControls(sample) }),
});

/** `positive: 512, negative: 300` */
const byProperty = (properties: NonNullable<Summary['properties']>): Figure[] =>
  Object.entries(properties).map(([name, counts]) =>
    figure(
      name,
      sorted(counts)
        .map(([value, n]) => `${value}: ${count(n)}`)
        .join(', '),
    ),
  );

/** The most frequent first, with shares. */
function shared(counts: CountByName): Figure[] {
  const all = sumOf(counts);
  return sorted(counts).map(([name, n]) => ({
    name,
    value: count(n),
    percent: percent(n, all),
    fraction: n / all,
  }));
}

const sorted = (counts: CountByName): [string, number][] =>
  Object.entries(counts)
    .filter(([, n]) => n > 0)
    .toSorted(([, a], [, b]) => b - a);

function driftFigures({ drift: found }: Summary): Figure[] {
  if (found === undefined) return [];
  return [
    figure('Compared with run', found.against),
    figure('Rows compared', count(found.rows)),
    {
      name: 'Other answers',
      value: count(found.changed),
      percent: found.rows === 0 ? null : percent(found.changed, found.rows),
      fraction: found.share,
    },
    figure('Alarm above', percent(found.alarm, 1)),
  ];
}

const sourceCounts = (sources: Summary['answer_sources']): CountByName =>
  Object.fromEntries(
    Object.entries(sources).flatMap(([source, n]) => (n === 0 ? [] : [[source.replaceAll('_', ' '), n]])),
  );

/** Empty if all answers were only read. */
function sources({ answer_sources: { read, ...others } }: Summary): Figure[] {
  return sumOf(others) === 0 ? [] : shared(sourceCounts({ read, ...others }));
}

/** `940 read, 12 repaired, 48 asked again`; empty unless the job mended answers. */
function sourceWords({ answer_sources: { read, voted, ...mended } }: Summary): 'by name' | readonly string[] {
  return sumOf(mended) === 0 ? [] : 'by name';
}

function errorFigures(errors: CountByName, samples: Summary['error_samples'] = {}): Figure[] {
  return sorted(errors).map(([code, n]) => ({
    ...figure(code, count(n)),
    ...(Object.hasOwn(samples, code) && { sample: samples[code] ?? '' }),
    ...adviceRow(code),
  }));
}

function adviceRow(code: string): Pick<Figure, 'advice'> {
  const advice = adviceOn(code);
  return advice === null ? {} : { advice };
}

/** Only of a job with `input.dedupe` or `input.only_new`. */
const reused = ({ reused }: Summary): Figure[] =>
  reused === undefined
    ? []
    : [
        figure('copied from an earlier row', count(reused.copied)),
        figure('carried over from an earlier run', count(reused.carried)),
      ];

function tokens(summary: Summary): Figure[] {
  const { usage, cost: price, saved } = summary;
  const { currency, cost_per_1000_rows: perThousand, cost_per_answer: perAnswer } = summary;
  return [
    figure('prompt', count(usage.prompt_tokens)),
    figure('completion', count(usage.completion_tokens)),
    figure('total', count(usage.total_tokens)),
    ...(usage.cached_tokens === undefined ? [] : [figure('cached', count(usage.cached_tokens))]),
    ...(usage.reasoning_tokens === undefined ? [] : [figure('reasoning', count(usage.reasoning_tokens))]),
    ...(price === null ? [] : [figure('cost', cost(price, currency))]),
    ...(perThousand === null ? [] : [figure('cost of 1,000 rows', cost(perThousand, currency))]),
    ...(perAnswer === null ? [] : [figure('cost of an answer', cost(perAnswer, currency))]),
    ...(typeof saved === 'number' ? [figure('saved, against online', cost(saved, currency))] : []),
    ...elsewhereTexts(summary).map((said) => figure('already paid elsewhere', said)),
  ];
}

/** `400 rows, 12,000 tokens, 0.02 EUR`; of a job with `input.done` */
function elsewhereTexts({ tiers: { done } = {}, currency }: Summary): string[] {
  if (done === undefined) return [];
  const money = done.cost === null ? '' : `, ${cost(done.cost, currency)}`;
  return [`${counted(done.rows, 'row')}, ${counted(done.usage.total_tokens, 'token')}${money}`];
}

function tokenWords(summary: Summary): string[] {
  const { usage, usage_estimated: rows = 0, cost: price, saved, answer_sources, currency } = summary;
  const perThousand = summary.cost_per_1000_rows;
  const each = perThousand === null ? '' : ` (${cost(perThousand, currency)} for 1,000 rows)`;
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage;
  if (total === 0 && prompt === 0 && completion === 0) return [];
  // The service reports the three independently; they need not add up.
  const { cached_tokens: cached = 0, reasoning_tokens: thought = 0 } = usage;
  const [plus, equals] = prompt + completion === total ? [' +', ' ='] : [',', ','];
  return [
    `${count(prompt)} prompt${plus} ${count(completion)} completion${equals} ${count(total)} total`,
    ...(cached === 0 ? [] : [`${count(cached)} of the prompts cached`]),
    ...(thought === 0 ? [] : [`${count(thought)} of the completions reasoning`]),
    ...(price === null ? [] : [`cost ${cost(price, currency)}${each}`]),
    ...(saved ? [`${cost(saved, currency)} saved against online`] : []),
    ...elsewhereTexts(summary).map((said) => `already paid elsewhere: ${said}`),
    ...(price === null || answer_sources.escalated === 0
      ? []
      : ['escalated answers at the prices of the job']),
    ...(rows === 0 ? [] : [`estimated for ${counted(rows, 'row')}`]),
  ];
}

function calls(summary: Summary): Figure[] {
  const twice = repeatsCost(summary);
  return [
    ...CALLS.map((name) => figure(CALL_COUNTS[name], count(summary.calls[name]))),
    ...(twice === null ? [] : [figure('repeated, in money', `about ${cost(twice, summary.currency)}`)]),
  ];
}

const callWords = ({ calls }: Summary): string[] =>
  CALLS.map((name) => `${count(calls[name])} ${name.replaceAll('_', ' ')}`);

function callTexts(summary: Summary): Block[] {
  const price = repeatsCost(summary);
  const { repeated } = summary.calls;
  const money = price === null ? '' : `, about ${cost(price, summary.currency)} in all`;
  return [
    text(summary.reused === undefined ? '' : reusedText(summary.reused), { in: TERMINAL }),
    text(repeated === 0 ? '' : `${count(repeated)} may have been paid for twice${money}`, { in: TERMINAL }),
  ];
}

/** Only of a job with several. */
const endpoints = ({ endpoints: all = {}, currency }: Summary): Figure[] =>
  Object.entries(all).map(([name, { rows, calls, rate_limited: refused, usage, cost: price }]) => {
    const parts = [
      `${counted(rows, 'row')} of ${counted(calls, 'call')}`,
      ...(refused === 0 ? [] : [`${count(refused)} rate limited`]),
      counted(usage.total_tokens, 'token'),
      ...(price === null ? [] : [`cost ${cost(price, currency)}`]),
    ];
    return figure(name, parts.join(', '));
  });

/** Batches of a report. */
const MOST_BATCHES = 50;

/** Only of a job with the batch tier. */
const batchFigures = ({ batches = [] }: Summary): Figure[] =>
  batches.slice(0, MOST_BATCHES).map(({ id, status, requests, answered, created_at: from, ended_at: to }) => {
    const time = from === null || to === null ? [] : [duration((Date.parse(to) - Date.parse(from)) / 1000)];
    const rows =
      answered === null ? counted(requests, 'row') : `${count(answered)} of ${counted(requests, 'row')}`;
    return figure(id, [status, rows, ...time].join(', '));
  });

/** Only of a job that asks for another tier than online. */
const tiers = ({ tiers: all = {}, currency }: Summary): Figure[] =>
  Object.entries(all).map(([name, { rows, usage, cost: price }]) => {
    const parts = [
      counted(rows, 'row'),
      counted(usage.total_tokens, 'token'),
      ...(price === null ? [] : [`cost ${cost(price, currency)}`]),
    ];
    return figure(name, parts.join(', '));
  });

/** `220 rows copied, 970 carried over: not called` */
function reusedText({ copied, carried }: ReusedCounts): string {
  if (copied + carried === 0) return 'no row copied or carried over';
  const parts = [
    ...(copied > 0 ? [`${counted(copied, 'row')} copied`] : []),
    ...(carried > 0 ? [`${copied > 0 ? count(carried) : counted(carried, 'row')} carried over`] : []),
  ];
  return `${parts.join(', ')}: not called`;
}

/** An estimate: the bill of a lost answer is unknown. */
function repeatsCost({ calls, cost: price, rows, reused, tiers }: Summary): number | null {
  const taken = (reused === undefined ? 0 : reused.copied + reused.carried) + (tiers?.['done']?.rows ?? 0);
  const called = rows.completed + rows.filtered - taken;
  return price === null || calls.repeated === 0 || called <= 0 ? null : (price / called) * calls.repeated;
}

/** Per minute, mean and busiest, compared with the job's limits. */
function quota({ details }: Summary): Figure[] {
  if (details === undefined || details.timeline.until_ms === 0) return [];
  const { timeline, limits } = details;
  const tokens = timeline.prompt_tokens.map((n, i) => n + (timeline.completion_tokens[i] ?? 0));
  const used = (what: string, counts: readonly number[], limit: number | null): Figure[] => {
    const rate = (name: string, perMinute: number): Figure => ({
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

/** Per minute, over the busiest minute or longer bucket; `null` for a shorter run. */
function busiestMinute({ width_ms, until_ms }: Timeline, counts: readonly number[]): number | null {
  if (until_ms < MINUTE_MS) return null;
  const buckets = Math.ceil(MINUTE_MS / width_ms);
  const sums = counts.map((_, i) => counts.slice(i, i + buckets).reduce((sum, n) => sum + n, 0));
  return (Math.max(...sums) / (buckets * width_ms)) * MINUTE_MS;
}

/** Empty without a previous run of the job. */
function against(summary: Summary): Figure[] {
  const { last_run: last } = summary;
  if (last === undefined) return [];
  const pair = <T>(name: string, before: T | null, now: T | null, text: (value: T) => string): Figure[] =>
    before === null || now === null
      ? []
      : [figure(name, before === now ? `${text(now)}, as before` : `${text(before)} → ${text(now)}`)];
  const shareIn = (answers: CountByName, name: string): number => {
    const all = sumOf(answers);
    return all === 0 ? 0 : (Object.hasOwn(answers, name) ? (answers[name] ?? 0) : 0) / all;
  };
  const names = sorted(summary.answers).slice(0, MOST_COMPARED);
  return [
    figure('run', last.run),
    figure('its output', last.output),
    figure('finished at', moment(last.finished_at)),
    ...pair('rows', last.rows.total, summary.rows.total, count),
    ...pair('failed', last.rows.failed, summary.rows.failed, count),
    ...pair('filtered', last.rows.filtered, summary.rows.filtered, count),
    ...pair('invalid answers', last.answers_invalid, summary.answers_invalid, count),
    ...names.flatMap(([name]) =>
      pair(`answer ${name}`, shareIn(last.answers, name), shareIn(summary.answers, name), share),
    ),
    ...pair('accuracy', last.accuracy, summary.scores?.accuracy?.value ?? null, share),
    ...pair('tokens', last.usage.total_tokens, summary.usage.total_tokens, count),
    ...pair('cost', last.cost, summary.cost, cost),
    ...pair('median latency', last.p50, summary.latency_ms.p50, (ms) => duration(ms / 1000)),
  ];
}

const MOST_COMPARED = 10;

function filterFigures(categories: FilterCounts): Figure[] {
  return Object.entries(categories).map(([category, counts]) =>
    figure(
      category,
      sorted(counts)
        .map(([severity, n]) => `${count(n)} ${severity}`)
        .join(', ') || '0',
    ),
  );
}

/** Only what is not safe: a filter that found nothing is no news. */
const unsafe = ({ prompt, completion }: Summary['filters']): Figure[] =>
  [['prompt', prompt] as const, ['completion', completion] as const].flatMap(([side, categories]) =>
    Object.entries(categories).flatMap(([category, { safe, not_detected, filtered, ...others }]) => {
      const found = Object.entries({ ...others, ...(filtered ? { filtered } : {}) });
      const value = found.map(([name, n]) => `${count(n)} ${name}`).join(', ');
      return found.length === 0 ? [] : [figure(`${side} ${category}`, value)];
    }),
  );

const latencies = ({ latency_ms }: Summary): Figure[] =>
  Object.entries(latency_ms).flatMap(([name, ms]) =>
    ms === null ? [] : [figure(name, duration(ms / 1000))],
  );

function durationText(summary: Summary): string {
  const perSecond = calledPerSecond(summary);
  return duration(summary.duration_s) + (perSecond === 0 ? '' : `, ${rate(perSecond, ' rows')}`);
}
