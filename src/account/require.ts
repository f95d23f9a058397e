import { count, counted } from '../figures.js';
import type { Fault } from '../model.js';
import { type Abstention, type Scores, scoresOf } from './scores.js';
import { type Counts, sumOf, type Tally } from './tally.js';

/** What a job asks of the answers of its run (`answer.require`). */
export interface Require {
  /** Share of the completed rows whose answer must be valid, from 0 to 1. */
  readonly valid: number;
  /** Share of the completed rows that must have an answer, valid and not abstained, from 0 to 1. @default nothing is asked */
  readonly answered?: number | undefined;
  /** Share of the completed rows with gold whose answer must be right, from 0 to 1. @default nothing is asked */
  readonly accuracy?: number | undefined;
  /** Macro F1 that these rows must have, from 0 to 1. @default nothing is asked */
  readonly f1?: number | undefined;
}

/** What of a tally the answers are judged by. */
export type Judged = Pick<Tally, 'rows' | 'invalid' | 'gold' | 'abstained'>;

export const invalidOf = ({ invalid = {} }: Pick<Judged, 'invalid'>): number => sumOf(invalid);

/** Rows with an answer that can be used, or that a filter blocked: the run has come through to the service and back. */
export const usableOf = (judged: Judged): number =>
  judged.rows.completed + judged.rows.filtered - invalidOf(judged) - (judged.abstained ?? 0);

/**
 * By how much the answers miss what is asked; null where they reach it, where nothing is asked, and where there is nothing
 * yet to judge by. Filtered, failed and skipped rows have no answer, so they do not count.
 */
export function missText(judged: Judged, require: Require | null): string | null {
  if (require === null) return null;
  const { accuracy, macro_f1 } = judged.gold === undefined ? NOTHING_SCORED : scoresOf(judged.gold);
  return listed([
    invalidText(judged, require.valid),
    answeredText(judged, require.answered),
    accuracy && scoreText('accuracy', accuracy.value, require.accuracy, judged),
    macro_f1 !== null && scoreText('f1', macro_f1, require.f1, judged),
  ]);
}

/**
 * What a finished run misses of what its job asks; null where it misses nothing. What cannot be told is not reached.
 * @param abstention what came of `answer.abstain`
 * @param again what else is needed to run again, where that is not all
 */
export function missOf(
  judged: Judged,
  require: Require | null,
  abstention?: Abstention,
  again = ', and run again with --overwrite',
): Fault | null {
  const unreached = abstention === undefined ? null : unreachedText(abstention);
  const asked = listed([
    missText(judged, require),
    untoldText(judged, require),
    require !== null && unansweredText(judged),
  ]);
  const missed = listed([unreached, asked]);
  if (missed === null) return null;
  const asks = [asked && 'answer.require', unreached && 'answer.abstain'].filter(Boolean).join(' and ');
  const where =
    judged.gold === undefined
      ? 'error_message in the output'
      : 'answer and error_message in the output, and scores in the summary';
  return {
    code: 'below_require',
    message: `${missed}. See ${where}; correct the prompt${again}, or ask for less in ${asks}.`,
  };
}

/** That rows failed and none has an answer, of which `missOf` says nothing; null where it is not so. */
export function noneAnswered(judged: Judged): Fault | null {
  if (judged.rows.failed === 0 || usableOf(judged) > 0) return null;
  const message = `${unusableText(judged)}, and no row has an answer. See error_message in the output.`;
  return { code: 'below_require', message };
}

/** What a run misses of two things that are asked of it. */
export const bothMissed = (a: Fault | null, b: Fault | null): Fault | null =>
  a && b ? { code: a.code, message: `${a.message} Also ${b.code}: ${b.message}` } : (a ?? b);

const NOTHING_SCORED = { accuracy: null, macro_f1: null };

const listed = (texts: readonly (string | null | false)[]): string | null =>
  texts.filter((text) => typeof text === 'string').join('; ') || null;

function invalidText(judged: Judged, asked: number): string | null {
  const answers = judged.rows.completed;
  const share = (answers - invalidOf(judged)) / answers;
  if (answers === 0 || share >= asked) return null;
  return (
    `${roundedDown(share)} % of ${counted(answers, 'answer')} ${answers === 1 ? 'is' : 'are'} valid, ` +
    `where answer.require.valid asks for ${percents(asked)} % (${codesText(judged.invalid)})`
  );
}

/** `61.0 % of 1,000 completed rows have an answer, where answer.require.answered asks for 70 % (390 abstained)` */
function answeredText(judged: Judged, asked = 0): string | null {
  const { rows, abstained = 0 } = judged;
  const share = (rows.completed - invalidOf(judged) - abstained) / rows.completed;
  if (rows.completed === 0 || share >= asked) return null;
  return (
    `${roundedDown(share)} % of ${counted(rows.completed, 'completed row')} ${rows.completed === 1 ? 'has' : 'have'} an answer, ` +
    `where answer.require.answered asks for ${percents(asked)} % (${codesText({ ...judged.invalid, abstained })})`
  );
}

/** `the accuracy of 512 rows with gold is 87.3 %, where answer.require.accuracy asks for 90 %` */
function scoreText(name: Score, reached: number, asked: number | undefined, { gold }: Judged): string | null {
  if (asked === undefined || reached >= asked) return null;
  return (
    `the ${NAMES[name]} of ${counted(gold?.rows ?? 0, 'row')} with gold is ${roundedDown(reached)} %, ` +
    `where answer.require.${name} asks for ${percents(asked)} %`
  );
}

/** What is asked of the scores, and cannot be told although rows are completed. */
function untoldText(judged: Judged, require: Require | null): string | null {
  if (require === null || judged.rows.completed === 0) return null;
  const { accuracy, macro_f1, left_out }: Partial<Scores> =
    judged.gold === undefined ? NOTHING_SCORED : scoresOf(judged.gold);
  const untold = (name: Score, value: unknown): string | false =>
    value === null &&
    // Rows that are all right have no label where none applies to any.
    (accuracy === null || left_out !== undefined) &&
    (require[name] ?? 0) > 0 &&
    `the ${NAMES[name]} cannot be told (${left_out ?? 'no completed row has gold'}), and answer.require asks for it`;
  return listed([untold('accuracy', accuracy), untold('f1', macro_f1)]);
}

/** No row has an answer, because the model was sure of none of its labels. */
function unansweredText(judged: Judged): string | null {
  const { rows, abstained = 0 } = judged;
  if (abstained === 0 || rows.completed > invalidOf(judged) + abstained) return null;
  return `none of ${counted(rows.completed, 'completed row')} has an answer: ${count(abstained)} abstained`;
}

/** Rows with gold that must be answered before their accuracy says enough to leave others out by it. */
export const LEAST_ANSWERED = 30;

/** Why no row abstains although the job asks for an accuracy; null where a threshold was found. */
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

/** A share that is just missed does not look reached. */
const roundedDown = (share: number): string => (Math.floor(share * 1000) / 10).toFixed(1);

const percents = (share: number): number => Number((share * 100).toFixed(6));

/** `3 of 1,000 rows failed and 7 have an invalid answer (7 answer_not_a_label)` */
export function unusableText(judged: Judged): string {
  const { failed, total } = judged.rows;
  const unanswered = unansweredText(judged);
  if (unanswered !== null) return unanswered;
  const invalid = invalidOf(judged);
  const have = `${invalid === 1 ? 'has' : 'have'} an invalid answer (${codesText(judged.invalid)})`;
  const of = `of ${counted(total, 'row')}`;
  if (invalid === 0) return `${count(failed)} ${of} failed`;
  if (failed === 0) return `${count(invalid)} ${of} ${have}`;
  return `${count(failed)} ${of} failed and ${count(invalid)} ${have}`;
}

/** `60 answer_not_a_label, 8 answer_not_json` */
const codesText = (codes: Counts = {}): string =>
  Object.entries(codes)
    .filter(([, rows]) => rows > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([code, rows]) => `${count(rows)} ${code}`)
    .join(', ');
