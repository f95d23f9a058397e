import { count, counted } from '../figures.js';
import type { Fault } from '../model.js';
import { type Counts, sumOf, type Tally } from './tally.js';

/** What a job asks of the answers of its run (`answer.require`). */
export interface Require {
  /** Share of the completed rows whose answer must be valid, from 0 to 1. */
  readonly valid: number;
}

/** What of a tally the answers are judged by. */
export type Judged = Pick<Tally, 'rows' | 'invalid'>;

export const invalidOf = ({ invalid = {} }: Pick<Judged, 'invalid'>): number => sumOf(invalid);

/** Rows with an answer that can be used, or that a filter blocked: the run has come through to the service and back. */
export const usableOf = (judged: Judged): number =>
  judged.rows.completed + judged.rows.filtered - invalidOf(judged);

/**
 * By how much the answers miss what is asked; null where they reach it, where nothing is asked, and where no row is
 * completed. Filtered, failed and skipped rows have no answer, so they do not count.
 */
export function missText(judged: Judged, require: Require | null): string | null {
  const answers = judged.rows.completed;
  const share = (answers - invalidOf(judged)) / answers;
  if (require === null || answers === 0 || share >= require.valid) return null;
  // Rounded down, so that a share that is just missed does not look reached.
  const reached = (Math.floor(share * 1000) / 10).toFixed(1);
  const asked = Number((require.valid * 100).toFixed(6));
  return (
    `${reached} % of ${counted(answers, 'answer')} ${answers === 1 ? 'is' : 'are'} valid, ` +
    `where answer.require.valid asks for ${asked} % (${codesText(judged.invalid)})`
  );
}

/** What a finished run misses of what its job asks; null where it misses nothing. */
export function missOf(judged: Judged, require: Require | null): Fault | null {
  const text = missText(judged, require);
  if (text === null) return null;
  return {
    code: 'below_require',
    message: `${text}. See error_message in the output, mend the prompt, and run again with --overwrite, or ask for less in answer.require.`,
  };
}

/** `3 of 1,000 rows failed and 7 have an invalid answer (7 answer_not_a_label)` */
export function unusableText(judged: Judged): string {
  const { failed, total } = judged.rows;
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
    .sort(([, a], [, b]) => b - a)
    .map(([code, rows]) => `${count(rows)} ${code}`)
    .join(', ');
