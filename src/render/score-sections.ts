import type { Abstention, LabelScores, Scores } from '../account/scores.js';
import { count, counted, share } from '../core/figures.js';
import {
  type Block,
  countsIn,
  type Figure,
  figure,
  figures,
  type Matrix,
  type Medium,
  type Section,
  section,
  type Table,
  text,
} from './document.js';
import type { ExampleTexts } from './example-texts.js';
import { clip, escapeControls } from './terminal-text.js';

/** On a terminal. */
const MOST_ROWS = 15;
const MOST_CELLS = 40;
const MOST_PROPERTIES = 5;
/** In cells: of a title on a terminal. */
const MOST_TITLE = 14;
const ELSEWHERE: readonly Medium[] = ['html', 'markdown'];

/** @param examples texts of rows that are mixed up. @default only their numbers are shown */
export function scoreSections(scores: Scores, examples: ExampleTexts = {}): Section[] {
  const { accuracy, abstention, unanswered, left_out = '', properties } = scores;
  const none =
    unanswered === 0 ? 'no row with gold so far' : `no answer to ${counted(unanswered, 'row')} with gold`;
  const confusion = confusionMatrix(scores);
  const more =
    accuracy === null || unanswered === 0
      ? ''
      : `${counted(unanswered, 'more row')} with gold ${unanswered === 1 ? 'has' : 'have'} no answer`;
  const exact = Object.entries(properties).map(([name, { rows, exact }]) =>
    figure(name, `${share(exact)} exact of ${counted(rows, 'row')}`),
  );
  return [
    section(
      'scores',
      'Scores',
      [
        text(accuracy === null ? none : ''),
        figures(scoreFigures(scores), { said: inWords(scores) }),
        majorityText(scores),
        text(abstention === undefined ? '' : abstentionText(abstention)),
        text(more, { in: ['terminal'] }),
        text(left_out),
      ],
      { chapter: 'answers' },
    ),
    section('labels', 'Labels', [labelTable(scores)], { chapter: 'answers' }),
    section('confusion', 'Right label and answer', confusion === null ? [] : [confusion], {
      short: 'confusion',
      chapter: 'answers',
    }),
    section('confusions', 'Most frequent mix-ups', [mixUps(scores, examples)], {
      short: 'mix-ups',
      chapter: 'answers',
    }),
    section('properties', 'Properties', [figures(exact, { most: MOST_ROWS })], {
      short: '',
      chapter: 'answers',
    }),
    ...Object.entries(properties)
      .filter(([, { labels, left_out }]) => left_out !== undefined || Object.keys(labels).length > 0)
      .map(([name, each], i) => propertySection(name, each, i, examples)),
  ];
}

/** A terminal has the first ones, without the matrix. */
function propertySection(name: string, of: PropertyScores, place: number, examples: ExampleTexts): Section {
  const matrix = confusionMatrix(of);
  const short = clip(escapeControls(name), MOST_TITLE);
  return section(
    `property_scores_${place + 1}`,
    `Scores of ${name}`,
    [
      text(of.accuracy === null ? '' : accuracyText(of.accuracy, of.rows)),
      majorityText(of),
      text(of.left_out ?? ''),
      labelTable(of),
      ...(matrix === null ? [] : [{ ...matrix, in: ELSEWHERE }]),
      mixUps(of, examples),
    ],
    { short, chapter: 'answers', ...(place >= MOST_PROPERTIES && { in: ELSEWHERE }) },
  );
}

type PropertyScores = Scores['properties'][string];

/** `accuracy 91.2 % (88.4 % to 93.4 %) of 512 rows` */
const accuracyText = ({ value, low, high }: NonNullable<Scores['accuracy']>, rows?: number): string =>
  `accuracy ${share(value)} (${share(low)} to ${share(high)}) of ${rows === undefined ? 'all' : counted(rows, 'row')}`;

/** `always "positive": 76.6 %; this run: 72.3 %`. Labels left out for low confidence would not be compared fairly. */
function majorityText({
  majority,
  accuracy,
  abstained = 0,
}: Pick<PropertyScores, 'majority' | 'accuracy'> & Partial<Scores>): Block {
  if (majority === null || accuracy === null) return text('');
  const isAbove = accuracy.value > majority.accuracy || abstained > 0;
  return text(
    `always ${JSON.stringify(majority.label)}: ${share(majority.accuracy)}; this run: ${share(accuracy.value)}`,
    isAbove ? {} : { style: 'warning' },
  );
}

/** The most frequent first. */
const labelTable = ({ labels }: LabelScores): Table => ({
  kind: 'table',
  caption: 'How well each label is found',
  columns: ['label', 'precision', 'recall', 'F1', 'support'].map((name, i) => ({ name, isNumber: i > 0 })),
  rows: Object.entries(labels)
    .sort(([, a], [, b]) => b.support - a.support)
    .map(([label, { precision, recall, f1, support }]) => ({
      cells: [label, share(precision), share(recall), f1.toFixed(3), count(support)],
    })),
  most: MOST_ROWS,
});

/** A line for each example, or if there are no texts one for all. */
function mixUps({ confusions }: LabelScores, texts: ExampleTexts): Table {
  const hasTexts = confusions.some(({ examples }) => examples.some((row) => texts[row] !== undefined));
  return {
    kind: 'table',
    caption: 'Right labels and other answers, the most frequent first, with examples',
    columns: [
      { name: 'gold → answer', most: MOST_CELLS },
      { name: 'rows', isNumber: true },
      { name: 'example' },
      ...(hasTexts ? [{ name: 'text', isLong: true }] : []),
    ],
    rows: confusions.flatMap(({ gold, answer, rows, examples }) => {
      const named = examples.map((row) => `row ${row}`).join(', ');
      const lines =
        hasTexts && examples.length > 0
          ? examples.map((row) => [`row ${row}`, texts[row] ?? ''])
          : [hasTexts ? [named, ''] : [named]];
      return lines.map((line, i) => ({
        cells: [...(i === 0 ? [`${gold} → ${answer}`, count(rows)] : ['', '']), ...line],
      }));
    }),
  };
}

/** `null` if the job has no gold, or a row may have several labels. */
export function confusionMatrix({ confusion }: LabelScores): Matrix | null {
  const right = Object.keys(confusion);
  if (right.length === 0) return null;
  const others = Object.values(confusion).flatMap((answered) => Object.keys(answered));
  const answered = [...new Set([...right, ...others])];
  return {
    kind: 'matrix',
    caption: 'Rows by their right label, down, and the answer, across',
    names: ['gold', 'answer'],
    down: right,
    across: answered,
    counts: countsIn(confusion, { down: right, across: answered }),
  };
}

function scoreFigures({ accuracy, macro_f1, kappa, brier, ece, rows, unanswered }: Scores): Figure[] {
  if (accuracy === null) return [];
  const { value, low, high } = accuracy;
  return [
    figure('accuracy', share(value)),
    figure('95 % interval', `${share(low)} to ${share(high)}`),
    ...(macro_f1 === null ? [] : [figure('macro F1', macro_f1.toFixed(3))]),
    ...(kappa === null ? [] : [figure('kappa', kappa.toFixed(3))]),
    ...(brier === null ? [] : [figure('Brier score', brier.toFixed(3))]),
    ...(ece === null ? [] : [figure('calibration error', ece.toFixed(3))]),
    figure('rows with gold', count(rows)),
    ...(unanswered === 0 ? [] : [figure('rows with gold and no answer', count(unanswered))]),
  ];
}

/** `accuracy 91.2 % (88.4 % to 93.4 %) of 512 rows`, `macro F1 0.874`, `kappa 0.812`, … */
function inWords(scores: Scores): string[] {
  const { rows, accuracy, abstained, answered, answered_accuracy: ofAnswered } = scores;
  if (accuracy === null) return [];
  const first =
    abstained === 0
      ? [accuracyText(accuracy, rows)]
      : [
          `${count(answered)} of ${counted(rows, 'row')} with gold answered (${share(answered / rows)})`,
          ...(ofAnswered === null ? [] : [`accuracy ${share(ofAnswered)} of those`]),
          accuracyText(accuracy),
        ];
  const further = scoreFigures(scores).filter(({ name }) => FURTHER.has(name));
  return [...first, ...further.map(({ name, value }) => `${name} ${value}`)];
}

const FURTHER: ReadonlySet<string> = new Set(['macro F1', 'kappa', 'Brier score', 'calibration error']);

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
