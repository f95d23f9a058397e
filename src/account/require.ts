import { REFUSED } from '../answer/answer.js';
import { count, counted } from '../core/figures.js';
import type { Problem } from '../core/model.js';
import { type Abstention, type Scores, scoresOf } from './scores.js';
import { type CountByName, sumOf, type Tally } from './tally.js';

/** `answer.require`. Shares of completed rows, from 0 to 1. */
export interface Require {
  /** Rows with a valid answer. */
  readonly valid: number;
  /** Rows with an answer, valid and not abstained. @default no requirement */
  readonly answered?: number | undefined;
  /** Of the rows with gold, those with the right answer. @default no requirement */
  readonly accuracy?: number | undefined;
  /** Macro F1 of the rows with gold. @default no requirement */
  readonly f1?: number | undefined;
}

export type AnswerCounts = Pick<Tally, 'rows' | 'invalid' | 'gold' | 'abstained'>;

/** Refusals included. */
export const invalidOf = ({ invalid = {} }: Pick<AnswerCounts, 'invalid'>): number => sumOf(invalid);

export const refusedOf = ({ invalid = {} }: Pick<AnswerCounts, 'invalid'>): number => invalid[REFUSED] ?? 0;

/** Rows with a usable answer, or blocked by a filter: these reached the service. */
export const usableOf = (counts: AnswerCounts): number =>
  counts.rows.completed + counts.rows.filtered - invalidOf(counts) - (counts.abstained ?? 0);

/**
 * What the answers miss so far; null if they reach it, or if there is nothing to judge yet. Filtered, failed
 * and skipped rows have no answer and do not count.
 */
export function missText(counts: AnswerCounts, require: Require | null): string | null {
  if (require === null) return null;
  const { accuracy, macro_f1 } = counts.gold === undefined ? NOTHING_SCORED : scoresOf(counts.gold);
  return listed([
    invalidText(counts, require.valid),
    answeredText(counts, require.answered),
    accuracy && scoreText('accuracy', accuracy.value, require.accuracy, counts),
    macro_f1 !== null && scoreText('f1', macro_f1, require.f1, counts),
  ]);
}

/**
 * What a finished run misses; null if nothing. A required score that cannot be computed is missed.
 * @param again what else a new run needs, for the message
 */
export function missOf(
  counts: AnswerCounts,
  require: Require | null,
  abstention?: Abstention,
  again = ', and run again with --overwrite',
): Problem | null {
  const unreached = abstention === undefined ? null : unreachedText(abstention);
  const asked = listed([
    missText(counts, require),
    untoldText(counts, require),
    require !== null && unansweredText(counts),
  ]);
  const missed = listed([unreached, asked]);
  if (missed === null) return null;
  const asks = [asked && 'answer.require', unreached && 'answer.abstain'].filter(Boolean).join(' and ');
  const where =
    counts.gold === undefined
      ? 'error_message in the output'
      : 'answer and error_message in the output, and scores in the summary';
  return {
    code: 'below_require',
    message: `${missed}. See ${where}; correct the prompt${again}, or ask for less in ${asks}.`,
  };
}

/** Rows failed and none has an answer, which `missOf` does not report; else null. */
export function noneAnswered(counts: AnswerCounts): Problem | null {
  if (counts.rows.failed === 0 || usableOf(counts) > 0) return null;
  const message = `${unusableText(counts)}, and no row has an answer. See error_message in the output.`;
  return { code: 'below_require', message };
}

export const bothMissed = (a: Problem | null, b: Problem | null): Problem | null =>
  a && b ? { code: a.code, message: `${a.message} Also ${b.code}: ${b.message}` } : (a ?? b);

const NOTHING_SCORED = { accuracy: null, macro_f1: null };

const listed = (texts: readonly (string | null | false)[]): string | null =>
  texts.filter((text) => typeof text === 'string').join('; ') || null;

function invalidText(counts: AnswerCounts, asked: number): string | null {
  const answers = counts.rows.completed;
  const share = (answers - invalidOf(counts)) / answers;
  if (answers === 0 || share >= asked) return null;
  return (
    `${roundedDown(share)} % of ${counted(answers, 'answer')} ${answers === 1 ? 'is' : 'are'} valid, ` +
    `where answer.require.valid asks for ${percents(asked)} % (${codesText(counts.invalid)})`
  );
}

/** `61.0 % of 1,000 completed rows have an answer, where answer.require.answered asks for 70 % (390 abstained)` */
function answeredText(counts: AnswerCounts, asked = 0): string | null {
  const { rows, abstained = 0 } = counts;
  const share = (rows.completed - invalidOf(counts) - abstained) / rows.completed;
  if (rows.completed === 0 || share >= asked) return null;
  return (
    `${roundedDown(share)} % of ${counted(rows.completed, 'completed row')} ${rows.completed === 1 ? 'has' : 'have'} an answer, ` +
    `where answer.require.answered asks for ${percents(asked)} % (${codesText({ ...counts.invalid, abstained })})`
  );
}

/** `the accuracy of 512 rows with gold is 87.3 %, where answer.require.accuracy asks for 90 %` */
function scoreText(
  name: Score,
  reached: number,
  asked: number | undefined,
  { gold }: AnswerCounts,
): string | null {
  if (asked === undefined || reached >= asked) return null;
  return (
    `the ${NAMES[name]} of ${counted(gold?.rows ?? 0, 'row')} with gold is ${roundedDown(reached)} %, ` +
    `where answer.require.${name} asks for ${percents(asked)} %`
  );
}

/** Required scores that cannot be computed although rows are completed. */
function untoldText(counts: AnswerCounts, require: Require | null): string | null {
  if (require === null || counts.rows.completed === 0) return null;
  const { accuracy, macro_f1, left_out }: Partial<Scores> =
    counts.gold === undefined ? NOTHING_SCORED : scoresOf(counts.gold);
  const untold = (name: Score, value: unknown): string | false =>
    value === null &&
    // Rows that are all right may have no label: none applies to any.
    (accuracy === null || left_out !== undefined) &&
    (require[name] ?? 0) > 0 &&
    `the ${NAMES[name]} cannot be told (${left_out ?? 'no completed row has gold'}), and answer.require asks for it`;
  return listed([untold('accuracy', accuracy), untold('f1', macro_f1)]);
}

/** No row has an answer: all abstained or are invalid. */
function unansweredText(counts: AnswerCounts): string | null {
  const { rows, abstained = 0 } = counts;
  if (abstained === 0 || rows.completed > invalidOf(counts) + abstained) return null;
  return `none of ${counted(rows.completed, 'completed row')} has an answer: ${count(abstained)} abstained`;
}

/** With fewer answered rows with gold, their accuracy is too uncertain to leave out others. */
export const LEAST_ANSWERED = 30;

function unreachedText({ asked, threshold, rows, accuracy }: Abstention): string | null {
  if (threshold !== null) return null;
  const no = 'so no row abstains';
  if (rows < LEAST_ANSWERED)
    return `the threshold of answer.abstain is found on ${LEAST_ANSWERED} rows with gold and a label at least, and there ${rows === 1 ? 'is' : 'are'} ${count(rows)}, ${no}`;
  return (
    `no threshold with ${LEAST_ANSWERED} rows with gold above it reaches the ${percents(asked)} % of answer.abstain.accuracy ` +
    `(all ${count(rows)} rows with gold and a label: ${roundedDown(accuracy?.value ?? 0)} %), ${no}`
  );
}

type Score = 'accuracy' | 'f1';

const NAMES = { accuracy: 'accuracy', f1: 'macro F1' } as const;

/** Rounded down, so that a share just below its limit does not look like it. */
const roundedDown = (share: number): string => (Math.floor(share * 1000) / 10).toFixed(1);

const percents = (share: number): number => Number((share * 100).toFixed(6));

/** `3 of 1,000 rows failed and 7 have an invalid answer (7 answer_not_a_label)` */
export function unusableText(counts: AnswerCounts): string {
  const { failed, total } = counts.rows;
  const unanswered = unansweredText(counts);
  if (unanswered !== null) return unanswered;
  const invalid = invalidOf(counts);
  const have = `${invalid === 1 ? 'has' : 'have'} an invalid answer (${codesText(counts.invalid)})`;
  const of = `of ${counted(total, 'row')}`;
  if (invalid === 0) return `${count(failed)} ${of} failed`;
  if (failed === 0) return `${count(invalid)} ${of} ${have}`;
  return `${count(failed)} ${of} failed and ${count(invalid)} ${have}`;
}

/** `60 answer_not_a_label, 8 answer_not_json` */
const codesText = (codes: CountByName = {}): string =>
  Object.entries(codes)
    .filter(([, rows]) => rows > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([code, rows]) => `${count(rows)} ${code}`)
    .join(', ');
