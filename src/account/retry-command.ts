import { damageOf } from '../output/result-columns.js';
import { shellWord } from '../shell-word.js';
import type { StoredSummary } from './summary.js';
import { type Counts, sumOf } from './tally.js';

/**
 * The command that calls failed rows of an output again.
 * @param emulated the rows were called in a rehearsal, and are again
 */
export const retryCommandFor = (output: string, emulated: boolean): string =>
  `promptmill retry ${shellWord(output)}${emulated ? ' --emulate' : ''}`;

/** How often failed rows have each code, as far as the summary tells them from the other errors; else null. */
export function failedCodes(summary: StoredSummary): Counts | null {
  const { invalid = {} } = summary.details.tally;
  const isOther = (code: string): boolean =>
    code === 'content_filter' || Object.hasOwn(invalid, code) || damageOf(code) !== undefined;
  const codes = Object.fromEntries(Object.entries(summary.errors).filter(([code]) => !isOther(code)));
  return sumOf(codes) === summary.rows.failed ? codes : null;
}
