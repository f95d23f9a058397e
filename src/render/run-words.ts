import type { Reconciled, Summary } from '../account/summary.js';
import { count } from '../figures.js';
import { STATUSES } from '../model.js';
import { plain } from './terminal-text.js';

/** The job, with a word that nobody misses where an emulator answered. */
export const jobTitle = ({ job, emulated }: Pick<Summary, 'job' | 'emulated'>): string =>
  `${plain(job)}${emulated ? REHEARSAL : ''}`;

/** Behind the name of what an emulator answered, on each page about it. */
export const REHEARSAL = ' (rehearsal, answered by an emulator)';

/**
 * Every status is named, also with 0 rows, so that the line always has one form; it is never wrapped. Behind them the
 * answers of completed rows that are invalid, or left out for want of confidence, where there are any.
 */
export function reconciliation({ rows, answers_invalid, answers_abstained }: Reconciled): string {
  const parts = STATUSES.map((status) => `${count(rows[status])} ${status}`);
  const answers = [
    ...(answers_invalid === 0 ? [] : [`answers.invalid ${count(answers_invalid)}`]),
    ...(answers_abstained === 0 ? [] : [`answers.abstained ${count(answers_abstained)}`]),
  ];
  return [`${count(rows.total)} rows = ${parts.join(' + ')}`, ...answers].join('; ');
}

/** That a run stopped early, or missed what its job asks; nothing of any other. */
export function shortfall({ stopped, missed, rows, input }: Summary): string {
  if (stopped !== null)
    return `Stopped after ${count(rows.total)} of ${count(input.rows)} rows: ${plain(stopped)}`;
  return missed === null ? '' : `Finished, but ${plain(missed)}`;
}

/** Why a run stopped or what it missed, in one line, with a message of the error that most rows have. */
export function reasonLine({ stopped, missed, errors, error_samples: samples = {} }: Summary): string {
  const [code] = Object.keys(samples).toSorted((a, b) => (errors[b] ?? 0) - (errors[a] ?? 0));
  const sample = code === undefined ? '' : ` One of the errors (${code}): ${samples[code]}`;
  return plain(`${stopped ?? missed}${sample}`);
}
