import { cost, count, duration, moment, percent, rate } from '../../figures.js';
import type { RunReport } from '../run-report.js';
import type { Scores } from '../scores.js';
import type { ReportSection } from '../sections.js';
import { calledPerSecond, outcomeParts } from '../summary.js';
import { jobTitle } from '../terminal.js';
import { chartFigure } from './charts.js';
import { htmlPage, type PageSection } from './html-page.js';
import { type Html, html } from './markup.js';
import { type ChartId, runCharts } from './run-charts.js';
import { figureTable, matrixTable, type RowTable, rowTable } from './tables.js';

/** The report as one HTML file that loads nothing. A section without figures is left out. */
export async function renderHtml(report: RunReport): Promise<string> {
  const { summary } = report;
  const placed = new Set(['errors']);
  const part = (id: string): Html | null => {
    placed.add(id);
    return partOf(report.sections.find((one) => one.id === id));
  };
  const charts = new Map<string, Html>();
  for (const chart of runCharts(report)) charts.set(chart.id, await chartFigure(chart));
  const chart = (id: ChartId): Html | null => charts.get(id) ?? null;
  const sections = [
    section('answers', 'Answers and scores', [
      grid(part('answers'), part('scores'), part('sources'), part('finish_reasons')),
      grid(confusionPart(report.charts.confusion), chart('reliability'), chart('coverage')),
    ]),
    section('errors', 'Errors', [errorTable(report.sections.find(({ id }) => id === 'errors'))]),
    section('filter', 'Content filter', [grid(part('prompt_filter'), part('completion_filter'))]),
    section('cost', 'Tokens, money and time', [
      grid(
        ...[chart('rows-over-time'), chart('latency-over-time'), part('latency')],
        ...[
          chart('tokens-over-time'),
          part('tokens'),
          chart('calls-over-time'),
          part('calls'),
          part('quota'),
          part('reused'),
        ],
      ),
    ]),
    section('last', 'Since the last run', [grid(part('last_run'))]),
    section('others', 'Further figures', [
      grid(...report.sections.filter(({ id }) => !placed.has(id)).map(partOf)),
    ]),
    section('settings', 'Run, prompt and settings', [
      factsPart('Run', report.facts),
      factsPart('Settings', report.settings),
      promptPart(report.prompt),
    ]),
    section('rows', 'Rows', [rowsPart(report)]),
  ];
  return htmlPage({
    title: jobTitle(summary),
    lead: leadOf(report),
    sections: sections.filter((each) => each !== null),
    footer: html`<p>Report of run ${summary.run}, written by Promptmill. Everything in it is in this one file.</p>`,
  });
}

type ReportTable = NonNullable<RunReport['table']>;

/** What most readers come for: how it ended, what to do, and the main figures. */
function leadOf({ verdict, reconciliation, summary }: RunReport): Html {
  const state = STATES[verdict.state];
  const total = Math.max(1, summary.rows.total);
  const parts = outcomeParts(summary);
  let x = 0;
  const bars = parts.map(([name, rows]) => {
    const width = (100 * rows) / total;
    x += width;
    return html`<rect data-kind="${name}" x="${x - width}" width="${width}" height="1"/>`;
  });
  return html`<p class="under">${summary.deployment}, <time datetime="${summary.finished_at}">${moment(summary.finished_at)}</time></p>
<div class="verdict" data-state="${state}">
<p><strong>${reconciliation}</strong></p>
<p>${verdict.text}</p>
${verdict.next.map(({ text, command }) => html`<p>${text}${command === null ? null : html` <code>${command}</code>`}</p>`)}
</div>
<svg class="stack" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">${bars}</svg>
<ul class="legend" aria-hidden="true">${parts
    .filter(([, rows]) => rows > 0)
    .map(([name, rows]) => html`<li><i data-kind="${name}"></i>${name} ${percent(rows, total)}</li>`)}</ul>
<dl class="figures">${mainFigures(summary).map(
    ([
      name,
      value,
      more,
    ]) => html`<div><dt>${name}</dt><dd>${value}${more === undefined ? null : html` <span class="muted">${more}</span>`}</dd></div>
`,
  )}</dl>`;
}

const STATES = {
  finished: 'good',
  some_failed: 'warn',
  some_invalid: 'warn',
  missed: 'bad',
  stopped: 'bad',
} as const satisfies Record<RunReport['verdict']['state'], string>;

function mainFigures(summary: RunReport['summary']): [name: string, value: string, more?: string][] {
  const { scores, usage, latency_ms, cost: price } = summary;
  return [
    ...(scores?.accuracy
      ? [['Accuracy', percent(scores.accuracy.value, 1), accuracyNote(scores)] as [string, string, string]]
      : []),
    ['Tokens', count(usage.total_tokens)],
    ...(price === null ? [] : [['Cost', cost(price)] as [string, string]]),
    ['Duration', duration(summary.duration_s)],
    ['Speed', rate(calledPerSecond(summary), ' rows')],
    ...(latency_ms.p50 === null
      ? []
      : [['Median latency', duration(latency_ms.p50 / 1000)] as [string, string]]),
  ];
}

/** A label that was left out counts as a wrong one, so the accuracy alone would mislead. */
function accuracyNote({ abstained, accuracy, answered_accuracy: answered }: Scores): string {
  if (abstained > 0 && answered !== null) return `${percent(answered, 1)} of those answered`;
  return accuracy === null ? '' : `${percent(accuracy.low, 1)} to ${percent(accuracy.high, 1)}`;
}

/** Null where it has nothing in it. */
function section(id: string, title: string, body: readonly (Html | null)[]): PageSection | null {
  const parts = body.filter((part) => part !== null);
  return parts.length === 0 ? null : { id, title, body: html`${parts}` };
}

/** What is there of these, beside each other where there is room. */
function grid(...parts: readonly (Html | null)[]): Html | null {
  return parts.every((part) => part === null) ? null : html`<div class="grid">${parts}</div>`;
}

/** Rows of a table that are seen at once; the others are folded away. */
const SEEN_AT_ONCE = 12;

/** Sections whose bars are compared with each other, so the longest is as long as there is room; others are parts of a whole. */
const DISTRIBUTIONS: ReadonlySet<string> = new Set(['answers', 'sources', 'finish_reasons']);

function partOf(section: ReportSection | undefined): Html | null {
  if (section === undefined) return null;
  const { title, rows } = section;
  const most = DISTRIBUTIONS.has(section.id) ? Math.max(...rows.map(({ fraction }) => fraction ?? 0)) : 1;
  const hasBars = rows.some(({ fraction }) => fraction !== null);
  const table = (some: ReportSection['rows']): Html =>
    html`<table><caption class="unseen">${title}</caption><tbody>${some.map(
      ({
        name,
        value,
        percent,
        fraction,
      }) => html`<tr><th scope="row" dir="auto">${name}</th><td class="${value.length <= 20 ? 'number' : 'value'}">${value}</td>${
        fraction === null
          ? hasBars
            ? html`<td></td><td></td>`
            : null
          : html`<td class="number">${percent}</td><td class="bar"><svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect data-kind="first" width="${(100 * fraction) / most}" height="1"/></svg></td>`
      }</tr>
`,
    )}</tbody></table>`;
  const rest = rows.length - SEEN_AT_ONCE;
  return html`<section class="part"><h3>${title}</h3>${
    rest <= 3
      ? table(rows)
      : html`${table(rows.slice(0, SEEN_AT_ONCE))}<details><summary>${count(rest)} more</summary>${table(rows.slice(SEEN_AT_ONCE))}</details>`
  }</section>
`;
}

function errorTable(errors: ReportSection | undefined): Html | null {
  if (errors === undefined) return null;
  const advised = errors.rows.some(({ advice }) => advice !== undefined);
  return figureTable({
    caption: 'Errors, with a message of each',
    columns: [
      { name: 'Error' },
      { name: 'Rows', number: true },
      { name: 'One of the messages', long: true },
      ...(advised ? [{ name: 'What to do', long: true }] : []),
    ],
    rows: errors.rows.map(({ name, value, sample = null, advice = null }) => [
      html`<code>${name}</code>`,
      value,
      sample,
      ...(advised ? [advice] : []),
    ]),
  });
}

/** Labels that a square of them stays readable with. */
const MOST_LABELS = 20;
/** Pairs of labels that are shown where there are more. */
const MOST_PAIRS = 25;

function confusionPart(confusion: RunReport['charts']['confusion']): Html | null {
  if (confusion === null) return null;
  const { right, answered, counts } = confusion;
  if (answered.length <= MOST_LABELS) {
    // A row of its own: a column of the grid is too narrow for the counts of three labels.
    return html`<section class="part wide"><h3>Right label and answer</h3>${matrixTable({
      caption: 'Rows by their right label, down, and the answer, across',
      corner: 'right ↓ answer →',
      across: answered,
      down: right,
      counts,
    })}</section>`;
  }
  const pairs = right
    .flatMap((label, i) => answered.map((said, j) => ({ label, said, rows: counts[i]?.[j] ?? 0 })))
    .filter(({ label, said, rows }) => rows > 0 && label !== said)
    .sort((a, b) => b.rows - a.rows);
  if (pairs.length === 0) return null;
  return html`<section class="part wide"><h3>Labels that are taken for others most often</h3>${figureTable({
    caption: 'Labels that are taken for others most often',
    columns: [{ name: 'Right label' }, { name: 'Answer' }, { name: 'Rows', number: true }],
    rows: pairs.slice(0, MOST_PAIRS).map(({ label, said, rows }) => [label, said, count(rows)]),
  })}</section>`;
}

function factsPart(title: string, facts: RunReport['facts']): Html | null {
  if (facts.length === 0) return null;
  return html`<section class="part"><h3>${title}</h3><dl class="facts">${facts.map(
    ([name, value]) => html`<dt>${name}</dt><dd dir="auto">${value}</dd>
`,
  )}</dl></section>`;
}

function promptPart(prompt: string | null): Html | null {
  if (prompt === null) return null;
  return html`<section class="part"><h3>Prompt template</h3><pre dir="auto">${prompt}</pre></section>`;
}

function rowsPart({ table, table_note: note }: RunReport): Html | null {
  if (table === null) return note === null ? null : html`<p>${note}</p>`;
  if (table.rows.length === 0) return null;
  return html`<p class="prose">${whichRows(table)}</p>${rowTable(rowsOf(table))}`;
}

function whichRows({ rows, records, is_cut }: ReportTable): string {
  if (rows.length === records) return `All ${count(records)} rows of the output.`;
  const which = is_cut
    ? 'as many as fit of those that need a look'
    : 'all that need a look, and a sample of the others';
  return `${count(rows.length)} of the ${count(records)} rows of the output: ${which}.`;
}

/** Columns that say what came of a row; the others are values of the row. */
const CAME = ['text', 'error_code', 'error_message'];
/** Columns of their own, where a row has something in them. */
const OWN = ['answer', 'confidence'];

function rowsOf({ columns, rows }: ReportTable): RowTable {
  const cellOf = (cells: readonly string[], name: string): string => cells[columns.indexOf(name)] ?? '';
  const isUsed = (name: string): boolean => rows.some(({ cells }) => cellOf(cells, name) !== '');
  const own = OWN.filter(isUsed);
  const others = columns.filter((name) => !own.includes(name) && !CAME.includes(name) && isUsed(name));
  const came = CAME.some(isUsed);
  return {
    caption: 'Rows of the output',
    columns: [
      { name: 'Row', number: true },
      { name: 'Outcome', choice: true },
      ...own.map((name) => ({ name: sentence(name) })),
      ...(came ? [{ name: 'Text or error', long: true }] : []),
      ...(others.length === 0 ? [] : [{ name: 'Values', long: true }]),
    ],
    rows: rows.map(({ row, outcome, cells }) => {
      const [text, code, message] = CAME.map((name) => cellOf(cells, name));
      return [
        row,
        outcome,
        ...own.map((name) => cellOf(cells, name)),
        ...(came
          ? [
              [
                text ? html`<div dir="auto">${text}</div>` : null,
                code ? html`<div dir="auto"><code>${code}</code> ${message ?? ''}</div>` : null,
              ],
            ]
          : []),
        ...(others.length === 0
          ? []
          : [
              others
                .filter((name) => cellOf(cells, name) !== '')
                .map((name) => html`<span dir="auto"><b>${name}</b> ${cellOf(cells, name)}</span> `),
            ]),
      ];
    }),
  };
}

const sentence = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');
