import { existsSync, statSync } from 'node:fs';
import * as z from 'zod';
import { UsageError } from '../errors.js';
import { parseJson } from '../json.js';
import { knownFormatOf, OUTPUT_ENDINGS } from '../output/format.js';
import { readOwn } from '../output/own-file.js';
import { outputFiles } from './output-files.js';

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
