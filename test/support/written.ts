import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { type StoredSummary, summaryText } from '../../src/account/summary.js';
import type { Written } from '../../src/output/written.js';
import { outputFiles } from '../../src/resume/output-files.js';

/** What a summary says of an output that stands there, as far as it is by its digest alone. */
const writtenNow = (output: string): Written => ({
  sha256: createHash('sha256').update(readFileSync(output)).digest('hex'),
  ...{ rows: 0, header: 0, records: 0, block: 1, places: [] },
});

/** Puts a summary beside an output, as a run does. */
export function leaveSummary(output: string, summary: StoredSummary): void {
  const details = { ...summary.details, written: writtenNow(output) };
  writeFileSync(outputFiles(output).summary, summaryText({ ...summary, details }));
}

/** Changes a summary as if it had been written so. */
export function changeSummary(path: string, change: object): void {
  writeFileSync(path, summaryText({ ...JSON.parse(readFileSync(path, 'utf8')), ...change }));
}
