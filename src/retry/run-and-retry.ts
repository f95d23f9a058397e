import { existsSync } from 'node:fs';
import { readSummary } from '../account/read-summary.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { counted } from '../figures.js';
import { readManifest } from '../resume/manifest.js';
import { filledPaths, fillOutputPath, hasPlaceholder, outputFiles } from '../resume/output-files.js';
import { newRun } from '../resume/output-target.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import type { Unconnected } from '../run/world.js';
import { retryOutput } from './retry.js';
import { readSelection, selectionText } from './selection.js';

/**
 * Runs a job, and calls the rows that failed again, once. Where its output is finished already and has such rows, or such a
 * retry is unfinished, it does only that.
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function runAndRetry(settings: Settings, world: Unconnected): Promise<RunResult> {
  const there = outputNow(settings);
  const output = hasFailedRows(there, settings) ? there : null;
  const result = output === null ? await runJob(settings, world) : null;
  if (result !== null) {
    const { failed } = result.summary.rows;
    const isOver = result.halted === null && result.beyond === 0;
    if (!isOver || failed === 0 || result.files === null) return result;
    if (settings.input.path === '-') {
      world.say('warning: the failed rows are not called again: standard input can be read once');
      return result;
    }
    world.say(`${counted(failed, 'row')} failed, and ${failed === 1 ? 'is' : 'are'} called again`);
  }
  const path = output ?? result?.files?.output ?? '';
  const failed = readSelection({});
  const retry: Settings = {
    ...settings,
    output: { ...settings.output, path },
    retry: selectionText(failed),
    restart: false,
    overwrite: false,
  };
  try {
    return await retryOutput(retry, failed, world);
  } catch (error) {
    // The run has finished, and was paid for.
    if (result === null || !(error instanceof UsageError)) throw error;
    world.say(`warning: the rows are not called again: ${error.message}`);
    return result;
  }
}

/** The output of a run that began now; where a date or a run is in its path, that of the job's unfinished retry, if there is one. */
function outputNow({ job, output }: Settings): string {
  const { path } = output;
  if (!hasPlaceholder(path)) return path;
  for (const filled of filledPaths(path, '.run.json')) {
    const left = readManifest(outputFiles(filled).manifest);
    // A run that is unfinished goes on first, and finds its file itself.
    if (left?.job === job) return left.retry === undefined ? path : filled;
  }
  const now = new Date();
  return fillOutputPath(path, newRun(now), now);
}

/** Whether the output of the job is there, and has rows that a retry is for. */
function hasFailedRows(output: string, { overwrite }: Settings): boolean {
  const files = outputFiles(output);
  if (overwrite || !existsSync(files.output)) return false;
  const left = readManifest(files.manifest);
  if (left !== null) return left.retry !== undefined;
  return existsSync(files.summary) && readSummary(files.summary).rows.failed > 0;
}
