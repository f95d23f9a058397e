import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { marked, stemOf } from '../output/output-name.js';

/** The files that belong to an output. */
export interface OutputFiles {
  readonly output: string;
  /** Where records go until every row is in it; never packed. */
  readonly part: string;
  /** The output as it is written anew out of the part file. */
  readonly rewritten: string;
  readonly manifest: string;
  readonly summary: string;
  /** Rows that a person should see; only of a job that abstains. */
  readonly review: string;
  readonly report: string;
}

/** Names of the files beside an output: `reviews.csv` → `reviews.csv.part`, `reviews.summary.json`, … */
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
  };
}

/**
 * The files of a run whose answers are below what is required: its output, and what stands beside it, have names of their own. Until
 * it has a name it writes to the part file and the manifest of the output that it was to have.
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

/** What stands for a placeholder in the path of an output. */
const FILLED = { date: String.raw`\d{4}-\d\d-\d\d`, run: String.raw`\d{8}-\d{6}-[0-9a-f]{6}` } as const;
const PLACEHOLDER = /\{\{\s*(date|run)\s*\}\}/g;

export const hasPlaceholder = (path: string): boolean => path.search(PLACEHOLDER) !== -1;

/**
 * Outputs whose path fits the one with placeholders, newest name first. Where it has none, nobody has looked for the file.
 * @param ending of the file beside the output that is looked for, `.run.json` for its manifest; empty for the output itself
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

/** Entries of a folder that fit a name with placeholders. */
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
