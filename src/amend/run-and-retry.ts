import { existsSync } from 'node:fs';
import { readSummary } from '../account/read-summary.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { counted } from '../core/figures.js';
import { readManifest } from '../resume/manifest.js';
import { filledPaths, fillOutputPath, hasPlaceholder, outputFiles } from '../resume/output-files.js';
import { newRun } from '../resume/output-target.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import type { OfflineContext } from '../run/run-context.js';
import { retryOutput } from './retry.js';
import { readSelection, selectionText } from './selection.js';

/**
 * Runs a job, then retries its failed rows once. A finished output is only retried.
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function runAndRetry(settings: Settings, context: OfflineContext): Promise<RunResult> {
  const there = outputNow(settings);
  const output = hasFailedRows(there, settings) ? there : null;
  const result = output === null ? await runJob(settings, context) : null;
  if (result !== null) {
    const { failed } = result.summary.rows;
    const isOver = result.halted === null && result.beyond === 0;
    if (!isOver || failed === 0 || result.files === null) return result;
    if (settings.input.path === '-') {
      context.say('warning: the failed rows are not called again: standard input can be read once');
      return result;
    }
    context.say(`${counted(failed, 'row')} failed, and ${failed === 1 ? 'is' : 'are'} called again`);
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
    return await retryOutput(retry, failed, context);
  } catch (error) {
    // The run has finished, and was paid for.
    if (result === null || !(error instanceof UsageError)) throw error;
    context.say(`warning: the rows are not called again: ${error.message}`);
    return result;
  }
}

/** With a date or a run in the path, the output of the job's unfinished retry, if any, else a new one. */
function outputNow({ job, output }: Settings): string {
  const { path } = output;
  if (!hasPlaceholder(path)) return path;
  for (const filled of filledPaths(path, '.run.json')) {
    const left = readManifest(outputFiles(filled).manifest);
    // An unfinished run continues first, and finds its file itself.
    if (left?.job === job) return left.retry === undefined ? path : filled;
  }
  const now = new Date();
  return fillOutputPath(path, newRun(now), now);
}

function hasFailedRows(output: string, { overwrite }: Settings): boolean {
  const files = outputFiles(output);
  if (overwrite || !existsSync(files.output)) return false;
  const left = readManifest(files.manifest);
  if (left !== null) return left.retry !== undefined;
  if (!existsSync(files.summary)) return false;
  const { rows, beyond } = readSummary(files.summary);
  // An output with the first rows goes on first.
  return rows.failed > 0 && beyond === undefined;
}
