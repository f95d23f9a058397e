import type { Fault } from '../faults/catalogue.js';
import type { Line } from './rows.js';

const HEADER = ['fault', '', 'tier', 'store', 'tests', 'rows', 'calls', 'repeated', 'result'] as const;
/** Columns of numbers stand to the right. */
const RIGHT = new Set([0, 4, 5, 6, 7]);

/** The table, what is not covered or only in part, and the count of both, as plain text. */
export function tableText(lines: readonly Line[], catalogue: readonly Fault[]): string {
  const titles = new Map(catalogue.map(({ number, title }) => [number, title]));
  const cells = lines.map(({ fault, tier, store, tests, rows, calls, repeated, state }, i) => [
    String(fault),
    lines[i - 1]?.fault === fault ? '' : (titles.get(fault) ?? '?'),
    tier,
    store,
    String(tests),
    ...[rows, calls, repeated].map((figure) => figure?.toLocaleString('en-US') ?? '-'),
    state,
  ]);
  const covered = catalogue.filter(({ number }) => isCovered(number, lines)).length;
  return [
    ...aligned([[...HEADER], ...cells]),
    ...reasons(
      'not covered',
      catalogue.map(({ number, title, absent }) => [number, title, absent]),
    ),
    ...reasons(
      'covered in part; what is missing',
      catalogue.map(({ number, title, missing }) => [number, title, missing]),
    ),
    '',
    `${catalogue.length} faults: ${covered} covered, ${catalogue.length - covered} not covered`,
  ].join('\n');
}

/** By this run alone, whatever the catalogue expects: a test passed, and none failed. */
function isCovered(number: number, lines: readonly Line[]): boolean {
  const states = lines.filter(({ fault }) => fault === number).map(({ state }) => state);
  return states.includes('passed') && !states.includes('failed');
}

function reasons(
  head: string,
  all: readonly (readonly [number: number, title: string, reason: string | undefined])[],
): string[] {
  const given = all.filter(([, , reason]) => reason !== undefined);
  if (given.length === 0) return [];
  return [
    '',
    `${head}:`,
    ...given.map(([number, title, reason]) => `${String(number).padStart(5)}  ${title}: ${reason}`),
  ];
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = HEADER.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, i) => (RIGHT.has(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}
