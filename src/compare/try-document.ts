import type { StoredSummary } from '../account/summary.js';
import { clipped, cost, count, counted, duration, share } from '../core/figures.js';
import { type Document, facts, section, type Table, text } from '../render/document.js';
import { REHEARSAL } from '../render/run-words.js';
import { firstRows, interval, isDecided } from './compare-document.js';
import type { CompareReport } from './compare-outputs.js';
import { verdictText } from './verdict-text.js';

/** `promptmill try --json`. The first variant is the job as it is. */
export interface TryReport {
  readonly variants: readonly TriedVariant[];
  /** For the calls of this command. A variant's own cost includes answers that it took over. */
  readonly paid: Paid;
}

export interface TriedVariant extends Pick<StoredSummary, 'output' | 'emulated' | 'cost' | 'currency'> {
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
  readonly against_first: AgainstFirst | null;
}

interface AgainstFirst extends Pick<CompareReport, 'agreement' | 'changed'> {
  /** Rows that only this variant has right, and rows that only the first has right; `null` without gold. */
  readonly better: number | null;
  readonly worse: number | null;
  readonly p: number | null;
}

export interface Paid {
  readonly calls: number;
  readonly tokens: number;
  /** `null` without prices. */
  readonly cost: number | null;
}

/** @param reports of the variants beside the first, in their order */
export function tryDocument(
  { variants, paid }: TryReport,
  reports: readonly CompareReport[],
  files: readonly (readonly [name: string, path: string])[],
): Document {
  const [first, second] = variants;
  const title = `The job and ${counted(reports.length, 'variant')} on the same ${counted(first?.rows ?? 0, 'row')}`;
  const money = paid.cost === null ? '' : `, cost ${cost(paid.cost, first?.currency)}`;
  const [only] = reports.length === 1 ? reports : [];
  return {
    title,
    lead: [
      {
        in: ['terminal'],
        blocks: [text(`${title}${first?.emulated ? REHEARSAL : ''}`, { style: 'strong' })],
      },
      { in: ['html'], blocks: [text(first?.emulated ? REHEARSAL.trim() : '', { style: 'muted' })] },
      ...reports.map((report, i) => ({
        tone: isDecided(report) ? ('good' as const) : ('warn' as const),
        blocks: [text(resultText(report, variants[i + 1]?.name ?? ''))],
      })),
    ],
    sections: [
      section('variants', 'Variants', [
        variantTable(variants),
        text(`paid now: ${counted(paid.calls, 'call')}, ${count(paid.tokens)} tokens${money}`),
      ]),
      section(
        'changes',
        'The first rows that changed',
        only === undefined ? [] : [firstRows(only, first?.name, second?.name)],
      ),
      section('files', 'Files', [facts(files)], { in: ['terminal'] }),
    ],
    rest: 'in --json',
    footer: 'Written by Promptmill. Everything in it is in this one file.',
    isWide: true,
  };
}

/** With gold which one is better, else how many answers are the same. */
function resultText({ verdict, rows, changed, agreement }: CompareReport, name: string): string {
  if (verdict !== null) return verdictText(verdict, 'the job', name);
  const same = agreement === null ? '' : ` (${share(agreement)})`;
  return `${name} and the job agree on ${count(rows - changed)} of ${counted(rows, 'row')}${same}`;
}

/** Characters; the sentences above the table have names in full. */
const NAME = 30;

function variantTable(variants: readonly TriedVariant[]): Table {
  const columns = [
    { name: 'variant' },
    ...['accuracy', '95 % interval', 'F1', 'invalid', 'tokens', 'cost', 'time p50'].map((name) => ({
      name,
      isNumber: true,
    })),
  ];
  const rows = variants.map(({ name, accuracy, f1, invalid, tokens, cost: money, currency, p50_ms }) => ({
    cells: [
      clipped(name, NAME),
      accuracy === null ? '' : share(accuracy.value),
      accuracy === null ? '' : interval(accuracy),
      f1 === null ? '' : f1.toFixed(3),
      count(invalid),
      count(tokens),
      money === null ? '' : cost(money, currency),
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
