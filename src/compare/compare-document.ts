import type { Share } from '../account/score.js';
import { cost, count, counted, duration, percent } from '../core/figures.js';
import { type Block, type Document, facts, type Section, section, text } from '../render/document.js';
import { REHEARSAL } from '../render/run-words.js';
import type { ChangedRows, CompareReport } from './compare-outputs.js';
import type { Transitions } from './comparison.js';

const MOST_PARTS = 15;
const NAME = 20;

/** @param changed rows for a page. @param files `[['changed rows', 'changed.csv'], …]` */
export function compareDocument(
  report: CompareReport,
  changed: ChangedRows | null,
  files: readonly (readonly [name: string, path: string])[] = [],
): Document {
  const sides = (['a', 'b'] as const).map((side) => `${side}: ${sideName(report[side])}`);
  return {
    title: 'What has changed',
    lead: [
      { in: ['terminal'], blocks: sides.map((side) => text(side, { style: 'strong', isWhole: true })) },
      { in: ['html'], blocks: sides.map((side) => text(side, { style: 'muted' })) },
      { tone: report.changed === 0 ? 'good' : 'warn', blocks: [text(verdict(report), { style: 'strong' })] },
      { in: ['html'], tone: 'good', blocks: [text(rowsText(report))] },
    ],
    sections: [
      section('both', 'Rows', [text(rowsText(report))], { in: ['terminal'] }),
      section('answers', 'Answers', [transitionMatrix(report.transitions)]),
      partSection(report),
      section('figures', 'Figures', [figureTable(report)]),
      ...(changed === null ? [] : [rowSection(report, changed)]),
      section('files', 'Files', [facts(files)], { in: ['terminal'] }),
    ],
    rest: 'in --json',
    footer: 'Written by Promptmill. Everything in it is in this one file.',
  };
}

const sideName = ({ output, emulated }: CompareReport['a']): string =>
  `${output}${emulated ? REHEARSAL : ''}`;

/** `933 of 1,000 rows have the same answer (93.3 %), 67 changed, kappa 0.871` */
function verdict({ rows, changed, agreement, kappa }: CompareReport): string {
  const same = `${count(rows - changed)} of ${counted(rows, 'row')} have the same answer`;
  const share = agreement === null ? '' : ` (${percent(agreement, 1)})`;
  return `${same}${share}, ${count(changed)} changed${kappa === null ? '' : `, kappa ${kappa.toFixed(3)}`}`;
}

function rowsText({ rows, answered, only_in_a, only_in_b, by, notes }: CompareReport): string {
  const told = by === null ? 'matched by row number' : `matched by ${JSON.stringify(by)}`;
  const only = [
    ...(only_in_a === 0 ? [] : [`${count(only_in_a)} only in a`]),
    ...(only_in_b === 0 ? [] : [`${count(only_in_b)} only in b`]),
  ];
  const ended =
    answered.rows === rows || answered.agreement === null
      ? []
      : [
          `of the ${counted(answered.rows, 'row')} not failed or skipped in either, ${percent(answered.agreement, 1)} have the same answer`,
        ];
  return [`${count(rows)} in both, ${told}`, ...only, ...ended, ...notes].join('; ');
}

/** In the order of the transitions; names that occur only in b come last. */
function transitionMatrix(transitions: Transitions): Block {
  const after = Object.values(transitions).flatMap((to) => Object.keys(to));
  const names = [...new Set([...Object.keys(transitions), ...after])];
  return {
    kind: 'matrix',
    caption: 'Rows by their answer in a, down, and in b, across',
    names: ['a', 'b'],
    down: names,
    across: names,
    counts: names.map((from) =>
      names.map((to) => (Object.hasOwn(transitions, from) ? (transitions[from]?.[to] ?? 0) : 0)),
    ),
  };
}

function partSection({ parts, transitions }: CompareReport): Section {
  const title = transitions['valid'] === undefined ? 'Labels' : 'Properties';
  const rows = Object.entries(parts ?? {})
    .sort(([, a], [, b]) => b.changed - a.changed)
    .map(([name, { agreement, changed, kappa }]) => ({
      cells: [
        name,
        agreement === null ? '' : percent(agreement, 1),
        count(changed),
        kappa === null ? '' : kappa.toFixed(3),
      ],
    }));
  const columns = [
    { name: 'name', most: NAME },
    ...['the same', 'changed', 'kappa'].map((name) => ({ name, isNumber: true })),
  ];
  return section('parts', title, [{ kind: 'table', caption: title, columns, rows, most: MOST_PARTS }]);
}

function figureTable({ tokens, cost: money, latency_ms, accuracy }: CompareReport): Block {
  const row = (
    name: string,
    a: number | null,
    b: number | null,
    textOf: (value: number) => string,
  ): string[][] =>
    a === null && b === null
      ? []
      : [[name, a === null ? '' : textOf(a), b === null ? '' : textOf(b), difference(a, b)]];
  const tokenRow = (name: string, kind: 'prompt_tokens' | 'completion_tokens'): string[][] =>
    row(name, tokens.a?.[kind] ?? null, tokens.b?.[kind] ?? null, count);
  const latency = (name: 'p50' | 'p95'): string[][] =>
    row(`latency ${name}`, latency_ms.a[name], latency_ms.b[name], (ms) => duration(ms / 1000));
  const rows = [
    ...tokenRow('prompt tokens', 'prompt_tokens'),
    ...tokenRow('completion tokens', 'completion_tokens'),
    ...row('cost', money.a, money.b, cost),
    ...latency('p50'),
    ...latency('p95'),
    ...(accuracy === null ? [] : [['accuracy', shareText(accuracy.a), shareText(accuracy.b), '']]),
  ];
  return {
    kind: 'table',
    caption: 'Figures of both',
    columns: [{ name: 'figure' }, ...['a', 'b', 'difference'].map((name) => ({ name, isNumber: true }))],
    rows: rows.map((cells) => ({ cells })),
  };
}

export const shareText = ({ value, low, high }: Share): string =>
  `${percent(value, 1)} (${percent(low, 1)} to ${percent(high, 1)})`;

/** `+12.5 %`; empty if there is nothing to compare with. */
function difference(a: number | null, b: number | null): string {
  if (a === null || b === null || a === 0 || a === b) return '';
  return `${b > a ? '+' : '−'}${percent(Math.abs(b - a), a)}`;
}

function rowSection({ changed }: CompareReport, { columns, rows }: ChangedRows): Section {
  const title =
    rows.length < changed ? `The first ${count(rows.length)} rows that changed` : 'Rows that changed';
  const table: Block = {
    kind: 'rows',
    caption: title,
    columns: columns.map((name) => ({ name: name.replace('_', ' '), isLong: name.startsWith('text') })),
    rows: rows.map((cells) => ({ cells, isToLookAt: true })),
  };
  return section('rows', title, [table], { in: ['html'] });
}
