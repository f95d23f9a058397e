import { rm } from 'node:fs/promises';
import { readSummary } from '../account/read-summary.js';
import type { StoredSummary } from '../account/summary.js';
import { type RecordSettings, recordOptions } from '../config/settings.js';
import { beginningOf, modeOf } from '../output/plain-file.js';
import { writeDurably } from '../output/writer.js';
import type { OutputFiles } from './output-files.js';

/* The report page beside an output. A page of another run or an older output is removed. */

/** Charts and tables are loaded only here. @returns the path */
export const writeReport = (
  files: OutputFiles,
  summary: StoredSummary,
  settings: RecordSettings,
): Promise<string> => written(files, () => summary, settings);

/** For an output or a summary that has changed. */
export async function renewReport(files: OutputFiles, settings: RecordSettings): Promise<void> {
  if (isThere(files)) await written(files, () => readSummary(files.summary), settings);
}

/** Ignores a page that cannot be removed. */
export async function removeReport(files: OutputFiles): Promise<void> {
  if (isThere(files)) await rm(files.report, { force: true }).catch(() => {});
}

async function written(
  files: OutputFiles,
  summary: () => StoredSummary,
  settings: RecordSettings,
): Promise<string> {
  try {
    const { renderHtml } = await import('../render/html.js');
    const { runDocument } = await import('../render/run-document.js');
    const { reportOf } = await import('../render/run-report.js');
    const report = await reportOf(summary(), files.output, recordOptions(settings));
    const page = await renderHtml(runDocument(report));
    await writeDurably(files.report, page, modeOf(files.output));
    return files.report;
  } catch (error) {
    await removeReport(files);
    throw error;
  }
}

/** Other files are not ours to remove. */
const isThere = ({ report }: OutputFiles): boolean =>
  beginningOf(report).includes('<meta name="generator" content="Promptmill">');
