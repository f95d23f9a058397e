import { readFileSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { type Document, isNode, LineCounter, parseDocument } from 'yaml';
import type { z } from 'zod';
import { UsageError } from '../errors.js';
import { type Job, jobJsonSchema, jobSchema } from './job-schema.js';
import { nearest } from './nearest.js';

/** Reads a job file. @throws UsageError naming file and line for anything that is not a valid job */
export function readJobFile(path: string): Job & { name: string } {
  const lines = new LineCounter();
  const document = parseDocument(readText(path), { lineCounter: lines, prettyErrors: false });
  const syntax = document.errors[0];
  if (syntax !== undefined) {
    const { line } = lines.linePos(syntax.pos[0]);
    throw new UsageError('job_not_yaml', `${path}:${line}: not valid YAML: ${firstLine(syntax.message)}`);
  }
  const parsed = jobSchema.safeParse(document.toJS() ?? {}, { reportInput: true });
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap((issue) => describe(issue));
    const shown = problems
      .slice(0, 4)
      .map((problem) => `${path}:${lineOf(document, lines, problem.path)}: ${problem.message}`);
    const more = problems.length - shown.length;
    if (more > 0) shown.push(`and ${more} more`);
    throw new UsageError('job_invalid', shown.join('\n'));
  }
  return { ...parsed.data, name: parsed.data.name ?? basename(path, extname(path)) };
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') {
      throw new UsageError(
        'job_missing',
        `no job file ${path}`,
        'Give the path of a YAML file, for example jobs/sentiment.yaml.',
      );
    }
    if (code === 'EISDIR') {
      throw new UsageError('job_missing', `${path} is a folder`, 'Give the path of one YAML file in it.');
    }
    throw new UsageError(
      'job_unreadable',
      `cannot read ${path}: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** A zod issue in the words of a job file: the field's path, what is wrong, and the nearest known field. */
function describe(issue: z.core.$ZodIssue): Problem[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: [...issue.path, key],
      message: `unknown field ${field([...issue.path, key])}${suggestion(key, issue.path)}`,
    }));
  }
  // For a union, the branch that came furthest knows best what is wrong.
  if (issue.code === 'invalid_union') {
    const branches = issue.errors.filter((issues) => issues.length > 0);
    const best = branches.toSorted((a, b) => depth(b) - depth(a) || a.length - b.length)[0];
    if (best?.some((inner) => inner.code !== 'invalid_type' || inner.path.length > 0)) {
      return best.flatMap((inner) => describe({ ...inner, path: [...issue.path, ...inner.path] }));
    }
  }
  if (issue.code === 'invalid_type' && issue.input === undefined) {
    return [{ path: issue.path, message: `${field(issue.path)} is missing` }];
  }
  return [{ path: issue.path, message: `${field(issue.path)}: ${issue.message}${received(issue)}` }];
}

/** The value received, unless the message has it already. */
function received(issue: z.core.$ZodIssue): string {
  if (issue.input === undefined || issue.message.includes(', got ')) return '';
  const value = JSON.stringify(issue.input) ?? String(issue.input);
  return `, got ${value.length > 60 ? `${value.slice(0, 57)}...` : value}`;
}

const depth = (issues: readonly z.core.$ZodIssue[]): number =>
  Math.max(...issues.map((issue) => issue.path.length));

const field = (path: readonly PropertyKey[]): string => path.map(String).join('.') || 'the job file';

function suggestion(key: string, parent: readonly PropertyKey[]): string {
  let schema: unknown = jobJsonSchema();
  for (const step of parent) schema = member(member(schema, 'properties'), step);
  const properties = member(schema, 'properties');
  const known = typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
  const near = nearest(key, known);
  if (near !== null) return `; did you mean ${near}?`;
  return known.length > 0 ? `; known here: ${known.join(', ')}` : '';
}

const member = (value: unknown, key: PropertyKey): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;

/** Line of the deepest node of the path that the file has. */
function lineOf(document: Document, lines: LineCounter, path: readonly PropertyKey[]): number {
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}

const firstLine = (message: string): string => message.split('\n', 1)[0] ?? '';
