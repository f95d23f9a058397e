import Mustache, { type TemplateSpans } from 'mustache';
import { errorText, UsageError } from '../core/errors.js';
import { valueText } from '../core/json.js';
import type { Json, Row } from '../core/model.js';
import { unknownNames } from '../core/nearest.js';
import type { InputFormat } from '../source/input.js';

export interface Template {
  readonly names: readonly string[];
  /** Values are never parsed as templates; a missing or empty value renders as nothing. */
  render(row: Pick<Row, 'fields'>): string;
}

export interface TemplateInput {
  readonly name: string;
  readonly columns: readonly string[];
  /** Dotted names (`{{ order.total }}`) reach into JSON values only. */
  readonly format: Pick<InputFormat, 'hasJson'>;
  /** In messages. @default `prompt` and `column` */
  readonly called?: { readonly template: string; readonly column: string };
}

/** The columns that a template may read, in its order: `{{ a.b }}` reads `a.b` or, in JSON, `a`. */
export function columnsInTags(template: string): readonly string[] {
  const names = [...template.matchAll(/\{\{[{#^&]?(?![!/])([^{}]+)\}/g)].map(([, name = '']) => name.trim());
  return [...new Set(names.flatMap((name) => [name, name.replace(/\..*/, '')]))];
}

/** Not the library's global default, which any importer can change. */
const TAGS: [string, string] = ['{{', '}}'];

/**
 * Compiles a Mustache template: variables, sections, inverted sections and comments. A name is looked up
 * whole first (`{{ Review Text }}`, `{{ a.b }}`), then as a path into a JSON value. A column that begins with
 * one of Mustache's signs is written `{{& #id }}`.
 * @throws UsageError `template_syntax` with the line, `template_unsupported` for partials and changed
 *   delimiters, `template_name_unknown` with all unknown names
 */
export function compileTemplate(text: string, input: TemplateInput): Template {
  const columnOf = columnFinder(input.columns);
  const { template: called, column } = input.called ?? { template: 'prompt', column: 'column' };
  const writer = new TextWriter();
  const tokens = parse(writer, text, called);
  const { columns, unknown } = checkNames(tokens, text, input, called, columnOf);
  if (unknown.length > 0) {
    const use = {
      code: 'template_name_unknown',
      user: `${called} uses`,
      owner: `${input.name} has`,
      kind: column,
      quote: (name: string) => `{{ ${name} }}`,
    };
    throw unknownNames(use, unknown, input.columns);
  }
  return { names: columns, render: (row) => writer.render(text, Scope.ofRow(row, columnOf), {}, TAGS) };
}

/** Mustache trims names, so a column is also found without white space around its name. */
function columnFinder(columns: readonly string[]): (name: string) => string | null {
  const known = new Map(columns.toReversed().map((column) => [column.trim(), column]));
  for (const column of columns) known.set(column, column);
  return (name) => known.get(name) ?? null;
}

function parse(writer: TextWriter, text: string, called: string): TemplateSpans {
  try {
    return writer.parse(text, TAGS);
  } catch (error) {
    // The library throws plain errors: only the message tells what and where.
    const message = errorText(error);
    const tag = message.startsWith('Unclosed tag');
    const at = tag ? openTag(text) : Number(/ at (\d+)$/.exec(message)?.[1] ?? 0);
    throw new UsageError(
      'template_syntax',
      `${called}, line ${lineAt(text, at)}: ${message.replace(/ at \d+$/, '')}`,
      tag ? 'End it with }}.' : 'For a column whose name begins with #, ^ or /, write {{& #name }}.',
    );
  }
}

/** Start of the unclosed tag: the library only reports where it gave up. */
function openTag(text: string): number {
  const afterClosed = text.indexOf('{{', text.lastIndexOf('}}') + 1);
  return afterClosed < 0 ? text.lastIndexOf('{{') : afterClosed;
}

const lineAt = (text: string, position: number): number => text.slice(0, position).split('\n').length;

/** In JSON input, names inside a section may belong to its value, which only the rows know. */
function checkNames(
  tokens: TemplateSpans,
  text: string,
  input: TemplateInput,
  called: string,
  columnOf: (name: string) => string | null,
): { columns: string[]; unknown: string[] } {
  const columns = new Set<string>();
  const unknown = new Set<string>();
  const visit = (spans: TemplateSpans, inside: boolean): void => {
    for (const [type, name, start, , inner] of spans) {
      if (type === 'text' || type === '!') continue;
      if (type === '>' || type === '=') throw unsupported(type, called, lineAt(text, start));
      const head = input.format.hasJson ? (name.split('.')[0] ?? name) : name;
      const column = columnOf(name) ?? columnOf(head);
      if (column !== null) columns.add(column);
      else if (!(inside && (name === '.' || input.format.hasJson))) unknown.add(name);
      if (Array.isArray(inner)) visit(inner, inside || type === '#');
    }
  };
  visit(tokens, false);
  return { columns: [...columns], unknown: [...unknown] };
}

function unsupported(type: '>' | '=', called: string, line: number): UsageError {
  const what = type === '>' ? 'partials ({{> name }})' : 'changed delimiters ({{= =}})';
  return new UsageError(
    'template_unsupported',
    `${called}, line ${line}: ${what} are not supported`,
    'Write the text itself into the prompt.',
  );
}

/**
 * Mustache's own lookup reaches prototypes and calls functions. This one finds only columns, and own
 * properties of JSON values (faults 9 and 56).
 */
class Scope extends Mustache.Context {
  private constructor(
    private readonly find: (name: string) => Json | undefined,
    view: unknown,
    private readonly outer: Scope | null,
  ) {
    super(view);
  }

  static ofRow(row: Pick<Row, 'fields'>, columnOf: (name: string) => string | null): Scope {
    const find = (name: string): Json | undefined => {
      const column = columnOf(name);
      if (column !== null) return row.fields.get(column);
      const [first = '', ...path] = name.split('.');
      const head = columnOf(first);
      return head === null ? undefined : descend(row.fields.get(head), path);
    };
    return new Scope(find, row, null);
  }

  /** Names inside a section: its value's first, then the outer ones. */
  override push(view: Json): Scope {
    const find = (name: string): Json | undefined => {
      if (name === '.') return view;
      const whole = descend(view, [name]);
      return whole === undefined ? descend(view, name.split('.')) : whole;
    };
    return new Scope(find, view, this);
  }

  override lookup(name: string): Json | undefined {
    const value = this.find(name);
    return value === undefined && this.outer !== null ? this.outer.lookup(name) : value;
  }
}

function descend(value: Json | undefined, path: readonly string[]): Json | undefined {
  let found = value;
  for (const name of path) found = isBranch(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  return found;
}

const isBranch = (value: Json | undefined): value is { readonly [name: string]: Json } =>
  typeof value === 'object' && value !== null;

/** No HTML escaping: `{{x}}`, `{{{x}}}` and `{{&x}}` are the same. */
class TextWriter extends Mustache.Writer {
  override escapedValue(token: string[], scope: Mustache.Context): string {
    return valueText(scope.lookup(token[1] ?? ''));
  }

  override unescapedValue(token: string[], scope: Mustache.Context): string {
    return this.escapedValue(token, scope);
  }
}

export interface InvalidAnswer {
  readonly prompt: string;
  /** Null when there was no text. */
  readonly answer: string | null;
  readonly problem: string;
}

/** In characters. */
const LONGEST = { answer: 2_000, problem: 1_000 } as const;

/** @throws UsageError when it is invalid, or uses names not in {@link InvalidAnswer} */
export const followUpTemplate = (text: string): Template =>
  compileTemplate(text, {
    name: 'a prompt that asks again',
    columns: ['prompt', 'answer', 'problem'],
    format: { hasJson: false },
    called: { template: 'the template', column: 'name' },
  });

/**
 * Long answers and problems are cut, and never parsed as templates.
 * @param template the job's own; null: the problem in parentheses, then the prompt, which the model continues
 */
export function followUp(template: string | null, { prompt, answer, problem }: InvalidAnswer): string {
  const short = {
    prompt,
    answer: beginning((answer ?? '').trim(), LONGEST.answer),
    problem: beginning(problem, LONGEST.problem),
  };
  if (template === null) return `(An earlier answer could not be used: ${short.problem}.)\n\n${prompt}`;
  return followUpTemplate(template).render({ fields: new Map(Object.entries(short)) });
}

/** A character cut in half is dropped. */
const beginning = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '')}…` : text;
