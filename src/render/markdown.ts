import { count, percent } from '../core/figures.js';
import { type Block, chartTable, type Document, type Figures, type RowTable, shownIn } from './document.js';
import { escapeControls, escapeControlsInLines } from './terminal-text.js';

/** GitHub Flavored Markdown (https://github.github.com/gfm/), ending in a line feed. */
export function renderMarkdown(document: Document): string {
  const { title, lead, sections } = shownIn('markdown', document);
  const parts = [
    `# ${escaped(title)}`,
    ...lead.flatMap(({ blocks }) => blocks.flatMap(blockParts)),
    ...sections.flatMap(({ title, blocks }) => [`## ${escaped(title)}`, ...blocks.flatMap(blockParts)]),
  ];
  return `${parts.join('\n\n')}\n`;
}

function blockParts(block: Block): string[] {
  switch (block.kind) {
    case 'text':
      return [block.style === 'strong' ? `**${escaped(block.text)}**` : escaped(block.text)];
    case 'list':
      return [
        block.isLines
          ? block.items.map((item) => `- ${escaped(item)}`).join('\n')
          : escaped(block.items.join(', ')),
      ];
    case 'command':
    case 'code':
      return [code(block.text)];
    case 'figures':
      return [figureTable(block)];
    case 'table':
      return [
        table(
          [...block.columns.map(({ name }) => name), ...(block.rows.some(({ note }) => note) ? [''] : [])],
          block.rows.map(({ cells, note }) => (note === undefined ? cells : [...cells, note.text])),
        ),
      ];
    case 'matrix':
      return [
        table(
          [block.names.join(' \\ '), ...block.across],
          block.down.map((name, i) => [name, ...(block.counts[i] ?? []).map(count)]),
        ),
      ];
    case 'shares': {
      const all = Math.max(
        1,
        block.parts.reduce((sum, [, rows]) => sum + rows, 0),
      );
      return [escaped(block.parts.map(([name, rows]) => `${name} ${percent(rows, all)}`).join(', '))];
    }
    case 'chart': {
      const { columns, rows } = chartTable(block.chart);
      const head = columns.map(({ name }) => name);
      return [
        escaped(block.chart.description),
        table(
          head,
          rows.map(({ cells }) => cells),
        ),
      ];
    }
    case 'rows':
      return [
        table(
          block.columns.map(({ name }) => name),
          rowsOf(block).map(({ cells }) => cells),
        ),
      ];
  }
}

function figureTable({ rows, heads = ['', ''] }: Figures): string {
  const more = { percent: 'share', sample: 'for example', advice: 'what to do' };
  const columns = (['percent', 'sample', 'advice'] as const).filter((name) =>
    rows.some((row) => (row[name] ?? null) !== null),
  );
  return table(
    [...heads, ...columns.map((name) => more[name])],
    rows.map((row) => [row.name, row.value, ...columns.map((name) => row[name] ?? '')]),
  );
}

const MOST_TO_LOOK_AT = 200;
const MOST_OTHERS = 10;

/** A text file is read from top to bottom, so it has rows to look at and only a few others. */
function rowsOf({ rows }: RowTable): RowTable['rows'] {
  const others = rows.filter(({ isToLookAt }) => !isToLookAt).slice(0, MOST_OTHERS);
  const shown = new Set([
    ...rows.filter(({ isToLookAt }) => isToLookAt).slice(0, MOST_TO_LOOK_AT),
    ...others,
  ]);
  return rows.filter((row) => shown.has(row));
}

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [
    line(head.map(escaped)),
    line(head.map(() => '---')),
    ...rows.map((cells) => line(cells.map(escaped))),
  ].join('\n');

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;

/** Everything that Markdown, or HTML inside it, treats as markup. */
const MARKUP = /[\\`*_{}[\]()<>#+\-.!|~&$^:@=]/g;

/** One line of literal text: no markup, link or cell border, and nothing that hides or reorders it. */
const escaped = (raw: string): string =>
  escapeControls(raw.replace(/[\t\n\r\p{Zl}\p{Zp}]+/gu, ' '))
    .trim()
    .replace(MARKUP, (char) => (/[<>&:@]/.test(char) ? `&#${char.charCodeAt(0)};` : `\\${char}`));

function code(content: string): string {
  const longest = Math.max(2, ...[...content.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${escapeControlsInLines(content)}\n${fence}`;
}
