import { count, percent } from '../figures.js';
import { htmlPage, type PageSection } from '../report/page/html-page.js';
import { type Html, html } from '../report/page/markup.js';
import { figureTable, matrixTable, rowTable } from '../report/page/tables.js';
import type { ChangedRows, CompareReport } from './compare-outputs.js';
import { changesOf, figuresOf, namesOf, rowsText, sideName, verdict } from './compare-text.js';
import type { Transitions } from './pairs.js';

/** Answers with which a matrix is still looked at; of more, the changes are listed. */
const MOST_NAMES = 20;
/** Changes that are listed. */
const MOST_CHANGES = 100;

/** What `promptmill compare` says, as one HTML page that loads nothing. A section without figures is left out. */
export function renderComparePage(report: CompareReport, changed: ChangedRows): string {
  const sections: (PageSection | null)[] = [
    { id: 'answers', title: 'Answers', body: transitionPart(report.transitions) },
    partSection(report),
    figureSection(report),
    rowSection(report, changed),
  ];
  return htmlPage({
    title: 'What has changed',
    lead: html`<p class="under">a: ${sideName(report.a)}</p>
<p class="under">b: ${sideName(report.b)}</p>
<div class="verdict" data-state="${report.changed === 0 ? 'good' : 'warn'}">
<p><strong>${verdict(report)}</strong></p>
<p>${rowsText(report)}</p>
</div>`,
    sections: sections.filter((section) => section !== null),
    footer: html`<p>Written by Promptmill. Everything in it is in this one file.</p>`,
  });
}

function transitionPart(transitions: Transitions): Html {
  const names = namesOf(transitions);
  if (names.length <= MOST_NAMES) {
    return matrixTable({
      caption: 'Rows by their answer in a, down, and in b, across',
      corner: 'a ↓ b →',
      across: names,
      down: names,
      counts: names.map((from) =>
        names.map((to) => (Object.hasOwn(transitions, from) ? (transitions[from]?.[to] ?? 0) : 0)),
      ),
    });
  }
  return figureTable({
    caption: 'The most frequent changes',
    columns: [{ name: 'Answer in a' }, { name: 'Answer in b' }, { name: 'Rows', number: true }],
    rows: changesOf(transitions)
      .slice(0, MOST_CHANGES)
      .map(({ from, to, rows }) => [from, to, count(rows)]),
  });
}

function partSection({ parts, transitions }: CompareReport): PageSection | null {
  if (parts === null) return null;
  const title = transitions['valid'] === undefined ? 'Labels' : 'Properties';
  const body = figureTable({
    caption: title,
    columns: [
      { name: 'Name' },
      { name: 'The same', number: true },
      { name: 'Changed', number: true },
      { name: 'Kappa', number: true },
    ],
    rows: Object.entries(parts)
      .sort(([, a], [, b]) => b.changed - a.changed)
      .map(([name, { agreement, changed, kappa }]) => [
        name,
        agreement === null ? '' : percent(agreement, 1),
        count(changed),
        kappa === null ? '' : kappa.toFixed(3),
      ]),
  });
  return { id: 'parts', title, body };
}

function figureSection(report: CompareReport): PageSection | null {
  const rows = figuresOf(report);
  if (rows.length === 0) return null;
  const columns = [
    { name: 'Figure' },
    { name: 'a', number: true },
    { name: 'b', number: true },
    { name: 'Difference', number: true },
  ];
  return {
    id: 'figures',
    title: 'Figures',
    body: figureTable({ caption: 'Figures of both', columns, rows }),
  };
}

function rowSection({ changed }: CompareReport, { columns, rows }: ChangedRows): PageSection | null {
  if (rows.length === 0) return null;
  const title =
    rows.length < changed ? `The first ${count(rows.length)} rows that changed` : 'Rows that changed';
  const body = rowTable({
    caption: title,
    columns: columns.map((name) => ({ name: name.replace('_', ' '), long: name.startsWith('text') })),
    rows,
  });
  return { id: 'rows', title, body };
}
