import { shellWord } from '../core/started.js';
import { damageOf } from '../output/result-columns.js';
import type { StoredSummary } from './summary.js';
import { type CountByName, sumOf } from './tally.js';

/** @param emulated the output is of a rehearsal, so the retry is as well */
export const retryCommandFor = (output: string, emulated: boolean): string =>
  `promptmill retry ${shellWord(output)}${emulated ? ' --emulate' : ''}`;

/** Failed rows by code; null if the summary does not separate their codes from other errors. */
export function failedCodes(summary: StoredSummary): CountByName | null {
  const { invalid = {} } = summary.details.tally;
  const isOther = (code: string): boolean =>
    code === 'content_filter' || Object.hasOwn(invalid, code) || damageOf(code) !== undefined;
  const codes = Object.fromEntries(Object.entries(summary.errors).filter(([code]) => !isOther(code)));
  return sumOf(codes) === summary.rows.failed ? codes : null;
}
