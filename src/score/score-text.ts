import { count, counted, percent } from '../figures.js';
import { isMarked } from '../output/output-name.js';
import { LEAST_ANSWERED } from '../report/require.js';
import { scoreLines } from '../report/score-lines.js';
import { REHEARSAL } from '../report/terminal.js';
import { bodyWidth, flow, painter, plain, sectionLines } from '../report/terminal-text.js';
import type { ScoreReport } from './score-output.js';

/** How to show scores to a person. */
interface ScoreTextOptions {
  /** Columns of the terminal; 50 is the least that stays readable. */
  readonly width: number;
  /** Whether to colour; the caller knows the stream and `NO_COLOR`. */
  readonly color: boolean;
}

/** The report as text of several lines for a terminal, ending in a line feed. */
export function renderScore(report: ScoreReport, { width: columns, color }: ScoreTextOptions): string {
  const width = bodyWidth(columns);
  const paint = painter(color);
  const { output, records, gold, scores, notes } = report;
  const against = `${counted(records, 'record')}, right answers in ${gold.join(', ')}`;
  const lines = [
    paint('bold', `${plain(output)}${isMarked(output, 'emulated') ? REHEARSAL : ''}`),
    ...flow(plain(against).split(' '), ' ', columns),
    '',
    ...sectionLines(
      [
        ['scores', scoreLines(scores, width)],
        ['abstention', abstentionLines(report, width)],
        ['notes', notes.flatMap((note) => flow(plain(note).split(' '), ' ', width))],
      ],
      columns,
      paint,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

function abstentionLines({ abstention }: ScoreReport, width: number): string[] {
  if (abstention === null) return [];
  const head = ['abstain_below', 'answered', 'accuracy'];
  const body = abstention.thresholds.map(({ threshold, coverage, accuracy }) => [
    threshold.toFixed(2),
    share(coverage),
    accuracy === null ? '' : `${share(accuracy.value)} (${share(accuracy.low)} to ${share(accuracy.high)})`,
  ]);
  const widths = head.map((_, i) => Math.max(...[head, ...body].map((line) => (line[i] ?? '').length)));
  const table = [head, ...body].map((line) =>
    line
      .map((cell, i) => (i === 2 ? cell : cell.padStart(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
  const sentences = abstention.targets.map(({ accuracy, reached }) => {
    const target = `${Number((accuracy * 100).toFixed(6))} % accuracy`;
    if (reached?.accuracy == null)
      return `no threshold with ${LEAST_ANSWERED} rows with gold above it reaches ${target}`;
    const { threshold, coverage, answered, accuracy: got } = reached;
    return (
      `at ${target} ${share(coverage)} of the rows are answered: ${threshold === 0 ? 'every label may stay' : `abstain_below ${threshold}`} ` +
      `(${count(answered)} rows with ${share(got.value)}, ${share(got.low)} to ${share(got.high)})`
    );
  });
  return [...table, ...sentences.flatMap((sentence) => flow(sentence.split(' '), ' ', width))];
}

const share = (value: number): string => percent(value, 1);
