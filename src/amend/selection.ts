import { either, UsageError } from '../core/errors.js';
import { STATUSES } from '../core/model.js';

/** Rows of an output to call again: those for which one of these is true. */
export interface Selection {
  /** The row ended with one of these. @default none */
  readonly statuses: readonly (typeof STATUSES)[number][];
  readonly invalid: boolean;
  readonly abstained: boolean;
  /** Row numbers, both ends included; in order and disjoint. */
  readonly rows: readonly (readonly [from: number, to: number])[];
}

export interface SelectionFlags {
  readonly status?: string | undefined;
  readonly invalid?: boolean | undefined;
  readonly abstained?: boolean | undefined;
  readonly row?: string | undefined;
}

/** Failed rows by default. @throws UsageError with the option and the value received */
export function readSelection({ status, invalid, abstained, row }: SelectionFlags): Selection {
  const isNone = status === undefined && row === undefined && !invalid && !abstained;
  return {
    statuses: isNone ? ['failed'] : statusesIn(status),
    invalid: invalid ?? false,
    abstained: abstained ?? false,
    rows: row === undefined ? [] : rangesIn(row),
  };
}

/** The options of a selection: `--status failed --row 17,20-30`. */
export function selectionText({ statuses, invalid, abstained, rows }: Selection): string {
  const ranges = rows.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`));
  return [
    ...(statuses.length > 0 ? [`--status ${statuses.join(',')}`] : []),
    ...(invalid ? ['--invalid'] : []),
    ...(abstained ? ['--abstained'] : []),
    ...(ranges.length > 0 ? [`--row ${ranges.join(',')}`] : []),
  ].join(' ');
}

function statusesIn(text = ''): Selection['statuses'] {
  const names = text.split(',').map((name) => name.trim());
  const wrong = names.find((name) => name !== '' && !STATUSES.some((status) => status === name));
  if (wrong !== undefined || (text !== '' && names.every((name) => name === ''))) {
    throw new UsageError(
      'bad_selection',
      `--status takes ${either(STATUSES)}, or several with commas between them, got ${JSON.stringify(wrong ?? text)}`,
    );
  }
  return STATUSES.filter((status) => names.includes(status));
}

function rangesIn(text: string): Selection['rows'] {
  const ranges = text.split(',').map((part): [number, number] => {
    const [, from, to = from] = /^\s*([1-9]\d{0,14})(?:\s*-\s*([1-9]\d{0,14}))?\s*$/.exec(part) ?? [];
    if (from !== undefined && Number(from) <= Number(to)) return [Number(from), Number(to)];
    throw new UsageError(
      'bad_selection',
      `--row takes numbers of rows, from 1, and ranges of them, such as 17,20-30, got ${JSON.stringify(part)}`,
    );
  });
  const apart: [number, number][] = [];
  for (const [from, to] of ranges.sort(([a], [b]) => a - b)) {
    const last = apart.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else apart.push([from, to]);
  }
  return apart;
}
