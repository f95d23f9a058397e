import * as z from 'zod';
import { errorCode, errorText, UsageError } from '../core/errors.js';
import { parseJson } from '../core/json.js';
import { isOfOtherVersion, readPlainFile } from '../output/plain-file.js';
import type { Written } from '../output/written.js';
import { checkOf, type StoredSummary, summarySchema } from './summary.js';

/** Adds what only the file beside an output has, and a summary in the making has not. */
export const finishedSchema = summarySchema.extend({
  details: summarySchema.shape.details.required({ written: true, check: true }),
});

export type FinishedSummary = StoredSummary & { readonly details: { readonly written: Written } };

/** @throws UsageError `summary_missing`, `_unreadable`, `_unknown`, `_version`, `_edited` */
export function readSummary(path: string): FinishedSummary {
  const text = textOf(path);
  const value = parseJson(text);
  const versioned = z.object({ details: z.unknown() }).safeParse(value).data;
  if (isOfOtherVersion(versioned?.details)) {
    throw new UsageError(
      'summary_version',
      `${path} was written by another version of Promptmill, and this one cannot read it`,
      'Take the version that wrote it.',
    );
  }
  const { data: summary, error } = finishedSchema.safeParse(value);
  if (summary === undefined) {
    const { path: field = [], message = '' } = error?.issues[0] ?? {};
    throw new UsageError(
      'summary_unknown',
      `${path} is no summary of a run${field.length === 0 ? '' : `: ${field.join('.')}: ${message.replace(/^Invalid \w+: /, '')}`}`,
      'Give the file that a finished run has written beside its output, for example out/reviews.summary.json.',
    );
  }
  if (summary.details.check === checkOf(JSON.parse(text))) return summary;
  throw new UsageError(
    'summary_edited',
    `${path} was edited: it is not as Promptmill wrote it`,
    'Put the file of the run back.',
  );
}

/** Null when there is none, or it cannot be read. It may have been edited. */
export function summaryAt(path: string): StoredSummary | null {
  try {
    return summarySchema.safeParse(parseJson(readPlainFile(path))).data ?? null;
  } catch {
    return null;
  }
}

function textOf(path: string): string {
  try {
    return readPlainFile(path);
  } catch (error) {
    const isMissing = ['ENOENT', 'ENOTDIR'].includes(errorCode(error));
    throw new UsageError(
      isMissing ? 'summary_missing' : 'summary_unreadable',
      isMissing ? `${path} does not exist` : `cannot read ${path}: ${errorText(error)}`,
      'A finished run has written it beside its output, for example out/reviews.summary.json.',
    );
  }
}
