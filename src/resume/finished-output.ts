import { existsSync, lstatSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import * as z from 'zod';
import { type FinishedSummary, readSummary } from '../account/read-summary.js';
import { UsageError } from '../core/errors.js';
import { parseJson } from '../core/json.js';
import { knownFormatOf, OUTPUT_ENDINGS } from '../output/format.js';
import { outputBytes, readable } from '../output/output-bytes.js';
import { readPlainFile, sha256OfBytes } from '../output/plain-file.js';
import { differenceOf } from '../output/written.js';
import { type OutputFiles, outputFiles } from './output-files.js';

/** What is beside a finished output. */
export interface FoundOutput {
  readonly files: OutputFiles;
  /** Null when there is none, or it is of another output. */
  readonly summary: FinishedSummary | null;
  /** Of the summary, also of that of another output. */
  readonly jobFile: string | null;
  /** Other values for fields of that file. */
  readonly jobSet: readonly string[];
}

export interface FinishedOutput extends FoundOutput {
  /** How it differs from what Promptmill wrote; null when it does not, and without a summary. */
  readonly warning: string | null;
}

/** @throws UsageError when the output does not exist, its run is not finished, or it is not an output */
export function findFinished(output: string): FoundOutput {
  const files = outputFiles(output);
  if (!existsSync(output) || output.endsWith('.part')) {
    const isPart = output.endsWith('.part') || existsSync(files.part);
    throw isPart
      ? new UsageError(
          'run_unfinished',
          `the run that writes ${output.replace(/\.part$/, '')} is not finished`,
          'The command that began it goes on with it: promptmill run JOB.',
        )
      : new UsageError('output_missing', `${output} does not exist`, 'Give the output of a finished run.');
  }
  const why = notAnOutput(output);
  if (why !== null) {
    throw new UsageError(
      'output_unknown',
      `${output} is no output of a run: ${why}`,
      'Give the output of a finished run.',
    );
  }
  const found = existsSync(files.summary) ? readSummary(files.summary) : null;
  const isOwn = found !== null && basename(found.output) === basename(output);
  return {
    files,
    summary: isOwn ? found : null,
    jobFile: found?.job_file ?? null,
    jobSet: found?.job_set ?? [],
  };
}

/**
 * Where every command over a finished output starts. Rows are identified by position only, so a command that
 * replaces or extends an output refuses one that is not byte for byte as Promptmill wrote it; the others warn.
 * @throws UsageError as `findFinished`; with `refuse` also when the output was changed, has no summary of its
 * own, or is no plain file; with `warn` when a run is about to replace it
 * @param told what to compare it with. @default the summary beside it
 */
export async function openFinished(
  output: string,
  changed: 'warn',
  told?: FinishedSummary,
): Promise<FinishedOutput>;
export async function openFinished(
  output: string,
  changed: 'refuse',
): Promise<FinishedOutput & { readonly summary: FinishedSummary }>;
export async function openFinished(
  output: string,
  changed: 'warn' | 'refuse',
  told?: FinishedSummary,
): Promise<FinishedOutput> {
  if (changed === 'refuse') {
    const files = outputFiles(output);
    assertPlain(output);
    const { summary, difference } = await held(output, summaryBeside(files));
    if (difference !== null) throw outputChanged(files, difference);
    return {
      files,
      summary,
      jobFile: summary.job_file ?? null,
      jobSet: summary.job_set ?? [],
      warning: null,
    };
  }
  const found = findFinished(output);
  assertNotReplaced(found.files);
  const beside = told ?? found.summary;
  if (beside === null) return { ...found, warning: null };
  const { summary, difference } = await held(output, beside);
  return { ...found, summary, warning: difference === null ? null : changedText(output, difference) };
}

/** The summary is that of the run that replaces the output. */
function assertNotReplaced({ output, manifest, part, rewritten }: OutputFiles): void {
  const isNamed = !existsSync(part) && !existsSync(rewritten);
  if (isNamed || !z.object({ stage: z.literal('finishing') }).safeParse(parseJson(textOf(manifest))).success)
    return;
  throw new UsageError(
    'run_unfinished',
    `${output} is about to be replaced by the run of ${manifest}, which has written its summary already`,
    'Wait until that run has ended. Where it was killed, the command that began it goes on with it.',
  );
}

/** A link leads elsewhere, and the file is replaced. */
function assertPlain(output: string): void {
  const found = lstatSync(output, { throwIfNoEntry: false });
  if (found?.isFile()) return;
  const what = found === undefined ? 'not there' : found.isSymbolicLink() ? 'a symbolic link' : 'no file';
  throw new UsageError(
    'output_not_writable',
    `${output} is ${what}, and the output is replaced by a new file`,
    'Name the file itself.',
  );
}

/** @returns null for an unchanged output @throws UsageError `output_unreadable`, `output_damaged` (gzip) */
async function held(
  output: string,
  summary: FinishedSummary,
): Promise<{ readonly summary: FinishedSummary; readonly difference: string | null }> {
  const { next, ...details } = summary.details;
  const sha256 = await sha256OfBytes(readable(output, outputBytes(output, null)));
  // A killed merge of reviews may have written its summary first, or the output too.
  if (sha256 === next?.written.sha256) {
    const { written, merged_review } = next;
    return { summary: { ...summary, merged_review, details: { ...details, written } }, difference: null };
  }
  const difference = sha256 === details.written.sha256 ? null : await differenceOf(output, details.written);
  return { summary: { ...summary, details }, difference };
}

const changedText = (output: string, difference: string): string =>
  `${output} is not as Promptmill wrote it: ${difference}`;

export const outputChanged = ({ output, summary }: OutputFiles, difference: string): UsageError =>
  new UsageError(
    'output_changed',
    changedText(output, difference),
    `Put the file back as it was, or ${summary} if that is the one that belongs to another output; or run the job again with --overwrite, which calls every row. To change answers by hand, use promptmill merge-review. Nothing was sent, and nothing was written.`,
  );

/** @throws UsageError when there is no summary, or it is not of this output */
function summaryBeside({ output, summary: path }: OutputFiles): FinishedSummary {
  const summary = readSummary(path);
  if (basename(summary.output) === basename(output) && summary.stopped === null) return summary;
  throw new UsageError(
    'summary_of_another',
    `${path} is ${summary.stopped === null ? `the summary of ${summary.output}` : 'of a run that stopped'}, and not of ${output}`,
    'Put the summary back that the run has written beside this output.',
  );
}

function notAnOutput(output: string): string | null {
  if (knownFormatOf(output) === null) return `those end in ${OUTPUT_ENDINGS}`;
  const found = statSync(output);
  if (found.isFile()) return null;
  return found.isDirectory() ? 'it is a folder' : 'it is a pipe or a device';
}

function textOf(path: string): string {
  try {
    return readPlainFile(path);
  } catch {
    return '';
  }
}
