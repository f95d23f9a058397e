import { count, duration, percent } from '../figures.js';
import { isToLookAt, type ReportTable } from './report-rows.js';
import type { RunReport } from './run-report.js';
import type { ReportSection, SectionRow } from './sections.js';
import { jobTitle } from './terminal.js';
import { plain, plainLines } from './terminal-text.js';
import { periodsOf } from './timeline.js';

/** A report as Markdown with tables, as GitHub and others read it (https://github.github.com/gfm/), ending in a line feed. */
export function renderMarkdown(report: RunReport): string {
  const {
    verdict,
    charts,
    summary: { details },
  } = report;
  const blocks = [
    `# ${text(jobTitle(report.summary))}`,
    `**${text(report.reconciliation)}**`,
    text(verdict.text),
    ...verdict.next.flatMap(({ text: what, command }) => [
      text(what),
      ...(command === null ? [] : [code(command)]),
    ]),
    tableOf(['', ''], report.facts),
    ...report.sections.flatMap(sectionBlocks),
    ...confusionBlocks(charts.confusion),
    ...listBlocks(
      'Confidence and accuracy',
      ['confidence', 'rows', 'mean confidence', 'accuracy'],
      charts.reliability.map(({ from, to, rows, confidence, accuracy }) => [
        `${from} to ${to}`,
        count(rows),
        ...[confidence, accuracy].map((share) => percent(share, 1)),
      ]),
    ),
    ...listBlocks(
      'Coverage and accuracy',
      ['least confidence', 'answered', 'right'],
      charts.coverage.map(({ threshold, coverage, accuracy }) => [
        String(threshold),
        ...[coverage, accuracy].map((share) => percent(share, 1)),
      ]),
    ),
    ...listBlocks(
      'Over time',
      ['from', 'rows', 'failed', 'tokens', 'calls', 'refused', 'mean latency'],
      periodsOf(details.timeline, 12).map((point) => [
        duration(point.from_s),
        ...[point.rows, point.failed, point.prompt_tokens + point.completion_tokens].map(count),
        ...[point.sent, point.rate_limited].map(count),
        point.latency_mean_ms === null ? '' : duration(point.latency_mean_ms / 1000),
      ]),
    ),
    ...(report.prompt === null ? [] : ['## Prompt', code(report.prompt)]),
    ...listBlocks('Settings', ['', ''], report.settings),
    ...rowBlocks(report.table, report.table_note),
  ];
  return `${blocks.join('\n\n')}\n`;
}

function sectionBlocks({ title, rows }: ReportSection): string[] {
  const has = (name: 'percent' | 'sample' | 'advice'): boolean =>
    rows.some((row) => (row[name] ?? null) !== null);
  const columns = (['percent', 'sample', 'advice'] as const).filter(has);
  const heads = { percent: 'share', sample: 'for example', advice: 'what to do' };
  const cells = (row: SectionRow): string[] => [
    row.name,
    row.value,
    ...columns.map((name) => row[name] ?? ''),
  ];
  return listBlocks(title, ['', '', ...columns.map((name) => heads[name])], rows.map(cells));
}

function confusionBlocks(confusion: RunReport['charts']['confusion']): string[] {
  if (confusion === null) return [];
  const { right, answered, counts } = confusion;
  return listBlocks(
    'Right labels (rows) and answers (columns)',
    ['', ...answered],
    right.map((label, i) => [label, ...(counts[i] ?? []).map(count)]),
  );
}

function rowBlocks(table: ReportTable | null, note: string | null): string[] {
  if (table === null) return note === null ? [] : ['## Rows', text(note)];
  return listBlocks(
    'Rows',
    ['row', 'outcome', ...table.columns],
    textRowsOf(table).map(({ row, outcome, cells }) => [count(row), outcome, ...cells]),
  );
}

/** A text file is read from its beginning to its end: it has rows to look at, and a few others. The HTML report has more. */
function textRowsOf({ rows }: ReportTable): ReportTable['rows'] {
  const others = rows.filter((row) => !isToLookAt(row)).slice(0, MOST_OTHERS);
  const shown = new Set([...rows.filter(isToLookAt).slice(0, MOST_TO_LOOK_AT), ...others]);
  return rows.filter((row) => shown.has(row));
}

const MOST_TO_LOOK_AT = 200;
const MOST_OTHERS = 10;

function listBlocks(title: string, head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return rows.length === 0 ? [] : [`## ${text(title)}`, tableOf(head, rows)];
}

const tableOf = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows]
    .map((cells, i) => `| ${cells.map((cell) => (i === 1 ? cell : text(cell))).join(' | ')} |`)
    .join('\n');

/** Everything that Markdown, or the HTML that may stand in it, would read as markup. */
const MARKUP = /[\\`*_{}[\]()<>#+\-.!|~&$^:@=]/g;

/** A text on one line that shows as it is: no markup, no link, no cell border, and nothing that hides or reorders it. */
const text = (raw: string): string =>
  plain(raw.replace(/[\t\n\r\p{Zl}\p{Zp}]+/gu, ' '))
    .trim()
    .replace(MARKUP, (char) => (/[<>&:@]/.test(char) ? `&#${char.charCodeAt(0)};` : `\\${char}`));

/** A block of code, in a fence that is longer than any in it. */
function code(content: string): string {
  const longest = Math.max(2, ...[...content.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${plainLines(content)}\n${fence}`;
}
