import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import * as z from 'zod';
import { type StoredSummary, summarySchema, summaryText } from '../account/summary.js';
import type { Settings } from '../config/settings.js';
import { parseJson } from '../json.js';
import { outputBytes } from '../output/output-bytes.js';
import { marked } from '../output/output-name.js';
import { modeOf, readOwn } from '../output/own-file.js';
import { writeAside, writeDurably } from '../output/writer.js';
import { filledPaths, hasPlaceholder, outputFiles } from './output-files.js';

/** A finished run, by what it has left. */
export interface LastRun {
  readonly output: string;
  readonly summary: StoredSummary;
}

/**
 * The last run of a job that finished with all rows of its input, as it is before this one gives its output the name: the
 * newest file at the job's output path, by name where a date or a run is in it, and else the one that this run replaces. A
 * file whose summary is gone, or is of another job or file, is passed over; so is a rehearsal by a run that is none, and the other way round.
 * @param run the run that asks, which is not its own last run
 * @param good only one that missed nothing of what its job asks: neither rejected, nor with an alarm of `drift`
 * @returns null where there is none, and where the output is standard output
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
    // A run over the first rows leaves its manifest, and has fewer rows than its input. This run's own says nothing of the other,
    // unless it adds rows to it: then these are its own first rows.
    const left = runAt(manifest);
    const isOver = !existsSync(manifest) || (left?.run === run && left.since === undefined);
    if (isOver && basename(summary.output) === basename(path) && existsSync(path))
      return { output: path, summary };
  }
  return null;
}

/**
 * Keeps an output that is about to be replaced by one that missed what its job asks: drift is measured by it until a good one is there.
 * Done again, it does the same.
 * @throws WriteError
 */
export async function keepMeasure({ output, summary }: LastRun): Promise<void> {
  const kept = outputFiles(marked(output, 'measure'));
  // Those whom it was closed to may not read the copy.
  const mode = modeOf(output);
  await writeAside(kept.output, outputBytes(output, null), mode);
  await writeDurably(kept.summary, summaryText({ ...summary, output: kept.output }), mode);
}

/** What a run has said of the one before, in a summary that it wrote before it was killed. */
export function lastRunTold(summaryPath: string, run: string): StoredSummary['last_run'] {
  const own = summaryAt(summaryPath);
  return own?.run === run ? own.last_run : undefined;
}

function summaryAt(path: string): StoredSummary | null {
  return summarySchema.safeParse(jsonAt(path)).data ?? null;
}

const runAt = (manifest: string): z.output<typeof named> | undefined =>
  named.safeParse(jsonAt(manifest)).data;

const named = z.object({ run: z.string(), since: z.unknown().optional() });

/** What a file beside an output says; `undefined` where nothing can be read. */
function jsonAt(path: string): unknown {
  try {
    return parseJson(readOwn(path));
  } catch {
    return undefined;
  }
}
