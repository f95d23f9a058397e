import { count, counted, duration } from '../figures.js';
import { isToLookAt } from './report-rows.js';
import type { RunReport } from './run-report.js';
import type { SectionRow } from './sections.js';
import { renderSummary, type TerminalOptions } from './terminal.js';
import {
  bodyWidth,
  cells,
  clip,
  flow,
  padEnd,
  painter,
  plain,
  type Section,
  sectionLines,
  words,
} from './terminal-text.js';
import { periodsOf } from './timeline.js';

/** Periods of the run that are listed. */
const PERIODS = 8;

/** A report as text of several lines for a terminal: the summary as a run prints it, and what only a report has. */
export function renderReport(report: RunReport, options: Omit<TerminalOptions, 'resume' | 'kept'>): string {
  const width = bodyWidth(options.width);
  const rowsOf = (id: string): readonly SectionRow[] =>
    report.sections.find((section) => section.id === id)?.rows ?? [];
  const sections: readonly Section[] = [
    ['what to do', rowsOf('errors').flatMap((row) => adviceLines(row, width))],
    ['quota', pairLines(rowsOf('quota'), width)],
    ['over time', periodLines(report, width)],
    ['run before', pairLines(rowsOf('last_run'), width)],
    ['rows', words(rowsText(report), width)],
    [
      'next',
      report.verdict.next.flatMap(({ text, command }) => [
        ...words(text, width),
        ...(command === null ? [] : [`  ${command}`]),
      ]),
    ],
  ];
  const lines = sectionLines(sections, options.width, painter(options.color));
  return `${renderSummary(report.summary, { ...options, resume: null })}${lines.map((line) => `${line}\n`).join('')}`;
}

const adviceLines = ({ name, advice }: SectionRow, width: number): string[] =>
  advice === undefined
    ? []
    : words(`${name}: ${advice}`, width - 2).map((line, i) => (i === 0 ? line : `  ${line}`));

function pairLines(rows: readonly SectionRow[], width: number): string[] {
  const nameWidth = Math.min(Math.max(0, ...rows.map(({ name }) => cells(name))), Math.floor(width / 2));
  return rows.map(({ name, value, percent }) => {
    const share = percent === null ? '' : `  ${percent}`;
    return clip(`${padEnd(clip(name, nameWidth), nameWidth)}  ${value}${share}`, width);
  });
}

/** `from 12 s  4,000 rows, 3 failed, 4,012 calls, mean latency 820 ms` */
function periodLines({ summary: { details } }: RunReport, width: number): string[] {
  const points = periodsOf(details.timeline, PERIODS).map((point) => ({
    from: `from ${duration(point.from_s)}`,
    said: [
      counted(point.rows, 'row'),
      ...(point.failed > 0 ? [`${count(point.failed)} failed`] : []),
      counted(point.sent, 'call'),
      ...(point.rate_limited > 0 ? [`${count(point.rate_limited)} refused`] : []),
      ...(point.latency_mean_ms === null ? [] : [`mean latency ${duration(point.latency_mean_ms / 1000)}`]),
    ],
  }));
  const nameWidth = Math.max(0, ...points.map(({ from }) => from.length));
  return points.flatMap(({ from, said }) =>
    flow(said, ', ', width - nameWidth - 2).map(
      (line, i) => `${padEnd(i === 0 ? from : '', nameWidth)}  ${line}`,
    ),
  );
}

function rowsText({ table, table_note: note }: RunReport): string {
  if (table === null) return plain(note ?? '');
  const toSee = table.rows.filter(isToLookAt).length;
  return `${count(toSee)} to look at, and a sample of ${count(table.rows.length - toSee)} others, are in the HTML report`;
}
