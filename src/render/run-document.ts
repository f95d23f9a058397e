import type { Scores } from '../account/scores.js';
import { calledPerSecond, outcomeParts, type StoredSummary, type Summary } from '../account/summary.js';
import { periodsOf } from '../account/timeline.js';
import { cost, count, duration, moment, percent, progressText, rate, sampleText } from '../core/figures.js';
import {
  type Block,
  type Chapter,
  command,
  type Document,
  type Figure,
  facts,
  figure,
  figures,
  type LeadPart,
  list,
  type RowTable,
  type Section,
  section,
  text,
} from './document.js';
import type { ExampleTexts } from './example-texts.js';
import { isToLookAt, type ReportTable, TO_LOOK_AT } from './report-rows.js';
import { runCharts } from './run-charts.js';
import type { RunReport } from './run-report.js';
import { jobTitle, reconciliation, shortfall } from './run-words.js';
import { furtherSections, summarySections } from './sections.js';

/** `[['output', 'out/reviews.csv'], …]` */
type Files = readonly (readonly [name: string, path: string])[];

interface SummaryOptions {
  readonly files: Files;
  /** The command that resumes a stopped run; `null` if nothing is left to resume. */
  readonly resume: string | null;
  /** Rows that a resumed run does not call again. @default those of the summary */
  readonly kept?: number;
  /** @default only the numbers of rows are shown */
  readonly examples?: ExampleTexts;
}

const REST = "in the summary's file";

export function summaryDocument(
  summary: Summary,
  { files, resume, kept = 0, examples }: SummaryOptions,
): Document {
  const written = summary.rows.total;
  const goOn = resume === null ? [] : [text('Resume with:'), command(resume)];
  return {
    title: jobTitle(summary),
    lead: [
      ...beginning(summary),
      {
        blocks: [
          text(shortfall(summary), { style: 'warning' }),
          ...(summary.stopped === null
            ? []
            : [text(kept > written ? progressText(kept, written) : ''), ...goOn]),
        ],
      },
    ],
    sections: [...summarySections(summary, examples), fileSection(files)],
    rest: REST,
  };
}

function beginning(summary: Summary, tone?: LeadPart['tone']): LeadPart[] {
  const { deployment, finished_at, sample, rows, beyond = 0 } = summary;
  return [
    { in: ['terminal'], blocks: [list([jobTitle(summary), `deployment ${deployment}`])] },
    { in: ['html'], blocks: [text(`${deployment}, ${moment(finished_at)}`, { style: 'muted' })] },
    {
      ...(tone !== undefined && { tone }),
      blocks: [text(reconciliation(summary), { style: 'strong', isWhole: true })],
    },
    ...(sample ? [{ blocks: [text(sampleText(sample, rows.total, rows.total + beyond))] }] : []),
  ];
}

const fileSection = (files: Files): Section =>
  section('files', 'Files', [facts(files)], { in: ['terminal'] });

const CHAPTERS: readonly Chapter[] = [
  { id: 'answers', title: 'Answers and scores' },
  { id: 'errors', title: 'Errors' },
  { id: 'filter', title: 'Content filter' },
  { id: 'cost', title: 'Tokens, money and time' },
  { id: 'last', title: 'Since the last run' },
  { id: 'settings', title: 'Run, prompt and settings' },
  { id: 'rows', title: 'Rows' },
];

const SETTINGS = { chapter: 'settings', in: ['html', 'markdown'] } as const;

const TONES = {
  finished: 'good',
  some_failed: 'warn',
  some_invalid: 'warn',
  missed: 'bad',
  stopped: 'bad',
} as const satisfies Record<RunReport['verdict']['state'], LeadPart['tone']>;

export function runDocument(report: RunReport, files: Files = []): Document {
  const { summary, verdict } = report;
  const tone = TONES[verdict.state];
  const next = verdict.next.flatMap(({ text: what, command: typed }) => [
    text(what),
    ...(typed === null ? [] : [command(typed)]),
  ]);
  return {
    title: jobTitle(summary),
    lead: [
      ...beginning(summary, tone),
      { in: ['terminal'], blocks: [text(shortfall(summary), { style: 'warning' })] },
      { in: ['html', 'markdown'], tone, blocks: [text(verdict.text), ...next] },
      { in: ['html'], blocks: [{ kind: 'shares', parts: outcomeParts(summary) }, largeFigures(summary)] },
    ],
    sections: [
      ...summarySections(summary, report.examples),
      fileSection(files),
      section('advice', 'What to do', adviceTexts(report), { in: ['terminal'] }),
      ...furtherSections(summary),
      overTime(summary),
      ...chartSections(report),
      section('run', 'Run', [facts(report.facts)], SETTINGS),
      section('settings', 'Settings', [facts(report.settings)], SETTINGS),
      section('prompt', 'Prompt template', [{ kind: 'code', text: report.prompt ?? '' }], SETTINGS),
      section('rows', 'Rows', rowBlocks(report), { chapter: 'rows' }),
      section('next', 'Next', next, { in: ['terminal'] }),
    ],
    chapters: CHAPTERS,
    rest: REST,
    footer: `Report of run ${summary.run}, written by Promptmill. Everything in it is in this one file.`,
  };
}

function largeFigures(summary: StoredSummary): Block {
  const { scores, usage, latency_ms, cost: price, currency, cost_per_1000_rows: perThousand } = summary;
  const { p50 } = latency_ms;
  const rows: Figure[] = [
    ...(scores?.accuracy
      ? [{ ...figure('Accuracy', percent(scores.accuracy.value, 1)), note: accuracyNote(scores) }]
      : []),
    figure('Tokens', count(usage.total_tokens)),
    ...(price === null
      ? []
      : [
          {
            ...figure('Cost', cost(price, currency)),
            ...(perThousand !== null && { note: `${cost(perThousand, currency)} for 1,000 rows` }),
          },
        ]),
    figure('Duration', duration(summary.duration_s)),
    figure('Speed', rate(calledPerSecond(summary), ' rows')),
    ...(p50 === null ? [] : [figure('Median latency', duration(p50 / 1000))]),
  ];
  return figures(rows, { form: 'large' });
}

/** An abstained label counts as wrong, so the accuracy alone would mislead. */
function accuracyNote({ abstained, accuracy, answered_accuracy: answered }: Scores): string {
  if (abstained > 0 && answered !== null) return `${percent(answered, 1)} of those answered`;
  return accuracy === null ? '' : `${percent(accuracy.low, 1)} to ${percent(accuracy.high, 1)}`;
}

const adviceTexts = ({ sections }: RunReport): Block[] =>
  (sections.find(({ id }) => id === 'errors')?.rows ?? []).map(({ name, advice }) =>
    text(advice === undefined ? '' : `${name}: ${advice}`),
  );

const PERIODS = 12;

function overTime({ details }: StoredSummary): Section {
  const names = ['from', 'rows', 'failed', 'tokens', 'calls', 'refused', 'mean latency'];
  const rows = periodsOf(details.timeline, PERIODS).map((point) => {
    const { rows, failed, sent, rate_limited, latency_mean_ms: latency } = point;
    const counts = [rows, failed, point.prompt_tokens + point.completion_tokens, sent, rate_limited];
    return {
      cells: [duration(point.from_s), ...counts.map(count), latency === null ? '' : duration(latency / 1000)],
    };
  });
  const columns = names.map((name, i) => ({ name, isNumber: i > 0 }));
  return section('over_time', 'Over time', [{ kind: 'table', caption: 'How the run went', columns, rows }], {
    in: ['terminal', 'markdown'],
  });
}

/** Charts over time are only pictures; the others have few figures, which Markdown lists. */
const chartSections = (report: RunReport): Section[] =>
  runCharts(report).map((chart) => {
    const isOfScores = chart.id === 'reliability' || chart.id === 'coverage';
    return section(chart.id, chart.title, [{ kind: 'chart', chart }], {
      chapter: isOfScores ? 'answers' : 'cost',
      in: isOfScores ? ['html', 'markdown'] : ['html'],
    });
  });

function rowBlocks({ table, table_note: note }: RunReport): Block[] {
  if (table === null) return [text(note ?? '')];
  const toSee = table.rows.filter(isToLookAt).length;
  const others = table.rows.length - toSee;
  return [
    text(`${count(toSee)} to look at, and a sample of ${count(others)} others, are in the HTML report`, {
      in: ['terminal'],
    }),
    text(table.rows.length === 0 ? '' : whichRows(table), { in: ['html'] }),
    rowTable(table),
  ];
}

function whichRows({ rows, records, outcomes }: ReportTable): string {
  if (rows.length === records) return `All ${count(records)} rows of the output.`;
  const kinds = TO_LOOK_AT.map((name) => ({
    ...{ name, all: outcomes[name] ?? 0 },
    shown: rows.filter(({ outcome }) => outcome === name).length,
  })).filter(({ all }) => all > 0);
  const cut = kinds.filter(({ all, shown }) => shown < all);
  const which = [
    ...cut.map(({ name, all, shown }) => `${count(shown)} of ${count(all)} ${name}`),
    ...(cut.length < kinds.length ? [`all ${cut.length > 0 ? 'others ' : ''}that need a look`] : []),
    'a sample of the rest',
  ];
  return `${count(rows.length)} of the ${count(records)} rows of the output: ${which.join(', ')}.`;
}

const TITLES = { prompt: 'In the prompt', came: 'Text or error', row: 'Other values' } as const;

function rowTable({ columns, rows, records, outcomes, answers }: ReportTable): RowTable {
  const ofPrompt = columns.filter(({ of }) => of === 'prompt').length;
  const choices = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).map(([value, rows]) => ({ value, rows }));
  const columnOf = ({ name, of }: ReportTable['columns'][number]): RowTable['columns'][number] => {
    if (name === 'answer')
      return { name: 'Answer', choices: choices(answers).sort((a, b) => b.rows - a.rows) };
    if (of === 'confidence') return { name: 'Confidence', isNumber: true };
    if (of === 'answer') return { name, within: 'Answer', isNamed: true };
    return { name, within: TITLES[of], isNamed: of === 'row' || (of === 'prompt' && ofPrompt > 1) };
  };
  const isGold = rows.some(({ gold }) => gold !== '');
  return {
    kind: 'rows',
    caption: 'Rows of the output',
    records,
    columns: [
      { name: 'Row', isNumber: true, isRow: true },
      { name: 'Outcome', isOutcome: true, choices: choices(outcomes) },
      ...(isGold ? [{ name: 'Gold' }] : []),
      ...columns.map(columnOf),
    ],
    rows: rows.map((row) => ({
      cells: [String(row.row), row.outcome, ...(isGold ? [row.gold] : []), ...row.cells],
      isToLookAt: isToLookAt(row),
    })),
  };
}
