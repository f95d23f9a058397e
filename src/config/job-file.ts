import { closeSync, constants, lstatSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import {
  type CST,
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  parseDocument,
  visit,
  type YAMLParseError,
} from 'yaml';
import { errorCode, errorText, UsageError } from '../core/errors.js';
import { count } from '../core/figures.js';
import { nearest } from '../core/nearest.js';
import { shellWord } from '../core/started.js';
import { formatOfName } from '../source/format.js';
import { kindOfName } from '../source/kind.js';
import { type Environment, readEnvironment } from './environment.js';
import { invalidJob } from './job-problem.js';
import { jobSchema, type NamedJob } from './job-schema.js';
import { readSet, withFields } from './set-fields.js';
import { fillVariables } from './variables.js';

/**
 * @param environment for the values of `${NAME}`. @default that of the process, with `.env`
 * @param set other values for some of its fields, as `path=value`
 * @throws UsageError with file and line for anything that is not a valid job
 */
export const readJobFile = (path: string, environment?: Environment, set: readonly string[] = []): NamedJob =>
  parseJob(readText(path), path, environment, set);

/** @param path names the job in messages @throws UsageError as {@link readJobFile} does */
export function parseJob(
  text: string,
  path: string,
  environment?: Environment,
  set: readonly string[] = [],
): NamedJob {
  // A summary has what was set.
  const { keys } = set.length === 0 ? { keys: [] } : (environment ?? readEnvironment(process.env));
  if (set.some((text) => keys.some((key) => key !== '' && text.includes(key))))
    throw new UsageError(
      'bad_set',
      '--set has a key of the service in its value, and the summary would tell it',
      'Keys are read from PROMPTMILL_API_KEY only.',
    );
  const fields = set.map(readSet);
  const { document, lines, value } = readYaml(text, path);
  const place = ({ range }: Node): string => `${path}:${lines.linePos(range?.[0] ?? 0).line}`;
  const isFilled = fillVariables(document, place, () => environment ?? readEnvironment(process.env));
  const content = withFields((isFilled ? document.toJS() : value) ?? {}, fields);
  const parsed = jobSchema.safeParse(content, { reportInput: true });
  if (!parsed.success) {
    throw invalidJob(parsed.error, (at) => {
      const own = fields.findLast((field) => field.path.every((name, i) => name === String(at[i])));
      return own === undefined ? `${path}:${lineOf(document, lines, at)}` : `--set ${own.text}`;
    });
  }
  const { name = basename(path, extname(path)) } = parsed.data;
  return { ...parsed.data, name, file: path, ...(set.length > 0 && { set }) };
}

/** Line of the deepest field or entry of the path that exists in the file. */
export function lineOf(document: Document, lines: LineCounter, path: readonly PropertyKey[]): number {
  let node: unknown = document.contents;
  let at = 0;
  for (const step of path) {
    let place: unknown;
    if (isMap(node)) {
      // A key may be a number: the label 1.
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
      [place, node] = [pair?.key, pair?.value];
    } else {
      place = isSeq(node) ? node.items[Number(step)] : undefined;
      node = place;
    }
    if (!isNode(place) || !place.range) break;
    at = place.range[0];
  }
  return lines.linePos(at).line;
}

interface YamlFile {
  readonly document: Document;
  readonly lines: LineCounter;
  /** The content as plain data without cycles; null for an empty file. */
  readonly value: unknown;
}

/** Bytes; many times the longest job file. */
const MOST_BYTES = 1_048_576;
const NOT_YAML = 'not valid YAML: ';
/** Levels, mostly of a JSON Schema in the job file. */
const DEEPEST = 200;

/**
 * Its aliases all resolve, and expand to a bounded size (fault 83). @throws UsageError with the file, and the
 * line if any
 */
export function readYaml(text: string, path: string): YamlFile {
  const lines = new LineCounter();
  const said = (at: number | null, message: string, code = 'job_not_yaml'): UsageError =>
    new UsageError(code, `${path}${at === null ? '' : `:${lines.linePos(at).line}`}: ${message}`);
  try {
    if (isTooDeep(text)) throw said(null, `${NOT_YAML}nested in more than ${DEEPEST} levels`);
    // The parser compares each key with all keys before it (fault 74); `problemIn` finds duplicates instead.
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false });
    const syntax = document.errors[0];
    if (syntax !== undefined) throw said(syntax.pos[0], NOT_YAML + syntaxProblem(syntax, text));
    const problem = problemIn(document, text);
    if (problem !== null) throw said(problem.at, problem.message, problem.code);
    return { document, lines, value: document.toJS() };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    // Thrown by the parser: aliases that expand to more than 100 times the text, or thousands of nested
    // brackets.
    const isDeep = error instanceof RangeError;
    throw said(null, `${NOT_YAML}${isDeep ? 'nested too deeply' : 'its aliases unfold to too much'}`);
  }
}

/** Checked before composing, which recurses per level: a stack overflow there may end the process. */
function isTooDeep(text: string): boolean {
  let level: readonly CST.Token[] = [...new Parser().parse(text)];
  for (let depth = 0; depth <= DEEPEST; depth++) {
    level = level.flatMap(within);
    if (level.length === 0) return false;
  }
  return true;
}

function within(token: CST.Token): CST.Token[] {
  if (token.type === 'document') return token.value === undefined ? [] : [token.value];
  if (!('items' in token)) return [];
  return token.items.flatMap(({ key, value }) => [key ?? [], value ?? []].flat());
}

interface YamlProblem {
  readonly at: number;
  readonly message: string;
  readonly code: string;
}

/** Duplicate fields, unresolved or circular aliases, and names that are not allowed. */
function problemIn(document: Document, text: string): YamlProblem | null {
  let problem: YamlProblem | null = null;
  const found = (node: unknown, message: string, code = 'job_not_yaml'): symbol => {
    problem = { at: (isNode(node) && node.range?.[0]) || 0, message, code };
    return visit.BREAK;
  };
  /** Valid YAML, but probably a mistake. */
  const hardlyMeant = (key: Node, message: string, code?: string): symbol =>
    found(key, `${message}: ${lineAt(text, key.range?.[0] ?? 0).trim()}`, code);
  visit(document, {
    Map(_, { items }) {
      const names = new Set<string>();
      for (const { key } of items) {
        const name = String(isScalar(key) ? key.value : key);
        if (names.has(name))
          return found(key, `${NOT_YAML}the field ${name} stands here a second time: take one away`);
        names.add(name);
      }
      return undefined;
    },
    Pair(_, { key }) {
      // YAML reads a text that begins with two braces as a map whose key is another map.
      if (isCollection(key)) return hardlyMeant(key, QUOTES);
      // The check of the job file would leave the field out.
      if (isScalar(key) && key.value === '__proto__') return hardlyMeant(key, PROTO, 'job_invalid');
      return undefined;
    },
    Alias(_, alias, ancestors) {
      const target = alias.resolve(document);
      if (target === undefined || isAlias(target))
        return found(alias, `${NOT_YAML}no anchor &${alias.source} comes before the alias *${alias.source}`);
      if (!ancestors.includes(target)) return undefined;
      return found(alias, `${NOT_YAML}the alias *${alias.source} is inside of what it stands for`);
    },
  });
  return problem;
}

function readText(path: string): string {
  const bytes = readBytes(path);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    const utf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
    throw new UsageError(
      'job_unreadable',
      `${path} is not UTF-8 text${utf16 ? ', but UTF-16' : ''}`,
      'Save the job file as UTF-8.',
    );
  }
}

function readBytes(path: string): Buffer {
  try {
    const there = statSync(path);
    if (there.isDirectory()) {
      throw new UsageError('job_is_folder', `${path} is a folder`, 'Give the path of one YAML file in it.');
    }
    if (!there.isFile()) {
      throw new UsageError('job_unreadable', `${path} is a pipe or a device`, 'A job file is a plain file.');
    }
    const kind = kindOfName(path);
    if (kind !== null) {
      throw new UsageError(
        'job_is_data',
        `${path} ${kind.is} by its name, and a job is a YAML file`,
        kind.remedy,
      );
    }
    // JSON is YAML, so a job may be in a .json file.
    if (formatOfName(path) !== null && extname(path).toLowerCase() !== '.json') {
      throw new UsageError(
        'job_is_data',
        `${path} is data by its name, and a job is a YAML file`,
        `Write one for it with: promptmill init ${shellWord(path)}`,
      );
    }
    if (there.size > MOST_BYTES) {
      throw new UsageError(
        'job_unreadable',
        `${path} has ${count(there.size / 1_000_000)} MB, and a job file at most 1`,
        'Is it the data? A job file names its data as input.path.',
      );
    }
    // If a pipe has replaced the file meanwhile, do not wait for a writer.
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return readFileSync(file);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    if (errorCode(error) === 'ENOENT') {
      throw new UsageError(
        'job_missing',
        `no job file ${path}${isLink(path) ? ', but a link to a file that is not there' : meant(path)}`,
        'Give the path of a YAML file, for example jobs/sentiment.yaml.',
      );
    }
    throw new UsageError('job_unreadable', `cannot read ${path}: ${errorText(error)}`);
  }
}

function meant(path: string): string {
  const folder = dirname(path);
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch {
    return '';
  }
  const near = nearest(
    basename(path),
    names.filter((name) => /\.ya?ml$/.test(name)),
  );
  return near === null ? '' : `; did you mean ${join(folder, near)}?`;
}

const isLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;

const PROTO = 'a field cannot be called __proto__: choose another name';
const QUOTES = 'put a text with {{ }} in quotes, or behind | on lines of its own';
const VARIABLE_QUOTES = `put a text with \${ } in quotes where braces or brackets are around it`;

/** The problem in our words, with the remedy; the parser's own words where they are good. */
function syntaxProblem({ code, message, pos }: YAMLParseError, text: string): string {
  const line = lineAt(text, pos[0]);
  if (line.includes('{{') && (code === 'UNEXPECTED_TOKEN' || code === 'MISSING_CHAR'))
    return `${QUOTES}: ${line.trim()}`;
  if (line.includes('${') && (code === 'UNEXPECTED_TOKEN' || code === 'MISSING_CHAR'))
    return `${VARIABLE_QUOTES}: ${line.trim()}`;
  switch (code) {
    case 'TAB_AS_INDENT':
      return 'a tab begins the line: YAML takes spaces only';
    case 'BLOCK_AS_IMPLICIT_KEY':
      return `put a text with ": " in it in quotes, or behind | on lines of its own: ${line.trim()}`;
    case 'BAD_SCALAR_START':
      return `put a text that begins with ${text.charAt(pos[0])} in quotes: ${line.trim()}`;
    case 'MISSING_CHAR':
      return 'a quote or a bracket before this line is never closed: put its other one where it ends';
    default:
      if (code === 'BAD_INDENT' && message.startsWith('Flow')) {
        return 'a bracket before this line is never closed: put its other one where it ends';
      }
      return [firstLine(message), line.trim()].filter((part) => part !== '').join(': ');
  }
}

function lineAt(text: string, position: number): string {
  const start = text.lastIndexOf('\n', position - 1) + 1;
  const end = text.indexOf('\n', position);
  return text.slice(start, end < 0 ? undefined : end).slice(0, 120);
}

const firstLine = (message: string): string => message.split('\n', 1)[0] ?? '';
