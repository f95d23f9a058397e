import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { marked, stemOf } from '../output/output-name.js';

export interface OutputFiles {
  readonly output: string;
  /** Never packed. */
  readonly part: string;
  readonly rewritten: string;
  readonly manifest: string;
  readonly summary: string;
  readonly review: string;
  readonly report: string;
  /** Of rows without an answer, where the format of the output has such a file. Never packed. */
  readonly errors: string;
}

/** `reviews.csv` → `reviews.csv.part`, `reviews.summary.json`, … */
export function outputFiles(output: string): OutputFiles {
  const stem = stemOf(output);
  return {
    output,
    part: `${output}.part`,
    rewritten: `${output}.part.tmp`,
    manifest: `${output}.run.json`,
    summary: `${stem}.summary.json`,
    review: `${stem}.review.csv`,
    report: `${stem}.report.html`,
    errors: `${stem}.errors.jsonl`,
  };
}

/**
 * The files of a run below its requirements have names of their own. Until it finishes, it writes to the part
 * file and the manifest of the intended output.
 */
export function rejectedFiles(files: OutputFiles): OutputFiles {
  const { part, rewritten, manifest } = files;
  return { ...outputFiles(marked(files.output, 'rejected')), part, rewritten, manifest };
}

/** Fills `{{date}}` (local date, `2026-11-21`) and `{{run}}` into an output path. */
export function fillOutputPath(path: string, run: string, now: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0');
  const date = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  return path.replace(/\{\{\s*date\s*\}\}/g, date).replace(/\{\{\s*run\s*\}\}/g, run);
}

const FILLED = { date: String.raw`\d{4}-\d\d-\d\d`, run: String.raw`\d{8}-\d{6}-[0-9a-f]{6}` } as const;
export const PLACEHOLDER = /\{\{\s*(date|run)\s*\}\}/g;

export const hasPlaceholder = (path: string): boolean => path.search(PLACEHOLDER) !== -1;

/**
 * Newest name first. A path without placeholders is returned unchecked.
 * @param ending of the file beside the output, `.run.json` for its manifest; empty for the output itself
 */
export function filledPaths(path: string, ending: '.run.json' | ''): string[] {
  const segments = path.split('/');
  let found = [path.startsWith('/') ? '/' : '.'];
  for (const [i, segment] of segments.entries()) {
    const last = i === segments.length - 1;
    const name = last ? segment + ending : segment;
    found = found.flatMap((folder) => namesIn(folder, name).map((match) => join(folder, match)));
  }
  return found
    .map((name) => name.slice(0, name.length - ending.length))
    .sort()
    .reverse();
}

function namesIn(folder: string, name: string): string[] {
  if (name === '' || !hasPlaceholder(name)) return [name];
  const pattern = name
    .split(PLACEHOLDER)
    .map((part, i) =>
      i % 2 === 1 ? FILLED[part as keyof typeof FILLED] : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    )
    .join('');
  const fits = new RegExp(`^${pattern}$`);
  return existsSync(folder) ? readdirSync(folder).filter((entry) => fits.test(entry)) : [];
}
