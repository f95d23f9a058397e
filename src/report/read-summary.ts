import * as z from 'zod';
import { errorCode, errorText, UsageError } from '../errors.js';
import { parseJson } from '../json.js';
import { readOwn } from '../output/own-file.js';
import { type Summary, summarySchema } from './summary.js';
import { invalidIn, STATUSES } from './tally.js';

/**
 * Reads the summary of a finished run, also one of an earlier version.
 * @throws UsageError `summary_missing`, `summary_unreadable`, `summary_unknown`, `summary_version`, `summary_edited`
 */
export function readSummary(path: string): Summary {
  const value = parseJson(textOf(path));
  if (isOfOtherVersion(value)) {
    throw new UsageError(
      'summary_version',
      `${path} was written by another version of Promptmill, whose details this one cannot read`,
      'Take the version that wrote it.',
    );
  }
  const { data: summary, error } = summarySchema.safeParse(value);
  if (summary === undefined) {
    const { path: field = [], message = '' } = error?.issues[0] ?? {};
    throw new UsageError(
      'summary_unknown',
      `${path} is no summary of a run${field.length === 0 ? '' : `: ${field.join('.')}: ${message.replace(/^Invalid \w+: /, '')}`}`,
      'Give the file that a finished run has written beside its output, for example out/reviews.summary.json.',
    );
  }
  const { total } = summary.rows;
  const sum = STATUSES.reduce((rows, status) => rows + summary.rows[status], 0);
  if (sum === total) return withInvalid(summary, value);
  throw new UsageError(
    'summary_edited',
    `${path} is not as the run wrote it: its rows add up to ${sum}, and rows.total is ${total}`,
    'Put the file of the run back.',
  );
}

/** An earlier version counted invalid answers among the errors only. */
function withInvalid(summary: Summary, written: unknown): Summary {
  if (z.object({ answers_invalid: z.number() }).safeParse(written).success) return summary;
  const counts = Object.values(invalidIn(summary.errors) ?? {});
  return { ...summary, answers_invalid: counts.reduce((sum, rows) => sum + rows, 0) };
}

function textOf(path: string): string {
  try {
    return readOwn(path);
  } catch (error) {
    const isMissing = ['ENOENT', 'ENOTDIR'].includes(errorCode(error));
    throw new UsageError(
      isMissing ? 'summary_missing' : 'summary_unreadable',
      isMissing ? `${path} does not exist` : `cannot read ${path}: ${errorText(error)}`,
      'A finished run has written it beside its output, for example out/reviews.summary.json.',
    );
  }
}

/** A later version that writes other details counts their form up. */
const isOfOtherVersion = (value: unknown): boolean =>
  z.object({ details: z.object({ v: z.number().refine((v) => v !== 1) }) }).safeParse(value).success;
