import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { count, percent } from '../core/figures.js';
import { packageFile } from '../core/package-file.js';
import { pictureOf } from './charts.js';
import {
  type Block,
  type Chart,
  chartTable,
  type Document,
  type Figures,
  type LeadPart,
  type Matrix,
  mixedUp,
  type RowTable,
  type Section,
  shownIn,
  type Table,
} from './document.js';
import { foreignMarkup, type Html, html, type Piece } from './markup.js';

/** A file that loads nothing. Its policy allows only its own style and script, by digest. */
export async function renderHtml(document: Document): Promise<string> {
  const { title, lead, sections, chapters = [], footer = '' } = shownIn('html', document);
  const parts = [
    ...chapters.map(({ id, title }) => ({
      id,
      title,
      sections: sections.filter(({ chapter }) => chapter === id),
    })),
    ...sections.filter(({ chapter }) => chapter === undefined).map((one) => ({ ...one, sections: [one] })),
  ].filter(({ sections }) => sections.length > 0);
  const style = asset('style.css');
  const script = asset('report.js');
  const policy = [
    "default-src 'none'",
    `style-src '${digestOf(style)}'`,
    `script-src '${digestOf(script)}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="Promptmill">
<meta http-equiv="Content-Security-Policy" content="${foreignMarkup(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${title} – Promptmill</title>
<style>${foreignMarkup(style)}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<h1 dir="auto">${title}</h1>
${await leadHtml(lead)}</header>
<nav aria-label="Sections"><ul>${parts.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
<main id="main" tabindex="-1">
${await Promise.all(
  parts.map(
    async ({ id, title, sections }) => html`<section id="${id}" aria-labelledby="${id}-title">
<h2 id="${id}-title">${title}</h2>
<div class="grid">${await Promise.all(sections.map((section) => sectionHtml(section, title)))}</div>
</section>
`,
  ),
)}</main>
<footer><p>${footer}</p></footer>
<script>${foreignMarkup(script)}</script>
</body>
</html>
`.source;
}

const asset = (name: string): string => readFileSync(packageFile(`dist/render/assets/${name}`), 'utf8');

const digestOf = (text: string): string => `sha256-${createHash('sha256').update(text).digest('base64')}`;

/** Parts with a tone share one box. */
async function leadHtml(lead: readonly LeadPart[]): Promise<Html> {
  const body = (parts: readonly LeadPart[]) =>
    Promise.all(parts.flatMap(({ blocks }) => blocks).map((block) => blockHtml(block)));
  const first = lead.findIndex(({ tone }) => tone !== undefined);
  if (first === -1) return html`${await body(lead)}`;
  const told = lead.filter(({ tone }) => tone !== undefined);
  return html`${await body(lead.slice(0, first))}<div class="note" data-state="${told[0]?.tone ?? 'good'}">
${await body(told)}</div>
${await body(lead.slice(first).filter(({ tone }) => tone === undefined))}`;
}

/** Too wide for a column beside others. */
const isWide = (block: Block): boolean =>
  ['matrix', 'table', 'rows', 'code'].includes(block.kind) ||
  (block.kind === 'figures' && (block.form === 'facts' || hasTexts(block)));

/** @param above its heading, which is not repeated */
async function sectionHtml({ title, blocks }: Section, above: string): Promise<Html> {
  const body = await Promise.all(blocks.map((block) => blockHtml(block)));
  const only = blocks.every(({ kind }) => kind === 'chart');
  if (only) return html`${body}`;
  return html`<section class="part${blocks.some(isWide) ? ' wide' : ''}">${
    title === above ? null : html`<h3>${title}</h3>`
  }${body}</section>
`;
}

async function blockHtml(block: Block): Promise<Html> {
  switch (block.kind) {
    case 'text': {
      const { text, style } = block;
      if (style === 'strong') return html`<p><strong>${text}</strong></p>\n`;
      return html`<p${style === 'muted' ? html` class="muted"` : null}>${text}</p>\n`;
    }
    case 'list':
      return block.isLines
        ? html`<ul>${block.items.map((item) => html`<li>${item}</li>`)}</ul>\n`
        : html`<p>${block.items.join(', ')}</p>\n`;
    case 'command':
      return html`<p><code>${block.text}</code></p>\n`;
    case 'code':
      return html`<pre dir="auto">${block.text}</pre>`;
    case 'figures':
      return figuresHtml(block);
    case 'table':
      return tableHtml(block);
    case 'matrix':
      return matrixHtml(block);
    case 'shares':
      return sharesHtml(block.parts);
    case 'chart':
      return chartHtml(block.chart);
    case 'rows':
      return rowsHtml(block);
  }
}

const SEEN_AT_ONCE = 12;

const hasTexts = ({ rows }: Figures): boolean =>
  rows.some(({ sample, advice }) => sample !== undefined || advice !== undefined);

function figuresHtml(figures: Figures): Html {
  const { rows, form, areParts = false } = figures;
  if (form === 'large') {
    return html`<dl class="figures">${rows.map(
      ({ name, value, note }) =>
        html`<div><dt>${name}</dt><dd>${value}${note === undefined ? null : html` <span class="muted">${note}</span>`}</dd></div>
`,
    )}</dl>`;
  }
  if (form === 'facts') {
    return html`<dl class="facts">${rows.map(
      ({ name, value }) => html`<dt>${name}</dt><dd dir="auto">${value}</dd>
`,
    )}</dl>`;
  }
  if (hasTexts(figures)) return errorsHtml(figures);
  const most = areParts ? Math.max(...rows.map(({ fraction }) => fraction ?? 0)) : 1;
  const hasBars = rows.some(({ fraction }) => fraction !== null);
  const table = (some: Figures['rows']): Html =>
    html`<table><tbody>${some.map(
      ({ name, value, percent, fraction }) =>
        html`<tr><th scope="row" dir="auto">${name}</th><td class="${value.length <= 20 ? 'number' : 'value'}">${value}</td>${
          fraction === null
            ? hasBars
              ? html`<td></td><td></td>`
              : null
            : html`<td class="number">${percent}</td><td class="bar"><svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect data-kind="first" width="${(100 * fraction) / most}" height="1"/></svg></td>`
        }</tr>
`,
    )}</tbody></table>`;
  const rest = rows.length - SEEN_AT_ONCE;
  if (rest <= 3) return table(rows);
  return html`${table(rows.slice(0, SEEN_AT_ONCE))}<details><summary>${count(rest)} more</summary>${table(rows.slice(SEEN_AT_ONCE))}</details>`;
}

function errorsHtml({ rows, heads = ['', ''] }: Figures): Html {
  const isAdvised = rows.some(({ advice }) => advice !== undefined);
  return cellsHtml(
    'Errors, with a message of each',
    [
      { name: heads[0] },
      { name: heads[1], isNumber: true },
      { name: 'One of the messages', isLong: true },
      ...(isAdvised ? [{ name: 'What to do', isLong: true }] : []),
    ],
    rows.map(({ name, value, sample = null, advice = null }) => [
      html`<code>${name}</code>`,
      value,
      sample,
      ...(isAdvised ? [advice] : []),
    ]),
  );
}

const tableHtml = ({ caption, columns, rows }: Table): Html =>
  cellsHtml(
    caption,
    columns,
    rows.map(({ cells: [name = '', ...cells], note }) => [
      note === undefined ? name : [name, html`<p class="muted">${note.text}</p>`],
      ...cells,
    ]),
  );

/** Scrolls by itself if wider than the page. */
function cellsHtml(caption: string, columns: Table['columns'], rows: readonly (readonly Piece[])[]): Html {
  return scrolling(
    caption,
    html`<table>
<caption class="unseen">${caption}</caption>
<thead><tr>${columns.map((column) => html`<th scope="col"${classOf(column)}>${column.name}</th>`)}</tr></thead>
<tbody>${rows.map(
      ([name = null, ...cells]) => html`<tr><th scope="row" dir="auto">${name}</th>${cells.map(
        (cell, i) => html`<td dir="auto"${classOf(columns[i + 1])}${labelOf(columns[i + 1])}>${cell}</td>`,
      )}</tr>
`,
    )}</tbody>
</table>`,
  );
}

/** Names of a readable grid, and pairs to show if there are more. */
const MOST_NAMES = 20;
const MOST_PAIRS = 100;
const SHADES = 5;

function matrixHtml(matrix: Matrix): Html {
  const { caption, names, across, down, counts } = matrix;
  if (across.length > MOST_NAMES) {
    const pairs = mixedUp(matrix).slice(0, MOST_PAIRS);
    return cellsHtml(
      `${caption}: those that differ, the most frequent first`,
      [...names.map((name) => ({ name })), { name: 'rows', isNumber: true }],
      pairs.map(({ from, to, rows }) => [from, to, count(rows)]),
    );
  }
  const most = Math.max(1, ...counts.flat());
  const shade = (rows: number): number => (rows === 0 ? 0 : Math.ceil((rows / most) * SHADES));
  return html`<div class="matrix">${scrolling(
    caption,
    html`<table>
<caption class="unseen">${caption}</caption>
<thead><tr><td>${names[0]} ↓ ${names[1]} →</td>${across.map((name) => html`<th scope="col" dir="auto">${name}</th>`)}</tr></thead>
<tbody>${down.map(
      (name, i) => html`<tr><th scope="row" dir="auto">${name}</th>${across.map((other, j) => {
        const rows = counts[i]?.[j] ?? 0;
        return html`<td class="${name === other ? 'same' : 'other'}" data-shade="${shade(rows)}">${count(rows)}</td>`;
      })}</tr>
`,
    )}</tbody>
</table>`,
  )}</div>`;
}

function sharesHtml(parts: readonly (readonly [name: string, rows: number])[]): Html {
  const total = Math.max(
    1,
    parts.reduce((sum, [, rows]) => sum + rows, 0),
  );
  let x = 0;
  const bars = parts.map(([name, rows]) => {
    const width = (100 * rows) / total;
    x += width;
    return html`<rect data-kind="${name}" x="${x - width}" width="${width}" height="1"/>`;
  });
  const entries = parts
    .filter(([, rows]) => rows > 0)
    .map(([name, rows]) => html`<li><i data-kind="${name}"></i>${name} ${percent(rows, total)}</li>`);
  return html`<svg class="stack" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">${bars}</svg>
<ul class="legend" aria-hidden="true">${entries}</ul>
`;
}

async function chartHtml(chart: Chart): Promise<Html> {
  const { caption, columns, rows } = chartTable(chart);
  return html`<figure>
<figcaption><h3>${chart.title}</h3><p class="muted">${chart.description}</p></figcaption>
${await pictureOf(chart)}
${legend(chart)}
<details><summary>The figures of this chart</summary>${cellsHtml(
    caption,
    columns,
    rows.map(({ cells }) => cells),
  )}</details>
</figure>
`;
}

/** One line needs no legend: title and axis say what it is. */
function legend({ series, limit = null }: Chart): Html | null {
  if (series.length === 1 && limit === null) return null;
  return html`<ul class="legend">${series.map(({ name, kind }) => html`<li><i data-kind="${kind}"></i>${name}</li>`)}${
    limit === null ? null : html`<li><i data-kind="limit"></i>allowed: ${count(limit)}</li>`
  }</ul>`;
}

interface PageColumn extends Omit<RowTable['columns'][number], 'within' | 'isNamed'> {
  /** Indexes of its cells in a row. */
  readonly places: readonly number[];
}

/** Complete without scripts; with them it can be sorted, searched and paged. */
function rowsHtml({ caption, columns, rows, records = rows.length }: RowTable): Html {
  const shown = pageColumns({ columns, rows });
  const cellOf = (cells: readonly string[], { places: [first = 0, ...others] }: PageColumn): Piece => {
    if (columns[first]?.within === undefined) return cells[first] ?? '';
    return [first, ...others].flatMap((place) => {
      const { [place]: cell = '' } = cells;
      const { name = '', isNamed = false } = columns[place] ?? {};
      return cell === ''
        ? []
        : html`<span dir="auto">${isNamed ? html`<b>${name}</b> ` : null}${cell}</span> `;
    });
  };
  const classes = shown.map(classOf);
  const all = html`<button type="button" aria-pressed="true">all ${count(records)}</button>
`;
  return html`<div class="rows">
<div class="tools" hidden>
${shown.map(({ name, isOutcome, choices = [] }, i) =>
  choices.length === 0
    ? null
    : html`<fieldset><legend>${name}</legend><div class="choices" data-column="${i}">${isOutcome ? all : null}${chips(choices)}</div></fieldset>
`,
)}<label>Search these rows <input type="search" autocomplete="off" spellcheck="false"></label>
<p class="missing" role="alert"></p>
</div>
<table>
<caption class="unseen">${caption}</caption>
<thead><tr>${shown.map(({ name }, i) => html`<th scope="col"${classes[i] ?? null}>${name}</th>`)}</tr></thead>
<tbody>${rows.map(
    ({ cells }) => html`<tr>${shown.map((column, i) => {
      const cell = cellOf(cells, column);
      const label = html`${classes[i] ?? null} data-label="${column.name}"`;
      if (column.isRow)
        return html`<th scope="row"${label}><a id="row-${cell}" href="#row-${cell}">${cell}</a></th>`;
      if (i === 0) return html`<th scope="row"${label}>${cell}</th>`;
      return html`<td dir="auto"${label}>${column.isOutcome && cell !== '' ? html`<i data-kind="${cell}"></i>` : null}${cell}</td>`;
    })}</tr>
`,
  )}</tbody>
</table>
</div>`;
}

/** Few columns fit a page: some hold several cells, and empty ones are left out. */
function pageColumns({ columns, rows }: Pick<RowTable, 'columns' | 'rows'>): PageColumn[] {
  const shown = new Map<string, PageColumn>();
  for (const [place, { within, isNamed: _, ...column }] of columns.entries()) {
    if (!rows.some(({ cells }) => (cells[place] ?? '') !== '')) continue;
    if (within === undefined) shown.set(`${place}`, { ...column, places: [place] });
    else {
      const places = [...(shown.get(within)?.places ?? []), place];
      shown.set(within, { name: within, isLong: true, places });
    }
  }
  return [...shown.values()];
}

function chips(choices: NonNullable<RowTable['columns'][number]['choices']>): Html {
  const some = (from: number, to?: number) =>
    choices.slice(from, to).map(
      ({ value, rows }) =>
        html`<button type="button" data-choice="${value}" data-rows="${rows}" aria-pressed="false">${value} ${count(rows)}</button>
`,
    );
  const rest = choices.length - SEEN_AT_ONCE;
  if (rest <= 3) return html`${some(0)}`;
  return html`${some(0, SEEN_AT_ONCE)}<details><summary>${count(rest)} more</summary>${some(SEEN_AT_ONCE)}</details>`;
}

/** Shown on a phone, where the head of the column is hidden. */
const labelOf = ({ name = '', isLong = false }: Partial<PageColumn> = {}): Html | null =>
  isLong ? html` data-label="${name}"` : null;

const scrolling = (name: string, content: Html): Html =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="${name}">${content}</div>`;

function classOf({ isNumber, isLong, isOutcome }: Partial<PageColumn> = {}): Html | null {
  const names = [isNumber && 'number', isLong && 'long', isOutcome && 'outcome'].filter(
    (name) => typeof name === 'string',
  );
  return names.length === 0 ? null : html` class="${names.join(' ')}"`;
}
