import { existsSync, lstatSync, type Stats, statSync } from 'node:fs';
import { basename } from 'node:path';
import * as z from 'zod';
import { UsageError } from '../errors.js';
import { parseJson } from '../json.js';
import { knownFormatOf, OUTPUT_ENDINGS } from '../output/format.js';
import { readOwn } from '../output/own-file.js';
import { readSummary } from '../report/read-summary.js';
import type { Summary } from '../report/summary.js';
import { type OutputFiles, outputFiles } from './output-files.js';

/** What the summary beside an output says of it. `null`: there is no summary, or it does not say. */
interface FinishedOutput {
  readonly jobFile: string | null;
  /** Its records. */
  readonly rows: number | null;
}

const said = z.object({ job_file: z.string().optional(), rows: z.object({ total: z.number() }) });

/** @throws UsageError when it is not there, its run is not finished, or it is no output */
export function finishedOutput(output: string): FinishedOutput {
  const { part, summary } = outputFiles(output);
  if (!existsSync(output) || output.endsWith('.part')) {
    const isPart = output.endsWith('.part') || existsSync(part);
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
  const parsed = said.safeParse(parseJson(textOf(summary)));
  return { jobFile: parsed.data?.job_file ?? null, rows: parsed.data?.rows.total ?? null };
}

/**
 * Nobody is about to give the output to another file: then its summary is that file's already.
 * @throws UsageError `run_unfinished`
 */
export function assertNotReplaced({ output, manifest, part, rewritten }: OutputFiles): void {
  const isNamed = !existsSync(part) && !existsSync(rewritten);
  if (isNamed || !z.object({ finishing: z.literal(true) }).safeParse(parseJson(textOf(manifest))).success)
    return;
  throw new UsageError(
    'run_unfinished',
    `${output} is about to be replaced by the run of ${manifest}, which has written its summary already`,
    'Wait until that run has ended. Where it was killed, the command that began it goes on with it.',
  );
}

/** What is to be replaced by a new file, and is a plain one. @throws UsageError */
export function plainFile(output: string): Stats {
  const found = lstatSync(output, { throwIfNoEntry: false });
  if (found?.isFile()) return found;
  const what = found === undefined ? 'not there' : found.isSymbolicLink() ? 'a symbolic link' : 'no file';
  throw new UsageError(
    'output_not_writable',
    `${output} is ${what}, and the output is replaced by a new file`,
    'Name the file itself.',
  );
}

/** The summary of a finished output. @throws UsageError when there is none, or it is not of this output */
export function summaryBeside({ output, summary: path }: OutputFiles): Summary {
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
    return readOwn(path);
  } catch {
    return '';
  }
}
