import { existsSync } from 'node:fs';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { counted } from '../figures.js';
import { readSummary } from '../report/read-summary.js';
import { readManifest } from '../resume/manifest.js';
import { outputFiles } from '../resume/output-files.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import type { World } from '../run/world.js';
import { retryOutput } from './retry.js';
import { readSelection, selectionText } from './selection.js';

/**
 * Runs a job, and calls the rows that failed again, once. Where its output is finished already and has such rows, or such a
 * retry is unfinished, it does only that.
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function runAndRetry(settings: Settings, world: World): Promise<RunResult> {
  const output = hasFailedRows(settings) ? settings.output.path : null;
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

/** Whether the output of the job is there, and has rows that a retry is for. */
function hasFailedRows({ output, overwrite }: Settings): boolean {
  const files = outputFiles(output.path);
  if (overwrite || !existsSync(files.output)) return false;
  const left = readManifest(files.manifest);
  if (left !== null) return left.retry !== undefined;
  return existsSync(files.summary) && readSummary(files.summary).rows.failed > 0;
}
