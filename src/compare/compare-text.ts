import { cost, count, counted, duration, percent } from '../figures.js';
import { REHEARSAL } from '../report/terminal.js';
import {
  bodyWidth,
  cells,
  clip,
  padEnd,
  painter,
  plain,
  sectionLines,
  words,
} from '../report/terminal-text.js';
import type { Share } from '../report/score.js';
import type { CompareReport } from './compare-outputs.js';
import type { Transitions } from './pairs.js';

interface CompareTextOptions {
  /** Columns of the terminal; 50 is the least that stays readable. */
  readonly width: number;
  /** Whether to colour; the caller knows the stream and `NO_COLOR`. */
  readonly color: boolean;
  /** What was written, by what it is: `[['changed rows', 'changed.csv'], …]`. */
  readonly files: readonly (readonly [name: string, path: string])[];
}

/** Answers with which a matrix is still looked at; of more, the changes that are most frequent are listed. */
const MOST_SHOWN = 8;
/** Changes, and properties, that are listed. */
const MOST_LINES = 15;
/** Cells that a name takes at most. */
const NAME = 20;
/** Cells of `changed rows`. */
const FILE = 12;

/** The report as text of several lines for a terminal, ending in a line feed. */
export function renderCompare(
  report: CompareReport,
  { width: columns, color, files }: CompareTextOptions,
): string {
  const width = bodyWidth(columns);
  const paint = painter(color);
  const lines = [
    ...(['a', 'b'] as const).map((side) => paint('bold', `${side}: ${sideName(report[side])}`)),
    '',
    ...words(verdict(report), columns).map((line) => paint('bold', line)),
    '',
    ...sectionLines(
      [
        ['rows', words(rowsText(report), width)],
        ['answers', transitionLines(report.transitions, width)],
        [report.transitions['valid'] === undefined ? 'labels' : 'properties', partLines(report, width)],
        ['figures', figureLines(report)],
        ['files', files.map(([name, path]) => `${padEnd(name, FILE)}  ${plain(path)}`)],
      ],
      columns,
      paint,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

/** The output, and whether it is a rehearsal. */
export const sideName = ({ output, emulated }: CompareReport['a']): string =>
  `${plain(output)}${emulated ? REHEARSAL : ''}`;

/** `933 of 1,000 rows have the same answer (93.3 %), 67 changed, kappa 0.871` */
export function verdict({ rows, changed, agreement, kappa }: CompareReport): string {
  const same = `${count(rows - changed)} of ${counted(rows, 'row')} have the same answer`;
  const share = agreement === null ? '' : ` (${percent(agreement, 1)})`;
  return `${same}${share}, ${count(changed)} changed${kappa === null ? '' : `, kappa ${kappa.toFixed(3)}`}`;
}

export function rowsText({ rows, answered, only_in_a, only_in_b, by, notes }: CompareReport): string {
  const told = by === null ? 'told by their number' : `told by ${JSON.stringify(plain(by))}`;
  const only = [
    ...(only_in_a === 0 ? [] : [`${count(only_in_a)} only in a`]),
    ...(only_in_b === 0 ? [] : [`${count(only_in_b)} only in b`]),
  ];
  const ended =
    answered.rows === rows || answered.agreement === null
      ? []
      : [
          `of the ${counted(answered.rows, 'row')} that neither has as failed or skipped, ${percent(answered.agreement, 1)} have the same answer`,
        ];
  return [`${count(rows)} in both, ${told}`, ...only, ...ended, ...notes.map(plain)].join('; ');
}

/** A matrix, or the most frequent changes where it would be too large. */
function transitionLines(transitions: Transitions, width: number): string[] {
  const matrix = matrixLines(transitions, width);
  if (matrix !== null) return matrix;
  const changes = changesOf(transitions);
  const shown = changes.slice(0, MOST_LINES);
  const digits = Math.max(0, ...shown.map(({ rows }) => count(rows).length));
  const lines = shown.map(({ from, to, rows }) =>
    clip(`${count(rows).padStart(digits)}  ${clip(plain(from), NAME * 2)} → ${plain(to)}`, width),
  );
  const more = changes.length - shown.length;
  return more > 0 ? [...lines, `and ${count(more)} more kinds of changes, in --json`] : lines;
}

/** From one answer to another, the most frequent first. */
export const changesOf = (transitions: Transitions) =>
  Object.entries(transitions)
    .flatMap(([from, all]) => Object.entries(all).map(([to, rows]) => ({ from, to, rows })))
    .filter(({ from, to }) => from !== to)
    .sort((a, b) => b.rows - a.rows);

/** All names, in the order of the transitions, with those behind that only occur afterwards. */
export const namesOf = (transitions: Transitions): string[] => [
  ...new Set([...Object.keys(transitions), ...Object.values(transitions).flatMap((to) => Object.keys(to))]),
];

function matrixLines(transitions: Transitions, width: number): string[] | null {
  const names = namesOf(transitions);
  if (names.length > MOST_SHOWN) return null;
  const short = (name: string): string => clip(plain(name), NAME);
  const head = ['a \\ b', ...names.map(short)];
  const body = names.map((from) => [
    short(from),
    ...names.map((to) => count(Object.hasOwn(transitions, from) ? (transitions[from]?.[to] ?? 0) : 0)),
  ]);
  const lines = table([head, ...body]);
  return lines.every((line) => cells(line) <= width) ? lines : null;
}

function partLines({ parts }: CompareReport, width: number): string[] {
  const all = Object.entries(parts ?? {}).sort(([, a], [, b]) => b.changed - a.changed);
  const shown = all
    .slice(0, MOST_LINES)
    .map(([name, { agreement, kappa, changed }]) => [
      clip(plain(name), NAME),
      agreement === null ? '' : percent(agreement, 1),
      `${count(changed)} changed`,
      kappa === null ? '' : `kappa ${kappa.toFixed(3)}`,
    ]);
  const more = all.length - shown.length;
  const lines = table(shown).map((line) => clip(line, width));
  return more > 0 ? [...lines, `and ${count(more)} more, in --json`] : lines;
}

/** Tokens, money, latency and accuracy of both, side by side. */
export function figuresOf(report: CompareReport): [name: string, a: string, b: string, difference: string][] {
  const { tokens, cost: money, latency_ms, accuracy } = report;
  type Row = [string, string, string, string];
  const row = (name: string, a: number | null, b: number | null, text: (value: number) => string): Row[] =>
    a === null && b === null
      ? []
      : [[name, a === null ? '' : text(a), b === null ? '' : text(b), difference(a, b)]];
  const latency = (name: 'p50' | 'p95'): Row[] =>
    row(`latency ${name}`, latency_ms.a[name], latency_ms.b[name], (ms) => duration(ms / 1000));
  return [
    ...row('prompt tokens', tokens.a?.prompt_tokens ?? null, tokens.b?.prompt_tokens ?? null, count),
    ...row(
      'completion tokens',
      tokens.a?.completion_tokens ?? null,
      tokens.b?.completion_tokens ?? null,
      count,
    ),
    ...row('cost', money.a, money.b, cost),
    ...latency('p50'),
    ...latency('p95'),
    ...(accuracy === null
      ? []
      : [['accuracy', shareText(accuracy.a), shareText(accuracy.b), ''] satisfies Row]),
  ];
}

const shareText = ({ value, low, high }: Share): string =>
  `${percent(value, 1)} (${percent(low, 1)} to ${percent(high, 1)})`;

/** `+12.5 %`; nothing where there is nothing to compare with. */
function difference(a: number | null, b: number | null): string {
  if (a === null || b === null || a === 0 || a === b) return '';
  return `${b > a ? '+' : '−'}${percent(Math.abs(b - a), a)}`;
}

const figureLines = (report: CompareReport): string[] => {
  const rows = figuresOf(report);
  return rows.length === 0 ? [] : table([['', 'a', 'b', ''], ...rows]);
};

/** Cells in columns: names to the left, figures to the right. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => cells(row[i] ?? ''))));
  return rows.map((row) =>
    row
      .map((cell, i) => {
        const width = widths[i] ?? 0;
        return i === 0 ? padEnd(cell, width) : ' '.repeat(Math.max(0, width - cells(cell))) + cell;
      })
      .join('  ')
      .trimEnd(),
  );
}
