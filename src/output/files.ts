import { extname } from 'node:path';

/** The files that belong to an output. */
export interface OutputFiles {
  readonly output: string;
  /** Where records go until every row is in it. */
  readonly part: string;
  readonly manifest: string;
  readonly summary: string;
}

/** Names of the files beside an output: `reviews.csv` → `reviews.csv.part`, `reviews.summary.json`, … */
export function outputFiles(output: string): OutputFiles {
  const stem = output.slice(0, output.length - extname(output).length);
  return {
    output,
    part: `${output}.part`,
    manifest: `${output}.run.json`,
    summary: `${stem}.summary.json`,
  };
}

/** Fills `{{date}}` (local date, `2026-11-21`) and `{{run}}` into an output path. */
export function fillOutputPath(path: string, run: string, now: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0');
  const date = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  return path.replace(/\{\{\s*date\s*\}\}/g, date).replace(/\{\{\s*run\s*\}\}/g, run);
}
