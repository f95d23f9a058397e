import type { StoredSummary } from '../account/summary.js';
import { cost, count, counted, duration, percent } from '../core/figures.js';
import { type Document, facts, section, type Table, text } from '../render/document.js';
import { REHEARSAL } from '../render/run-words.js';
import { shareText } from './compare-document.js';
import type { CompareReport } from './compare-outputs.js';

/** `promptmill try --json`. The first variant is the job as it is. */
export interface TryReport {
  readonly variants: readonly TriedVariant[];
  /** For calls of this command; the variants' own figures are what their answers cost, whoever asked for them. */
  readonly paid: Paid;
}

export interface TriedVariant extends Pick<StoredSummary, 'output' | 'emulated' | 'cost'> {
  readonly name: string;
  readonly rows: number;
  /** `null` without gold. */
  readonly accuracy: NonNullable<StoredSummary['scores']>['accuracy'];
  readonly f1: number | null;
  /** Completed rows with an invalid answer, refusals among them. */
  readonly invalid: number;
  readonly tokens: number;
  readonly p50_ms: number | null;
  /** `null` for the first. */
  readonly against_first: Pick<CompareReport, 'agreement' | 'changed'> | null;
}

export interface Paid {
  readonly calls: number;
  readonly tokens: number;
  /** `null` without prices. */
  readonly cost: number | null;
}

/** @param changes the first rows whose answers differ, of the only variant beside the job's; else none */
export function tryDocument(
  { variants, paid }: TryReport,
  changes: Pick<Table, 'columns' | 'rows'> | null,
  files: readonly (readonly [name: string, path: string])[],
): Document {
  const [first, ...others] = variants;
  const rows = counted(first?.rows ?? 0, 'row');
  const money = paid.cost === null ? '' : `, cost ${cost(paid.cost)}`;
  const title = `${counted(others.length, 'variant')} of ${first?.name ?? ''} on ${rows}`;
  return {
    title,
    lead: [
      { in: ['terminal'], blocks: [text(title, { style: 'strong' })] },
      ...(first?.emulated ? [{ blocks: [text(REHEARSAL.trim(), { style: 'muted' })] }] : []),
      ...others.map((variant) => ({ tone: 'good' as const, blocks: [text(saysOf(variant))] })),
    ],
    sections: [
      section('variants', 'Variants', [
        variantTable(variants),
        text(`paid now: ${counted(paid.calls, 'call')}, ${count(paid.tokens)} tokens${money}`),
      ]),
      section('changes', 'The first rows that changed', [
        { kind: 'table', caption: 'The first rows that changed', columns: [], rows: [], ...changes },
      ]),
      section('files', 'Files', [facts(files)], { in: ['terminal'] }),
    ],
    rest: 'in --json',
    footer: 'Written by Promptmill. Everything in it is in this one file.',
    isWide: true,
  };
}

function variantTable(variants: readonly TriedVariant[]): Table {
  const columns = [
    { name: 'variant' },
    ...['accuracy', 'F1', 'invalid', 'tokens', 'cost', 'time p50'].map((name) => ({ name, isNumber: true })),
  ];
  const rows = variants.map(({ name, accuracy, f1, invalid, tokens, cost: money, p50_ms }) => ({
    cells: [
      name,
      accuracy === null ? '' : shareText(accuracy),
      f1 === null ? '' : f1.toFixed(3),
      count(invalid),
      count(tokens),
      money === null ? '' : cost(money),
      p50_ms === null ? '' : duration(p50_ms / 1000),
    ],
  }));
  const isUsed = columns.map((_, i) => rows.some(({ cells }) => (cells[i] ?? '') !== ''));
  return {
    kind: 'table',
    caption: 'What each variant answered, and what its answers cost',
    columns: columns.filter((_, i) => isUsed[i]),
    rows: rows.map(({ cells }) => ({ cells: cells.filter((_, i) => isUsed[i]) })),
  };
}

function saysOf({ name, rows, against_first }: TriedVariant): string {
  if (against_first === null) return '';
  const { agreement, changed } = against_first;
  const share = agreement === null ? '' : ` (${percent(agreement, 1)})`;
  return `${name}: ${count(rows - changed)} of ${counted(rows, 'row')} have the job's answer${share}, ${count(changed)} changed`;
}
