import type { AnswerSpec } from '../../core/answer-spec.js';
import { isObject } from '../../core/json.js';
import type { Json } from '../../core/model.js';
import { choose, opinionOf, term } from './labels.js';
import { type ReadPrompt, summaryOf, wordsOf } from './read-prompt.js';

type Schema = Extract<AnswerSpec, { kind: 'json' }>['schema'];

interface Task {
  /** The text, and `known` with what the prompt adds to it: its date, its sender. */
  readonly subject: string;
  readonly known: string;
  readonly random: () => number;
  readonly temperature: number;
  /** Where `$ref` points. */
  readonly root: Schema;
  /** How many more values may be made: a schema may contain itself, or ask for many items. */
  left: number;
}

const MOST_VALUES = 200;

/** Keys whose values are not text when the schema has no type. */
const NUMBER =
  /amount|price|total|cost|quantity|rating|stars|score|confidence|probability|percent|(?:^|_)(?:count|age|year)(?:$|_)/i;
const BOOLEAN = /^(?:is|has|was|would|will|should|can|needs)(?:_|[A-Z])/;

const PROSE =
  /summary|description|reason|explanation|comment|message|title|subject|text|issue|problem|answer/i;

const SENTIMENTS = ['positive', 'negative', 'neutral'].map((name) => term(name));

const VALUES: ReadonlyArray<readonly [key: RegExp, found: RegExp, otherwise: string]> = [
  [/e.?mail/i, /\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}/, 'someone@example.com'],
  [/phone|mobile/i, /\+\d[\d ().-]{6,18}\d\b/, '+1 555 0100'],
  [/url|uri\b|website|link/i, /https?:\/\/[^\s"'<>)]{1,500}/, 'https://example.com/'],
  [/date|(?:^|_)day$/i, /\b\d{4}-\d\d-\d\d(?!\d)/, '2026-01-15'],
  [/currency/i, /\b(?:EUR|USD|GBP|CHF|JPY)\b/, 'USD'],
  [/order|invoice|ticket|reference|number|(?:^|_)id$/i, /\b[A-Z]{1,5}-?\d{3,12}\b/, 'A-1001'],
  [
    /name|customer|person|author|sender/i,
    /(?<=name is |customer: )\p{Lu}\S{1,40} \p{Lu}[\p{L}'’-]{1,40}/u,
    'Alex Example',
  ],
];

/** JSON for a schema: values found in the text by a pattern, and made-up ones for the rest. */
export function jsonAnswer(
  { instruction, subject }: ReadPrompt,
  root: Schema,
  random: () => number,
  temperature: number,
): string {
  const [, beside = ''] = /\n[^\S\n]*\n([\s\S]*)/.exec(instruction) ?? [];
  const known = `${subject}\n${beside}`;
  const task = { subject, known, random, temperature, root, left: MOST_VALUES };
  // On one line, with the spaces a model writes.
  return JSON.stringify(valueFor('', root, task), null, 1)
    .replace(/(?<=[[{])\n\s*|\n\s*(?=[\]}])/g, '')
    .replace(/\n\s*/g, ' ');
}

function valueFor(name: string, given: Schema, task: Task): Json {
  task.left -= 1;
  const { subject, random, temperature } = task;
  const schema = resolved(given, task.root);
  const options = [schema['const'] ?? schema['enum'] ?? []].flat();
  const labels = options.flatMap((option) => (typeof option === 'string' ? [term(option)] : []));
  if (labels.length > 0) return choose(subject, labels, random, temperature);
  if (options.length > 0 || task.left < 0) return options[Math.floor(random() * options.length)] ?? null;
  const types = [schema['type'] ?? []].flat();
  const isOpen = types.includes('null') || schema['nullable'] === true;
  switch (types.find((type) => type !== 'null') ?? typeFor(name, schema)) {
    case 'object': {
      const properties = objectIn(schema, 'properties');
      const members = new Set([...Object.keys(properties), ...[schema['required'] ?? []].flat().map(String)]);
      const one = (key: string) => valueFor(key, objectIn(properties, key), task);
      return Object.fromEntries([...members].map((key) => [key, one(key)]));
    }
    case 'array': {
      const length = Math.min(task.left, Math.max(1, Number(schema['minItems'] ?? 1)));
      const items = { type: 'string', ...objectIn(schema, 'items') };
      return Array.from({ length }, () => valueFor(name, items, task));
    }
    case 'boolean':
      return random() < 0.5;
    case 'number':
    case 'integer':
      return isOpen && random() < 0.5 ? null : numberFor(name, schema, subject, random);
    default:
      return textFor(`${name} ${schema['format'] ?? ''}`.trim(), schema, isOpen, task);
  }
}

function resolved(schema: Schema, root: Schema): Schema {
  const { $ref: reference, anyOf, oneOf, allOf } = schema;
  if (typeof reference === 'string') return reference.split('/').slice(1).reduce(objectIn, root);
  const variants = [anyOf ?? oneOf ?? allOf ?? []].flat().filter((one) => isObject(one));
  const variant = variants.find(({ type }) => type !== 'null');
  if (variant === undefined) return schema;
  return { ...resolved(variant, root), nullable: variants.some(({ type }) => type === 'null') };
}

function objectIn(body: Schema, member: string): Schema {
  const value = body[member];
  return isObject(value) ? value : {};
}

function typeFor(name: string, schema: Schema): string {
  if ('properties' in schema) return 'object';
  if (NUMBER.test(name)) return 'number';
  return BOOLEAN.test(name) ? 'boolean' : 'string';
}

/** A number in the range of a schema; a rating follows the tone of the text. */
export function numberFor(
  name: string,
  { type, minimum, maximum }: { readonly [limit in 'type' | 'minimum' | 'maximum']?: Json | undefined },
  subject: string,
  random: () => number,
): number {
  const isRating = /rating|stars|score|sentiment/i.test(name);
  const least = Number(
    minimum ?? (/confidence|probability/i.test(name) ? 0 : Math.min(1, Number(maximum ?? 1))),
  );
  const most = Number(maximum ?? (least === 0 ? 1 : least + (isRating ? 4 : 99)));
  const opinion = isRating ? opinionOf(subject) : null;
  const value = least + (most - least) * (opinion === null ? random() : (opinion.tone + 2) / 4);
  return most - least > 1 || type === 'integer' ? Math.round(value) : Math.round(100 * value) / 100;
}

function textFor(
  name: string,
  schema: Schema,
  isOpen: boolean,
  { subject, known, random, temperature }: Task,
): string | null {
  if (/sentiment|polarity|mood/i.test(name)) return choose(subject, SENTIMENTS, random, temperature);
  // A value from the examples is valid, whatever the key means.
  const examples = [schema['examples'] ?? []].flat().filter((example) => typeof example === 'string');
  const given = examples[Math.floor(random() * examples.length)];
  const [, pattern, otherwise] = VALUES.find(([key]) => key.test(name)) ?? [];
  if (pattern !== undefined) {
    const found = pattern.exec(known)?.[0] ?? (isOpen ? null : (given ?? otherwise ?? null));
    return found !== null && name.endsWith('date-time') ? `${found}T00:00:00Z` : found;
  }
  if (PROSE.test(name)) return summaryOf(subject);
  const words = wordsOf(subject).filter(({ length }) => length > 3);
  return given ?? words[Math.floor(random() * words.length)] ?? 'unknown';
}
