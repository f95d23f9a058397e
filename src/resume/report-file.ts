import { rm } from 'node:fs/promises';
import { readSummary } from '../account/read-summary.js';
import type { StoredSummary } from '../account/summary.js';
import { modeOf, readOwn } from '../output/own-file.js';
import { writeDurably } from '../output/writer.js';
import type { OutputFiles } from './output-files.js';

/* The page with the report beside an output. One of another run, or of the output as it was, is not left there. */

/**
 * Writes the page of an output that has its name. Charts and tables are loaded for it only.
 * @returns its path
 */
export const writeReport = (files: OutputFiles, summary: StoredSummary): Promise<string> =>
  written(files, () => summary);

/** Makes the page anew where one is there, because the output or its summary has changed. */
export async function renewReport(files: OutputFiles): Promise<void> {
  if (isThere(files)) await written(files, () => readSummary(files.summary));
}

/** Removes a page that is not of this output any more. One that cannot be removed stays. */
export async function removeReport(files: OutputFiles): Promise<void> {
  if (isThere(files)) await rm(files.report, { force: true }).catch(() => {});
}

async function written(files: OutputFiles, summary: () => StoredSummary): Promise<string> {
  try {
    const { renderHtml } = await import('../render/html.js');
    const { runDocument } = await import('../render/run-document.js');
    const { reportOf } = await import('../render/run-report.js');
    const page = await renderHtml(runDocument(await reportOf(summary(), files.output)));
    await writeDurably(files.report, page, modeOf(files.output));
    return files.report;
  } catch (error) {
    await removeReport(files);
    throw error;
  }
}

/** Whether a page is there that we have written: anything else is not ours to remove. */
function isThere({ report }: OutputFiles): boolean {
  try {
    return readOwn(report).slice(0, 200).includes('<meta name="generator" content="Promptmill">');
  } catch {
    return false;
  }
}
