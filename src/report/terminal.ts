import { cost, count, counted, duration, keptText, percent, rate } from '../figures.js';
import { STATUSES } from '../model.js';
import { CALLS } from '../store/counters.js';
import { driftText } from './drift.js';
import { scoreLines } from './score-lines.js';
import { repeatsCost, sourceCounts } from './sections.js';
import { calledPerSecond, type Reconciled, type Summary } from './summary.js';
import { type Counts, type FilterCounts, type ReusedCounts, sumOf } from './tally.js';
import {
  bodyWidth,
  cells,
  clip,
  flow,
  type Paint,
  padEnd,
  painter,
  plain,
  type Section,
  sectionLines,
  words,
} from './terminal-text.js';

/** How to show a summary to a person. */
export interface TerminalOptions {
  /** Columns of the terminal; 50 is the least that stays readable. */
  readonly width: number;
  /** Whether to colour; the caller knows the stream and `NO_COLOR`. */
  readonly color: boolean;
  /** What was written, by what it is: `[['output', 'out/reviews.csv'], …]`. */
  readonly files: readonly (readonly [name: string, path: string])[];
  /** The command that resumes a stopped run; `null` where nothing is left to resume. */
  readonly resume: string | null;
  /** Rows that are not called again when the run goes on. @default those of the summary */
  readonly kept?: number;
}

/** A name and how often it was counted; both are `null` in the line that stands for the names left out. */
interface CountLine {
  readonly text: string;
  readonly name: string | null;
  readonly rows: number | null;
}

interface CountColumns {
  readonly lines: readonly CountLine[];
  /** Cells that both columns take. */
  readonly width: number;
}

/** Most lines that a list of answers or errors takes; the rest is in the summary's file. */
const MOST_LINES = 15;

/** Cells below which a message says nothing. */
const LEAST_SAMPLE = 20;

const SEPARATOR = ', ';

/** The summary as text of several lines for a terminal, ending in a line feed. */
export function renderSummary(summary: Summary, options: TerminalOptions): string {
  const paint = painter(options.color);
  const width = bodyWidth(options.width);
  const sections: readonly Section[] = [
    [
      'answers',
      [
        ...answerLines(summary.answers, width, paint),
        ...sourceLines(summary, width),
        ...confidenceLines(summary, width),
      ],
    ],
    ['scores', summary.scores === undefined ? [] : scoreLines(summary.scores, width)],
    ['drift', summary.drift === undefined ? [] : words(plain(driftText(summary.drift)), width)],
    ['finish reasons', flow(listed(summary.finish_reasons), SEPARATOR, width)],
    ['tokens', tokenLines(summary, width)],
    ['filters', filterLines(summary.filters, width)],
    ['errors', errorLines(summary, width)],
    ['calls', callLines(summary, width)],
    ['latency', latencyLines(summary, width)],
    ['duration', [durationLine(summary)]],
    ['files', fileLines(options.files)],
  ];
  const lines = [
    ...flow([jobTitle(summary), `deployment ${plain(summary.deployment)}`], SEPARATOR, options.width),
    '',
    paint('bold', reconciliation(summary)),
    ...(summary.stopped === null ? [] : stoppedLines(summary, summary.stopped, options, paint)),
    ...(summary.missed === null ? [] : missedLines(summary.missed, options, paint)),
    '',
    ...sectionLines(sections, options.width, paint),
  ];
  return `${lines.join('\n')}\n`;
}

/** The job, with a word that nobody misses where an emulator answered. */
export const jobTitle = ({ job, emulated }: Pick<Summary, 'job' | 'emulated'>): string =>
  `${plain(job)}${emulated ? REHEARSAL : ''}`;

/** Behind the name of what an emulator answered, on each page about it. */
export const REHEARSAL = ' (rehearsal, answered by an emulator)';

/**
 * Every status is named, also with 0 rows, so that the line always has one form; it is never wrapped. Behind them the
 * answers of completed rows that are invalid, or left out for want of confidence, where there are any.
 */
export function reconciliation({ rows, answers_invalid, answers_abstained }: Reconciled): string {
  const parts = STATUSES.map((status) => `${count(rows[status])} ${status}`);
  const answers = [
    ...(answers_invalid === 0 ? [] : [`answers.invalid ${count(answers_invalid)}`]),
    ...(answers_abstained === 0 ? [] : [`answers.abstained ${count(answers_abstained)}`]),
  ];
  return [`${count(rows.total)} rows = ${parts.join(' + ')}`, ...answers].join('; ');
}

function stoppedLines(
  { rows, input }: Summary,
  reason: string,
  { width, resume, kept = 0 }: TerminalOptions,
  paint: Paint,
): string[] {
  const progress = `Stopped after ${count(rows.total)} of ${count(input.rows)} rows:`;
  return [
    '',
    ...words(`${progress} ${plain(reason)}`, width).map((line) => paint('yellow', line)),
    ...(kept > rows.total ? words(keptText(kept, rows.total), width) : []),
    ...(resume === null ? [] : ['Resume with:', `  ${plain(resume)}`]),
  ];
}

function missedLines(reason: string, { width }: TerminalOptions, paint: Paint): string[] {
  return ['', ...words(`Finished, but ${plain(reason)}`, width).map((line) => paint('yellow', line))];
}

/** Why a run stopped or what it missed, in one line, with a message of the error that most rows have. */
export function reasonLine({ stopped, missed, errors, error_samples: samples = {} }: Summary): string {
  const [code] = Object.keys(samples).toSorted((a, b) => (errors[b] ?? 0) - (errors[a] ?? 0));
  const sample = code === undefined ? '' : ` One of the errors (${code}): ${samples[code]}`;
  return plain(`${stopped ?? missed}${sample}`);
}

/** `940 read, 12 repaired, 48 asked again`, where a job has done something about answers that did not fit. */
function sourceLines({ answer_sources: sources }: Summary, width: number): string[] {
  const { read, voted, ...mended } = sources;
  if (sumOf(mended) === 0) return [];
  return flow(listed(sourceCounts(sources)), SEPARATOR, width);
}

/** What became of `answer.confidence` where the service did not play its part. */
function confidenceLines({ answers_without_confidence: rows = 0 }: Summary, width: number): string[] {
  if (rows === 0) return [];
  const without = `${counted(rows, 'label')} without a confidence: the log probabilities are missing, or do not tell the labels apart`;
  return words(without, width);
}

/** Each answer with its count, its share and a bar as long as its share. */
function answerLines(answers: Counts, width: number, paint: Paint): string[] {
  const total = sumOf(answers);
  const columns = countColumns(answers, width);
  const room = Math.max(0, Math.min(40, width - columns.width - '  100.0 %  '.length));
  return columns.lines.map(({ text, rows }) => {
    if (rows === null) return text;
    const share = percent(rows, total).padStart('100.0 %'.length);
    const bar = '█'.repeat(Math.round((rows / total) * room));
    return `${text}  ${share}  ${paint('cyan', bar)}`.trimEnd();
  });
}

/** Each error code with its count, and one message of it as far as there is room. */
function errorLines({ errors, error_samples: samples = {} }: Summary, width: number): string[] {
  const columns = countColumns(errors, width);
  const room = width - columns.width - 2;
  return columns.lines.map(({ text, name }) => {
    const sample = name !== null && Object.hasOwn(samples, name) ? plain(samples[name] ?? '') : '';
    return sample === '' || room < LEAST_SAMPLE ? text : `${text}  ${clip(sample, room)}`;
  });
}

/** Names and counts in two aligned columns, the most frequent first. */
function countColumns(counts: Counts, width: number): CountColumns {
  const sorted = Object.entries(counts)
    .map(([given, rows]) => ({ given, name: plain(given), rows }))
    .sort((a, b) => b.rows - a.rows);
  const shown = sorted.slice(0, MOST_LINES);
  const nameWidth = Math.min(Math.max(0, ...shown.map(({ name }) => cells(name))), Math.floor(width * 0.5));
  const countWidth = Math.max(0, ...shown.map(({ rows }) => count(rows).length));
  const lines: CountLine[] = shown.map(({ given, name, rows }) => ({
    text: `${padEnd(clip(name, nameWidth), nameWidth)}  ${count(rows).padStart(countWidth)}`,
    name: given,
    rows,
  }));
  const more = sorted.length - shown.length;
  if (more > 0)
    lines.push({ text: `and ${count(more)} more, in the summary's file`, name: null, rows: null });
  return { lines, width: nameWidth + 2 + countWidth };
}

function tokenLines(
  { usage, usage_estimated: rows = 0, cost: price, answer_sources: { escalated } }: Summary,
  width: number,
): string[] {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage;
  if (total === 0 && prompt === 0 && completion === 0) return [];
  // The service names the three on their own; they need not add up.
  const sum =
    prompt + completion === total
      ? `${count(prompt)} prompt + ${count(completion)} completion = ${count(total)} total`
      : `${count(prompt)} prompt, ${count(completion)} completion, ${count(total)} total`;
  const parts = [
    sum,
    ...(price === null ? [] : [`cost ${cost(price)}`]),
    ...(price === null || escalated === 0 ? [] : ['escalated answers at the prices of the job']),
    ...(rows === 0 ? [] : [`estimated for ${counted(rows, 'row')}`]),
  ];
  return flow(parts, SEPARATOR, width);
}

/** Only what is not safe: a filter that found nothing is no news. */
function filterLines({ prompt, completion }: Summary['filters'], width: number): string[] {
  const found = (side: string, categories: FilterCounts) =>
    Object.entries(categories).map(([category, { safe, not_detected, filtered, ...unsafe }]) => ({
      name: plain(`${side} ${category}`),
      counts: listed({ ...unsafe, ...(filtered ? { filtered } : {}) }),
    }));
  const all = [...found('prompt', prompt), ...found('completion', completion)].filter(
    ({ counts }) => counts.length > 0,
  );
  const nameWidth = Math.min(Math.max(0, ...all.map(({ name }) => cells(name))), Math.floor(width * 0.5));
  return all.flatMap(({ name, counts }) =>
    flow(counts, SEPARATOR, width - nameWidth - 2).map(
      (line, index) => `${padEnd(index === 0 ? clip(name, nameWidth) : '', nameWidth)}  ${line}`,
    ),
  );
}

function durationLine(summary: Summary): string {
  const perSecond = calledPerSecond(summary);
  return duration(summary.duration_s) + (perSecond === 0 ? '' : `, ${rate(perSecond, ' rows')}`);
}

function callLines(summary: Summary, width: number): string[] {
  const { calls, reused } = summary;
  const parts = CALLS.map((name) => `${count(calls[name])} ${name.replaceAll('_', ' ')}`);
  const lines = [
    ...flow(parts, SEPARATOR, width),
    ...(reused === undefined ? [] : words(reusedText(reused), width)),
  ];
  if (calls.repeated === 0) return lines;
  const price = repeatsCost(summary);
  const money = price === null ? '' : `, about ${cost(price)} in all`;
  return [...lines, `${count(calls.repeated)} may have been paid for twice${money}`];
}

/** `220 rows copied, 970 carried over: not called` */
function reusedText({ copied, carried }: ReusedCounts): string {
  if (copied + carried === 0) return 'no row copied or carried over';
  const parts = [
    ...(copied > 0 ? [`${counted(copied, 'row')} copied`] : []),
    ...(carried > 0 ? [`${copied > 0 ? count(carried) : counted(carried, 'row')} carried over`] : []),
  ];
  return `${parts.join(SEPARATOR)}: not called`;
}

function latencyLines({ latency_ms }: Summary, width: number): string[] {
  const parts = Object.entries(latency_ms).flatMap(([name, ms]) =>
    ms === null ? [] : [`${name} ${duration(ms / 1000)}`],
  );
  return flow(parts, SEPARATOR, width);
}

function fileLines(files: TerminalOptions['files']): string[] {
  const nameWidth = Math.max(0, ...files.map(([name]) => cells(name)));
  return files.map(([name, path]) => `${padEnd(name, nameWidth)}  ${plain(path)}`);
}

/** `3 low`, `1 high` */
function listed(counts: Counts): string[] {
  return Object.entries(counts).map(([name, rows]) => `${count(rows)} ${plain(name)}`);
}
