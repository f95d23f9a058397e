import { type Reconciled, type Summary, unansweredTexts } from '../account/summary.js';
import { count } from '../core/figures.js';
import { STATUSES } from '../core/model.js';
import { escapeControls } from './terminal-text.js';

export const jobTitle = ({ job, emulated }: Pick<Summary, 'job' | 'emulated'>): string =>
  `${escapeControls(job)}${emulated ? REHEARSAL : ''}`;

/** Follows the name on every page about a rehearsal. */
export const REHEARSAL = ' (rehearsal, answered by an emulator)';

/** Names every status, also with 0 rows, so that the line keeps its form. Never wrapped. */
export function reconciliation(summary: Reconciled): string {
  const { rows } = summary;
  const parts = STATUSES.map((status) => `${count(rows[status])} ${status}`);
  return [`${count(rows.total)} rows = ${parts.join(' + ')}`, ...unansweredTexts(summary)].join('; ');
}

/** Empty for a run that finished and missed nothing. */
export function shortfall({ stopped, missed, rows, input }: Summary): string {
  if (stopped !== null)
    return `Stopped after ${count(rows.total)} of ${count(input.rows)} rows: ${escapeControls(stopped)}`;
  return missed === null ? '' : `Finished, but ${escapeControls(missed)}`;
}

/** In one line, with a sample of the most frequent error. */
export function reasonLine({ stopped, missed, errors, error_samples: samples = {} }: Summary): string {
  const [code] = Object.keys(samples).toSorted((a, b) => (errors[b] ?? 0) - (errors[a] ?? 0));
  const sample = code === undefined ? '' : ` One of the errors (${code}): ${samples[code]}`;
  return escapeControls(`${stopped ?? missed}${sample}`);
}
