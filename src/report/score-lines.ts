import { count, counted, percent } from '../figures.js';
import type { Abstention, Scores } from './scores.js';
import { cells, clip, flow, padEnd, plain, words } from './terminal-text.js';

/** Labels with which a matrix is still looked at; of more, the summary's file has it. */
const MOST_SHOWN = 6;
/** Cells that the name of a label takes at most. */
const NAME = 20;
/** Properties that are shown. */
const MOST_PROPERTIES = 15;

/** The scores as lines for a terminal. */
export function scoreLines(scores: Scores, width: number): string[] {
  const { rows, unanswered, left_out } = scores;
  return [
    ...flow(figures(scores), ', ', width),
    ...(scores.abstention === undefined ? [] : words(abstentionText(scores.abstention), width)),
    ...matrixLines(scores, width),
    ...propertyLines(scores, width),
    ...(rows > 0 && unanswered > 0
      ? words(
          `${counted(unanswered, 'more row')} with gold ${unanswered === 1 ? 'has' : 'have'} no answer`,
          width,
        )
      : []),
    ...(left_out === undefined ? [] : words(plain(left_out), width)),
  ];
}

/** `accuracy 91.2 % (88.4 % to 93.4 %) of 512 rows`, `macro F1 0.874`, `kappa 0.812`, … */
function figures(scores: Scores): string[] {
  const { rows, unanswered, accuracy, abstained, answered, answered_accuracy, macro_f1, kappa, brier, ece } =
    scores;
  if (accuracy === null) {
    return [
      unanswered === 0 ? 'no row with gold so far' : `no answer to ${counted(unanswered, 'row')} with gold`,
    ];
  }
  const ofAll = `accuracy ${share(accuracy.value)} (${share(accuracy.low)} to ${share(accuracy.high)})`;
  return [
    ...(abstained === 0
      ? [`${ofAll} of ${counted(rows, 'row')}`]
      : [
          `${count(answered)} of ${counted(rows, 'row')} with gold answered (${share(answered / rows)})`,
          ...(answered_accuracy === null ? [] : [`accuracy ${share(answered_accuracy)} of those`]),
          `${ofAll} of all`,
        ]),
    ...(macro_f1 === null ? [] : [`macro F1 ${macro_f1.toFixed(3)}`]),
    ...(kappa === null ? [] : [`kappa ${kappa.toFixed(3)}`]),
    ...(brier === null ? [] : [`Brier score ${brier.toFixed(3)}`]),
    ...(ece === null ? [] : [`calibration error ${ece.toFixed(3)}`]),
  ];
}

/** `at 95 % accuracy 83.0 % of the rows are answered (threshold 0.71, on 120 gold rows, 95 % interval 90.1 % to 97.8 %)` */
function abstentionText({ asked, threshold, rows, accuracy, coverage }: Abstention): string {
  const target = `${Number((asked * 100).toFixed(6))} % accuracy`;
  if (threshold === null || accuracy === null) return `${target} is reached by no threshold: no row abstains`;
  const interval = `${share(accuracy.low)} to ${share(accuracy.high)}`;
  return (
    `at ${target} ${share(coverage)} of the rows are answered (threshold ${threshold}, on ${count(rows)} gold rows, ` +
    `95 % interval ${interval})`
  );
}

const share = (value: number): string => percent(value, 1);

/** A line for each right label, a column for each answer; nothing where there are many or no room. */
function matrixLines({ labels, confusion }: Scores, width: number): string[] {
  const names = Object.keys(labels);
  if (names.length === 0 || names.length > MOST_SHOWN) return [];
  const known = new Set(names);
  const others = Object.values(confusion).flatMap((row) =>
    Object.keys(row).filter((name) => !known.has(name)),
  );
  const columns = [...names, ...new Set(others)];
  const head = ['gold \\ answer', ...columns.map((name) => clip(plain(name), NAME))];
  const body = names
    .filter((right) => Object.hasOwn(confusion, right))
    .map((right) => [
      clip(plain(right), NAME),
      ...columns.map((answered) => count(countOf(confusion[right] ?? {}, answered))),
    ]);
  const widths = head.map((_, i) => Math.max(...[head, ...body].map((line) => cells(line[i] ?? ''))));
  const lines = [head, ...body].map((line) =>
    line
      .map((cell, i) => (i === 0 ? padEnd(cell, widths[i] ?? 0) : padStart(cell, widths[i] ?? 0)))
      .join('  '),
  );
  return body.length > 0 && lines.every((line) => cells(line) <= width) ? lines : [];
}

/** By own property only: a label may be called `constructor`. */
const countOf = (row: { readonly [name: string]: number }, name: string): number =>
  Object.hasOwn(row, name) ? (row[name] ?? 0) : 0;

const padStart = (text: string, width: number): string => ' '.repeat(Math.max(0, width - cells(text))) + text;

/** `amount  98.3 % of 60 rows are exact` */
function propertyLines({ properties }: Scores, width: number): string[] {
  const all = Object.entries(properties);
  const shown = all
    .slice(0, MOST_PROPERTIES)
    .map(([name, { rows, exact }]) => [clip(plain(name), NAME), share(exact), rows] as const);
  const nameWidth = Math.max(0, ...shown.map(([name]) => cells(name)));
  const lines = shown.map(([name, exact, rows]) =>
    clip(
      `${padEnd(name, nameWidth)}  ${exact.padStart('100.0 %'.length)} exact of ${counted(rows, 'row')}`,
      width,
    ),
  );
  const more = all.length - shown.length;
  return more > 0 ? [...lines, `and ${count(more)} more, in the summary's file`] : lines;
}
