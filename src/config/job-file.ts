import { basename, extname } from 'node:path';
import { type Document, isNode, type LineCounter } from 'yaml';
import { UsageError } from '../errors.js';
import { readJobDocument } from './job-document.js';
import { jobProblems } from './job-problem.js';
import { type Job, jobSchema } from './job-schema.js';

/** Reads a job file. @throws UsageError naming file and line for anything that is not a valid job */
export function readJobFile(path: string): Job & { name: string } {
  const { document, lines, value } = readJobDocument(path);
  const parsed = jobSchema.safeParse(value ?? {}, { reportInput: true });
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap((issue) => jobProblems(issue));
    const shown = problems
      .slice(0, 4)
      .map((problem) => `${path}:${lineOf(document, lines, problem.path)}: ${problem.message}`);
    const more = problems.length - shown.length;
    if (more > 0) shown.push(`and ${more} more`);
    throw new UsageError('job_invalid', shown.join('\n'));
  }
  return { ...parsed.data, name: parsed.data.name ?? basename(path, extname(path)) };
}

/** Line of the deepest node of the path that the file has. */
function lineOf(document: Document, lines: LineCounter, path: readonly PropertyKey[]): number {
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}
