import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import * as z from 'zod';
import { summaryAt } from '../account/read-summary.js';
import { type StoredSummary, summaryText } from '../account/summary.js';
import type { Settings } from '../config/settings.js';
import { parseJson } from '../core/json.js';
import { outputBytes } from '../output/output-bytes.js';
import { marked } from '../output/output-name.js';
import { modeOf, readPlainFile } from '../output/plain-file.js';
import { writeAside, writeDurably } from '../output/writer.js';
import { filledPaths, hasPlaceholder, outputFiles } from './output-files.js';

export interface LastRun {
  readonly output: string;
  readonly summary: StoredSummary;
}

/**
 * The job's last run that finished with all rows of its input, before this run names its output: the newest
 * file at the output path if that has a date or a run, else the file that this run replaces. Skips files
 * without a summary or with one of another job or file. Rehearsals see only rehearsals, and other runs only
 * other runs.
 * @param run the asking run, which is not its own last run
 * @param good only a run that met all requirements: not rejected, and without an alarm of `drift`
 * @returns null when there is none, and for standard output
 */
export function lastRunOf(
  { job, output, emulated }: Pick<Settings, 'job' | 'output' | 'emulated'>,
  run: string,
  good = false,
): LastRun | null {
  if (output.path === '-') return null;
  const kept = good && !hasPlaceholder(output.path) ? [marked(output.path, 'measure')] : [];
  for (const path of [...filledPaths(output.path, ''), ...kept]) {
    const { manifest, summary: summaryPath } = outputFiles(path);
    const summary = summaryAt(summaryPath);
    if (summary === null || summary.job !== job || summary.run === run) continue;
    if (summary.emulated !== emulated || summary.beyond !== undefined) continue;
    if (good && summary.missed !== null) continue;
    // Whoever writes there now replaces it. We do, unless we add rows to it.
    const left = runAt(manifest);
    const isOver = !existsSync(manifest) || (left?.run === run && left.since === undefined);
    if (isOver && basename(summary.output) === basename(path) && existsSync(path))
      return { output: path, summary };
  }
  return null;
}

/**
 * Keeps an output that one below the requirements will replace: drift is measured against it. May be
 * repeated.
 * @throws WriteError
 */
export async function copyForDrift({ output, summary }: LastRun): Promise<void> {
  const kept = outputFiles(marked(output, 'measure'));
  // Whoever may not read the output may not read the copy.
  const mode = modeOf(output);
  await writeAside(kept.output, outputBytes(output, null), mode);
  await writeDurably(kept.summary, summaryText({ ...summary, output: kept.output }), mode);
}

/** The last run named in a summary that this run wrote before it was killed. */
export function recordedLastRun(summaryPath: string, run: string): StoredSummary['last_run'] {
  const own = summaryAt(summaryPath);
  return own?.run === run ? own.last_run : undefined;
}

const runAt = (manifest: string): z.output<typeof named> | undefined =>
  named.safeParse(jsonAt(manifest)).data;

const named = z.object({ run: z.string(), since: z.unknown().optional() });

/** `undefined` when the file cannot be read. */
function jsonAt(path: string): unknown {
  try {
    return parseJson(readPlainFile(path));
  } catch {
    return undefined;
  }
}
