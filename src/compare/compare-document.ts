import type { Share } from '../account/score.js';
import { cost, count, counted, duration, percent, share } from '../core/figures.js';
import {
  type Block,
  countsIn,
  type Document,
  facts,
  type RowTable,
  type Section,
  section,
  text,
} from '../render/document.js';
import { REHEARSAL } from '../render/run-words.js';
import type { ChangedRows, CompareReport } from './compare-outputs.js';
import type { Transitions } from './comparison.js';
import type { Verdict } from './verdict.js';
import { verdictText } from './verdict-text.js';

const MOST_PARTS = 15;
const NAME = 20;
/** Characters of an input on a terminal, whose width then decides. */
const MOST_INPUT = 200;

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
      { tone: report.changed === 0 || isDecided(report) ? 'good' : 'warn', blocks: leadTexts(report) },
      { in: ['html'], tone: 'good', blocks: [text(rowsText(report))] },
    ],
    sections: [
      section('both', 'Rows', [text(rowsText(report))], { in: ['terminal'] }),
      section('answers', 'Answers', [transitionMatrix(report.transitions)]),
      partSection(report),
      section('figures', 'Figures', [figureTable(report)]),
      section('prompts', 'Prompts', [{ kind: 'code', text: report.prompt_changes.join('\n') }]),
      section('settings', 'Settings', [settingTable(report)]),
      section('changed', 'Rows that changed', [firstRows(report)], { in: ['terminal'], short: 'changed' }),
      ...(changed === null ? [] : [rowSection(report, changed)]),
      section('files', 'Files', [facts(files)], { in: ['terminal'] }),
    ],
    rest: 'in --json',
    footer: 'Written by Promptmill. Everything in it is in this one file.',
  };
}

const sideName = ({ output, emulated }: CompareReport['a']): string =>
  `${output}${emulated ? REHEARSAL : ''}`;

export const isDecided = ({ verdict }: CompareReport): boolean => verdict !== null && verdict.says !== 'even';

/** The verdict, if there is one, and `812 rows are completed or filtered in both; 93.3 % of those agree` */
function leadTexts({ answered: { rows, agreement }, verdict, changed, kappa }: CompareReport): Block[] {
  const agree =
    agreement === null
      ? 'No row is completed or filtered in both'
      : `${counted(rows, 'row')} ${rows === 1 ? 'is' : 'are'} completed or filtered in both; ${share(agreement)} of those agree`;
  if (verdict !== null) return [text(verdictText(verdict, 'a', 'b'), { style: 'strong' }), text(agree)];
  // Free texts have no kappa, and no right answers either.
  const mayHaveGold = changed > 0 && kappa !== null;
  return [text(agree, { style: 'strong' }), text(mayHaveGold ? NEEDS_GOLD : '')];
}

const NEEDS_GOLD =
  'To see which one is better, name the right answers: with --gold FILE|COLUMN, or as answer.gold in the job.';

function rowsText(report: CompareReport): string {
  const { rows, changed, kappa, answered, only_in_a, only_in_b, by, notes } = report;
  const told = by === null ? 'matched by row number' : `matched by ${JSON.stringify(by)}`;
  const some = (n: number, what: string): string[] => (n === 0 ? [] : [`${count(n)} ${what}`]);
  return [
    `${count(rows)} in both, ${told}`,
    ...some(only_in_a, 'only in a'),
    ...some(only_in_b, 'only in b'),
    ...some(rows - answered.rows, 'failed or skipped in one of them, or in both'),
    `${count(changed)} changed${kappa === null ? '' : `, kappa ${kappa.toFixed(3)}`}`,
    ...notes,
  ].join('; ');
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
    counts: countsIn(transitions, { down: names, across: names }),
  };
}

function partSection({ parts, transitions }: CompareReport): Section {
  const title = transitions['valid'] === undefined ? 'Labels' : 'Properties';
  const rows = Object.entries(parts ?? {})
    .sort(([, a], [, b]) => b.changed - a.changed)
    .map(([name, { agreement, changed, kappa }]) => ({
      cells: [
        name,
        agreement === null ? '' : share(agreement),
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

function scoreRows(verdict: Verdict): string[][] {
  const { accuracy_a, accuracy_b, macro_f1_a, macro_f1_b, invalid_a, invalid_b, rows } = verdict;
  if (accuracy_a === null || accuracy_b === null) return [];
  const points = signed(100 * (accuracy_b.value - accuracy_a.value), 1, ' points');
  const f1 = (a: number, b: number) => ['macro F1', a.toFixed(3), b.toFixed(3), signed(b - a, 3)];
  return [
    ['rows with gold', count(rows), count(rows), ''],
    ['accuracy', share(accuracy_a.value), share(accuracy_b.value), points],
    ['95 % interval', interval(accuracy_a), interval(accuracy_b), ''],
    ...(macro_f1_a === null || macro_f1_b === null ? [] : [f1(macro_f1_a, macro_f1_b)]),
    ['invalid answers', count(invalid_a), count(invalid_b), signed(invalid_b - invalid_a, 0)],
  ];
}

function figureTable({ tokens, cost: money, latency_ms, verdict, a, b }: CompareReport): Block {
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
  const price = (side: 'a' | 'b', currency?: string): string => {
    const value = money[side];
    return value === null ? '' : cost(value, currency);
  };
  const change = a.currency === b.currency ? difference(money.a, money.b) : '';
  const costRow = ['cost', price('a', a.currency), price('b', b.currency), change];
  const rows = [
    ...(verdict === null ? [] : scoreRows(verdict)),
    ...tokenRow('prompt tokens', 'prompt_tokens'),
    ...tokenRow('completion tokens', 'completion_tokens'),
    ...(money.a === null && money.b === null ? [] : [costRow]),
    ...latency('p50'),
    ...latency('p95'),
  ];
  return {
    kind: 'table',
    caption: 'Figures of both',
    columns: [{ name: 'figure' }, ...['a', 'b', 'change'].map((name) => ({ name, isNumber: true }))],
    rows: rows.map((cells) => ({ cells })),
  };
}

/** `54.6 to 81.9 %` */
export const interval = ({ low, high }: Share): string => `${(100 * low).toFixed(1)} to ${share(high)}`;

/** `+4.5 points`; empty for none. */
const signed = (difference: number, digits: number, unit = ''): string =>
  difference === 0 ? '' : `${difference > 0 ? '+' : '−'}${Math.abs(difference).toFixed(digits)}${unit}`;

/** `+12.5 %`; empty if there is nothing to compare with. */
function difference(a: number | null, b: number | null): string {
  if (a === null || b === null || a === 0 || a === b) return '';
  return `${b > a ? '+' : '−'}${percent(Math.abs(b - a), a)}`;
}

function settingTable({ setting_changes }: CompareReport): Block {
  const columns = ['setting', 'a', 'b'].map((name) => ({ name, isLong: name !== 'setting' }));
  const rows = setting_changes.map(({ name, a, b }) => ({ cells: [name, a, b] }));
  return { kind: 'table', caption: 'Settings that differ', columns, rows };
}

/** One line a row; the input comes last, because it is cut. @param a, b what the sides are called */
export function firstRows({ first_changed: { columns, rows } }: CompareReport, a = 'a', b = 'b'): Block {
  type Cell = (cells: readonly string[]) => string;
  const cell = (name: string): Cell => {
    const place = columns.indexOf(name);
    return (cells) => cells[place] ?? '';
  };
  // The text says why there is no answer: `(invalid) Hard to say`.
  const answer = (side: 'a' | 'b'): Cell => {
    const [answerOf, textOf] = [cell(`answer_${side}`), cell(`text_${side}`)];
    return (cells) =>
      answerOf(cells).startsWith('(') ? `${answerOf(cells)} ${textOf(cells)}`.trimEnd() : answerOf(cells);
  };
  const input: Cell = (cells) => {
    const texts = cells.slice(columns.indexOf('text_b') + 1).filter((text) => text !== '');
    return texts.join(' / ').replace(/\s+/g, ' ');
  };
  const judged = columns.filter((name) => name === 'gold' || name === 'b_is');
  const shown: { name: string; of: Cell; most?: number }[] = [
    { name: columns[0] ?? '', of: ([first = '']) => first },
    ...judged.map((name) => ({ name: named(name).replace(/^b /, `${b} `), of: cell(name) })),
    { name: a, of: answer('a') },
    { name: b, of: answer('b') },
    { name: 'input', of: input, most: MOST_INPUT },
  ];
  return {
    kind: 'table',
    caption: 'The first rows that changed',
    columns: shown.map(({ name, most = NAME }) => ({ name, most })),
    rows: rows.map((cells) => ({ cells: shown.map(({ of }) => of(cells)) })),
  };
}

const named = (column: string): string => column.replace('_', ' ');

function choicesIn(rows: ChangedRows['rows'], column: number): { value: string; rows: number }[] {
  const counts = new Map<string, number>();
  for (const { [column]: value = '' } of rows) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].flatMap(([value, n]) => (value === '' ? [] : { value, rows: n }));
}

function rowSection({ changed }: CompareReport, { columns, rows }: ChangedRows): Section {
  const title =
    rows.length < changed ? `The first ${count(rows.length)} rows that changed` : 'Rows that changed';
  const inputs = columns.indexOf('text_b') + 1;
  // Most texts are just the answer, which is two columns before.
  const withoutEcho = (cell: string, i: number, cells: readonly string[]): string =>
    columns[i]?.startsWith('text_') && i < inputs && cell.toLowerCase() === cells[i - 2]?.toLowerCase()
      ? ''
      : cell;
  const table: Block = {
    kind: 'rows',
    caption: title,
    columns: columns.map((name, i): RowTable['columns'][number] =>
      i >= inputs
        ? { name, isLong: true, within: 'input', isNamed: columns.length > inputs + 1 }
        : {
            name: named(name),
            isLong: name.startsWith('text'),
            ...(name === 'b_is' && { isOutcome: true, choices: choicesIn(rows, i) }),
          },
    ),
    rows: rows.map((cells) => ({ cells: cells.map(withoutEcho), isToLookAt: true })),
  };
  return section('rows', title, [table], { in: ['html'] });
}
