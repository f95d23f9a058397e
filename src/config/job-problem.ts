import * as z from 'zod';
import { either, UsageError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import { refusedParameter } from '../service/parameters.js';
import { jobSchema } from './job-schema.js';

interface JobProblem {
  readonly path: readonly PropertyKey[];
  /** One sentence: field, expectation, value, remedy. Lazy, because a file may have 100,000 problems. */
  readonly message: () => string;
}

/** @param place where the job has a field, for messages */
export function invalidJob(
  { issues }: z.ZodError,
  place: (field: readonly PropertyKey[]) => string,
): UsageError {
  const problems = issues.flatMap((issue) => jobProblems(issue));
  const shown = problems.slice(0, 4).map(({ path, message }) => `${place(path)}: ${message()}`);
  const more = problems.length - shown.length;
  if (more > 0) shown.push(`and ${more} more`);
  return new UsageError('job_invalid', shown.join('\n'));
}

function jobProblems(issue: z.core.$ZodIssue): JobProblem[] {
  const { path } = issue;
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: [...path, key],
      message: () => unknownField(key, path, issue.input),
    }));
  }
  if (issue.code === 'invalid_union') {
    const branch = branchMeant(issue);
    if (branch !== null) {
      return branch.flatMap((inner) => jobProblems({ ...inner, path: [...path, ...inner.path] }));
    }
  }
  // Only for a missing member is the input undefined; an empty entry of a list is null.
  if (isMissing(issue)) {
    return [{ path, message: () => `${named(path)} is missing${example(path)}` }];
  }
  if (issue.input === null) {
    return [{ path, message: () => `${named(path)} is empty: give it a value, or remove the line` }];
  }
  return [{ path, message: () => `${named(path)} ${expectation(issue)}${received(issue)}${remedy(issue)}` }];
}

/** The problems of the branch that matched furthest; null when every branch fails at the value itself. */
function branchMeant(issue: z.core.$ZodIssueInvalidUnion): readonly z.core.$ZodIssue[] | null {
  const branches = issue.errors.filter((issues) => issues.length > 0);
  // The others expect another type.
  const [only, ...others] = branches.filter((issues) => !issues.every(isTypeOfWhole));
  if (only !== undefined && others.length === 0) return only;
  const depth = (issues: readonly z.core.$ZodIssue[]): number =>
    Math.max(...issues.map((inner) => inner.path.length));
  const lacks = (issues: readonly z.core.$ZodIssue[]): number => Number(issues.some(isMissing));
  const best = branches.toSorted(
    (a, b) => lacks(a) - lacks(b) || depth(b) - depth(a) || a.length - b.length,
  )[0];
  if (best === undefined || best.every(isTypeOfWhole)) {
    return null;
  }
  // Report the fields that are present, not the missing ones.
  const there = best.filter((inner) => !isMissing(inner));
  return there.length > 0 ? there : null;
}

const isTypeOfWhole = ({ code, path }: z.core.$ZodIssue): boolean =>
  (code === 'invalid_type' || code === 'invalid_value') && path.length === 0;

const isMissing = (issue: z.core.$ZodIssue): boolean =>
  (issue.code === 'invalid_type' || issue.code === 'invalid_union') && issue.input === undefined;

/** Text that follows the name of the field. */
function expectation(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
    case 'too_small':
    case 'too_big':
      return isOwn(issue.message) ? issue.message : `must be ${kindOf(issue)}`;
    case 'invalid_value':
      return isOwn(issue.message) ? issue.message : `must be ${either(issue.values.map(String))}`;
    case 'invalid_union':
      return isOwn(issue.message) ? issue.message : 'must be of another kind';
    case 'invalid_key':
      return 'must have the number of a token as its name';
    case 'unrecognized_keys':
    case 'invalid_element':
    case 'invalid_format':
    case 'not_multiple_of':
    case 'custom':
      return issue.message;
  }
}

/** Messages of our schema follow the name of a field; those of the library are whole sentences. */
const isOwn = (message: string): boolean => /^(?:must|needs|is|has|may) /.test(message);

function kindOf(
  issue: z.core.$ZodIssueInvalidType | z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig,
): string {
  const kind = issue.code === 'invalid_type' ? issue.expected : issue.origin;
  switch (kind) {
    case 'object':
    case 'record':
      return 'a group of fields';
    case 'array':
      if (issue.code === 'too_small') return `a list of at least ${issue.minimum}`;
      return issue.code === 'too_big' ? `a list of at most ${issue.maximum}` : 'a list';
    case 'string':
      if (issue.code === 'too_small') return `a text of at least ${issue.minimum} characters`;
      // A fixed length is reported as its maximum.
      return issue.code === 'too_big' ? `a text of at most ${characters(issue.maximum)}` : 'a text';
    case 'number':
      return 'a number';
    case 'boolean':
      return 'true or false';
    default:
      return `a ${kind}`;
  }
}

const characters = (count: number | bigint): string =>
  count === 1 ? 'one character' : `${count} characters`;

function received(issue: z.core.$ZodIssue): string {
  if (issue.input === undefined || issue.message.includes(', got ')) return '';
  // The content of a group is no help, and may be more than the file contains.
  if (issue.code === 'custom' && typeof issue.input === 'object') return '';
  const value = JSON.stringify(issue.input) ?? String(issue.input);
  return `, got ${value.length > 60 ? `${value.slice(0, 57)}...` : value}`;
}

function remedy(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_value' && typeof issue.input === 'string') {
    if (written(issue.path) === 'service.style' && /chat/i.test(issue.input))
      return ': for conversation models write service: { operation: chat }';
    const near = nearest(issue.input, issue.values.map(String));
    return near === null ? '' : `; did you mean ${near}?`;
  }
  const { input: value } = issue;
  if (issue.code === 'too_big' && issue.maximum === 1 && typeof value === 'number' && value <= 100)
    return `: write ${value / 100} for ${value} %`;
  if (issue.code !== 'invalid_type') return '';
  const { input } = issue;
  const isNumber = issue.expected === 'number' || issue.expected === 'int';
  if (isNumber && typeof input === 'string' && received(issue) !== '') return asNumber(input, issue.path);
  if (isOwn(issue.message)) return '';
  if (issue.expected === 'object') {
    const fields = fieldsAt(issue.path);
    return fields.length === 0 ? '' : `; its fields are ${fields.join(', ')}`;
  }
  if (issue.expected === 'array' && typeof input === 'string') return `: write [${input}]`;
  if (issue.expected === 'string' && (typeof input === 'number' || typeof input === 'boolean')) {
    return `: write "${input}", in quotes`;
  }
  return '';
}

function asNumber(text: string, path: readonly PropertyKey[]): string {
  if (isNumber(text)) return `: write ${Number(text)}, without quotes`;
  const [, digits = '', unit = ''] = /^\s*(\d[\d_, ']*(?:\.\d+)?)\s*([a-z%]*)\s*$/i.exec(text) ?? [];
  const value = Number(digits.replace(/[_, ']/g, ''));
  const factors = String(path.at(-1)).endsWith('_seconds') ? SECONDS : FACTORS;
  const factor = factors[unit.toLowerCase()];
  return digits === '' || factor === undefined ? '' : `: write ${Number((value * factor).toPrecision(12))}`;
}

const FACTORS: Readonly<Record<string, number>> = { '': 1, '%': 0.01, k: 1e3, m: 1e6 };
const SECONDS: Readonly<Record<string, number>> = {
  '': 1,
  s: 1,
  sec: 1,
  seconds: 1,
  m: 60,
  min: 60,
  h: 3600,
};

const isNumber = (text: string): boolean => text.trim() !== '' && Number.isFinite(Number(text));

function example(path: readonly PropertyKey[]): string {
  const line = EXAMPLES.get(path.map(String).join('.'));
  return line === undefined ? '' : `: add a line such as ${line}`;
}

const EXAMPLES: ReadonlyMap<string, string> = new Map([
  ['service', 'service: { deployment: lm-35-turbo-instruct }'],
  ['service.deployment', 'deployment: lm-35-turbo-instruct'],
  ['input', 'input: { path: reviews.csv }'],
  ['input.path', 'path: reviews.csv'],
  ['schedule.cron', 'cron: "0 2 * * *"'],
  ['prices.prompt', 'prompt: 0.0015'],
  ['prices.completion', 'completion: 0.002'],
]);

function unknownField(key: string, parent: readonly PropertyKey[], group: unknown): string {
  const place = [...parent, key];
  const unknown = `unknown field ${written(place)}`;
  const elsewhere = allFields().filter((path) => path.at(-1) === key);
  if (elsewhere.some((path) => path.join('.') === written(place))) {
    const others = choicesAt(parent).filter((name) => name !== key && Object.hasOwn(Object(group), name));
    return `${written(parent)} has ${[key, ...others].join(' and ')}: remove one of them`;
  }
  const refused = parent[0] === 'parameters' && parent.length === 1 ? refusedParameter(key) : null;
  if (refused !== null) return `${written(place)} ${refused}`;
  if (parent[1] === 'endpoints' && key === 'api_key')
    return `${unknown}: write key, with the name of the environment variable that holds it`;
  const variable = VARIABLES.get(key);
  if (variable !== undefined) return `${unknown}: set ${variable} in the environment or in .env`;
  const siblings = fieldsAt(parent);
  const withUnit = siblings.find((name) => name.startsWith(`${key}_`));
  if (withUnit !== undefined) return `${unknown}: did you mean ${written([...parent, withUnit])}?`;
  const called = CALLED.get(key);
  if (called !== undefined) return `${unknown}: write it as ${called}`;
  if (elsewhere.length > 0) return `${unknown}: write it as ${either(elsewhere.map(written))}`;
  const near = nearest(key, siblings);
  if (near !== null) return `${unknown}: did you mean ${written([...parent, near])}?`;
  const names = allFields().flatMap((path) => path.at(-1) ?? []);
  const far = nearest(key, names);
  if (far !== null) {
    const meant = allFields().filter((path) => path.at(-1) === far);
    return `${unknown}: did you mean ${either(meant.map(written))}?`;
  }
  return siblings.length > 0 ? `${unknown}: known here are ${siblings.join(', ')}` : unknown;
}

/** Not fields of a job file, because they differ between machines or are secret. */
const VARIABLES: ReadonlyMap<string, string> = new Map([
  ['api_key', 'PROMPTMILL_API_KEY'],
  ['key', 'PROMPTMILL_API_KEY'],
  ['base_url', 'PROMPTMILL_BASE_URL'],
  ['url', 'PROMPTMILL_BASE_URL'],
  ['queue', 'PROMPTMILL_QUEUE'],
]);

/** Names that other tools use for our fields. */
const CALLED: ReadonlyMap<string, string> = new Map([
  ['timeout', 'limits.timeout_seconds, a number of seconds'],
  ['retries', 'limits.attempts'],
  ['max_retries', 'limits.attempts'],
  ['workers', 'limits.concurrency'],
  ['threads', 'limits.concurrency'],
  ['rpm', 'limits.requests_per_minute'],
  ['tpm', 'limits.tokens_per_minute'],
  ['template', 'prompt'],
  ['schema', 'answer.json'],
  ['file', 'input.path'],
]);

const written = (path: readonly PropertyKey[]): string => path.map(String).join('.');

/** `limits.budget.cost`, `entry 2 of answer.labels` */
function named(path: readonly PropertyKey[]): string {
  const last = path.at(-1);
  if (typeof last === 'number') return `entry ${last + 1} of ${named(path.slice(0, -1))}`;
  return written(path) || 'the job file';
}

/** The field groups allowed at a place of a job file; several for a union. */
const groupsAt = (path: readonly PropertyKey[]): readonly z.ZodObject[] =>
  path.reduce<readonly z.ZodObject[]>(
    (groups, step, i) =>
      typeof step === 'number'
        ? groups
        : groups.flatMap(({ shape }) => groupsOf(shape[String(step)], typeof path[i + 1] === 'number')),
    groupsOf(jobSchema),
  );

/** @param ofEntry whether an entry of a list is meant. @default false */
function groupsOf(schema: unknown, ofEntry = false): z.ZodObject[] {
  if (schema instanceof z.ZodObject) return [schema];
  if (schema instanceof z.ZodArray) return ofEntry ? groupsOf(schema.element) : [];
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((each) => groupsOf(each, ofEntry));
  if (schema instanceof z.ZodPipe) return groupsOf(schema.in, ofEntry);
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault)
    return groupsOf(schema.unwrap(), ofEntry);
  return [];
}

const fieldsAt = (path: readonly PropertyKey[]): string[] => [
  ...new Set(groupsAt(path).flatMap(({ shape }) => Object.keys(shape))),
];

/** The fields that only some variants of the group have. */
const choicesAt = (path: readonly PropertyKey[]): string[] => {
  const groups = groupsAt(path);
  return fieldsAt(path).filter((name) => groups.some(({ shape }) => !(name in shape)));
};

const allFields = (path: readonly string[] = []): readonly string[][] =>
  fieldsAt(path).flatMap((name) => [[...path, name], ...allFields([...path, name])]);
