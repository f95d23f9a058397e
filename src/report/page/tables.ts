import { count } from '../../figures.js';
import { type Html, html, type Piece } from './markup.js';

/** A column of a table. */
interface TableColumn {
  readonly name: string;
  /** Its cells are numbers, and stand at the right. @default false */
  readonly number?: boolean;
  /** Its cells are texts of any length. @default false */
  readonly long?: boolean;
}

export interface Table {
  /** What the table shows: read out, and not seen where the heading says it. */
  readonly caption: string;
  readonly columns: readonly TableColumn[];
  /** The first cell of each row is its name. */
  readonly rows: readonly (readonly Piece[])[];
}

/** A table of figures. It scrolls by itself where it is wider than the page. */
export function figureTable({ caption, columns, rows }: Table): Html {
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

/** A square of counts, darker where there are more: those in the diagonal are right. */
export function matrixTable({
  caption,
  corner,
  across,
  down,
  counts,
}: {
  readonly caption: string;
  readonly corner: string;
  readonly across: readonly string[];
  readonly down: readonly string[];
  readonly counts: readonly (readonly number[])[];
}): Html {
  const most = Math.max(1, ...counts.flat());
  const shade = (rows: number): number => (rows === 0 ? 0 : Math.ceil((rows / most) * SHADES));
  return html`<div class="matrix">${scrolling(
    caption,
    html`<table>
<caption class="unseen">${caption}</caption>
<thead><tr><td>${corner}</td>${across.map((name) => html`<th scope="col" dir="auto">${name}</th>`)}</tr></thead>
<tbody>${down.map(
      (name, i) => html`<tr><th scope="row" dir="auto">${name}</th>${across.map((other, j) => {
        const rows = counts[i]?.[j] ?? 0;
        return html`<td class="${name === other ? 'same' : 'other'}-${shade(rows)}">${count(rows)}</td>`;
      })}</tr>
`,
    )}</tbody>
</table>`,
  )}</div>`;
}

/** Steps of colour of a matrix, as the style has them. */
const SHADES = 5;

/** A table of rows of an output: whole as it is written, and to be sorted, searched and paged where scripts run. */
export interface RowTable {
  readonly caption: string;
  /** `choice`: one of few names; a reader can see the rows of one alone. */
  readonly columns: readonly (TableColumn & { readonly choice?: boolean })[];
  /** The first cell of each row is its name. */
  readonly rows: readonly (readonly Piece[])[];
}

export function rowTable({ caption, columns, rows }: RowTable): Html {
  const classes = columns.map(classOf);
  return html`<div class="rows">
<div class="tools" hidden>
${columns.flatMap(({ name, choice }, i) =>
  choice
    ? choicesOf(
        name,
        rows.map((cells) => String(cells[i])),
      )
    : [],
)}
<label>Search these rows <input type="search" autocomplete="off" spellcheck="false"></label>
</div>
<table>
<caption class="unseen">${caption}</caption>
<thead><tr>${columns.map(({ name }, i) => html`<th scope="col"${classes[i] ?? null}>${name}</th>`)}</tr></thead>
<tbody>${rows.map(
    ([
      name = null,
      ...cells
    ]) => html`<tr><th scope="row"${classes[0] ?? null} data-label="${columns[0]?.name ?? ''}">${name}</th>${cells.map(
      (cell, i) => {
        const { name = '', choice = false } = columns[i + 1] ?? {};
        const mark = choice ? html`<i data-kind="${cell}"></i>` : null;
        return html`<td dir="auto"${classes[i + 1] ?? null} data-label="${name}">${mark}${cell}</td>`;
      },
    )}</tr>
`,
  )}</tbody>
</table>
</div>`;
}

function choicesOf(title: string, values: readonly string[]): Html {
  const counts = new Map<string, number>([['', values.length]]);
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return html`<fieldset><legend>${title}</legend><div class="choices">${[...counts].map(
    ([value, rows]) =>
      html`<button type="button" data-choice="${value}" aria-pressed="${value === '' ? 'true' : 'false'}">${value === '' ? 'all' : value} ${count(rows)}</button>
`,
  )}</div></fieldset>`;
}

/** What a text is called on a phone, where the head of its column is not shown. */
const labelOf = ({ name, long }: Partial<TableColumn> = {}): Html | null =>
  long ? html` data-label="${name ?? ''}"` : null;

/** Can be scrolled with a keyboard as well. */
const scrolling = (name: string, content: Html): Html =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="${name}">${content}</div>`;

function classOf({ number, long, choice }: Partial<RowTable['columns'][number]> = {}): Html | null {
  const names = [number && 'number', long && 'long', choice && 'choice'].filter(
    (name) => typeof name === 'string',
  );
  return names.length === 0 ? null : html` class="${names.join(' ')}"`;
}
