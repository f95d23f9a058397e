import type { Json } from '../../model.js';
import { type Body, isObject } from '../checks.js';
import { objectIn, schemaOf } from './keys.js';
import { choose, term } from './labels.js';
import { opinionOf, type PromptParts, summaryOf, wordsOf } from './reading.js';

interface Task extends PromptParts {
  readonly random: () => number;
  readonly temperature: number;
  /** Where `$ref` leads. */
  readonly root: Body;
  /** How many more values are made: a schema may contain itself, or ask for many items. */
  left: number;
}

const MOST_VALUES = 200;

/** Keys whose values are of another type than text, where the prompt does not say. */
const NUMBER =
  /amount|price|total|cost|quantity|rating|stars|score|confidence|probability|percent|(?:^|_)(?:count|age|year)(?:$|_)|number_of/i;
const BOOLEAN = /^(?:is|has|was|would|will|should|can|needs)(?:_|[A-Z])/;
const LIST = /^(?:keywords|tags|topics|items|entities|themes)$|_list$/i;

const PROSE =
  /summary|description|reason|explanation|comment|message|title|subject|text|issue|problem|answer/i;

const SENTIMENTS = ['positive', 'negative', 'neutral'].map((name) => term(name));

/** What a key asks for, the pattern that finds it in a text, and what stands in for it. */
const VALUES: ReadonlyArray<readonly [key: RegExp, found: RegExp, otherwise: string]> = [
  [/e.?mail/i, /\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}/, 'someone@example.com'],
  [/phone|mobile/i, /\+\d[\d ().-]{6,18}\d\b/, '+1 555 0100'],
  [/url|uri\b|website|link/i, /https?:\/\/[^\s"'<>)]{1,500}/, 'https://example.com/'],
  [/date|(?:^|_)day$/i, /\b\d{4}-\d\d-\d\d(?!\d)/, '2026-01-15'],
  [/currency/i, /\b(?:EUR|USD|GBP|CHF|JPY)\b/, 'USD'],
  [/order|invoice|ticket|reference|number|(?:^|_)id$/i, /\b[A-Z]{1,5}-?\d{3,12}\b/, 'A-1001'],
  [/name|customer|person|author|sender/i, /(?<=[Nn]ame is )\p{Lu}\S+ \p{Lu}[\p{L}'’-]+/u, 'Alex Example'],
];

/** The JSON that a prompt asks for. Values that a pattern finds in the text are, the others are made up. */
export function jsonAnswer(parts: PromptParts, random: () => number, temperature: number): string {
  const root = schemaOf(parts);
  // On one line, with the spaces that a model writes.
  const task = { ...parts, random, temperature, root, left: MOST_VALUES };
  return JSON.stringify(valueFor('', root, task), null, 1)
    .replace(/(?<=[[{])\n\s*|\n\s*(?=[\]}])/g, '')
    .replace(/\n\s*/g, ' ');
}

function valueFor(name: string, given: Body, task: Task): Json {
  task.left -= 1;
  const { subject, random, temperature } = task;
  const schema = resolved(given, task.root);
  const options = [schema['const'] ?? schema['enum'] ?? []].flat();
  const labels = options.flatMap((option) => (typeof option === 'string' ? [term(option)] : []));
  if (labels.length > 0) return choose(subject, labels, random, temperature);
  if (options.length > 0 || task.left < 0) return options[Math.floor(random() * options.length)] ?? null;
  const types = [schema['type'] ?? []].flat();
  // Without a type of its own a key may be `null` when the prompt speaks of it.
  const isOpen =
    types.includes('null') ||
    schema['nullable'] === true ||
    (types.length === 0 && /\bnull\b/i.test(task.instruction));
  switch (types.find((type) => type !== 'null') ?? typeFor(name)) {
    case 'object': {
      const members = Object.keys(objectIn(schema, 'properties'));
      const one = (key: string) => valueFor(key, objectIn(objectIn(schema, 'properties'), key), task);
      return Object.fromEntries(members.map((key) => [key, one(key)]));
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
      return isOpen && random() < 0.5 ? null : numberFor(name, schema, task);
    default:
      return textFor(`${name} ${schema['format'] ?? ''}`.trim(), schema, isOpen, task);
  }
}

/** A schema behind a reference, or the first variant that is not `null`. */
function resolved(schema: Body, root: Body): Body {
  const { $ref: reference, anyOf, oneOf, allOf } = schema;
  if (typeof reference === 'string') return reference.split('/').slice(1).reduce(objectIn, root);
  const variants = [anyOf ?? oneOf ?? allOf ?? []].flat().filter(isObject);
  const variant = variants.find(({ type }) => type !== 'null');
  if (variant === undefined) return schema;
  return { ...resolved(variant, root), nullable: variants.some(({ type }) => type === 'null') };
}

function typeFor(name: string): string {
  if (NUMBER.test(name)) return 'number';
  if (BOOLEAN.test(name)) return 'boolean';
  return LIST.test(name) ? 'array' : 'string';
}

/** A number in the range of the schema: by the tone of the text where it is a rating. */
function numberFor(name: string, { type, minimum, maximum }: Body, { subject, random }: Task): number {
  const isRating = /rating|stars|score|sentiment/i.test(name);
  const least = Number(minimum ?? (/confidence|probability/i.test(name) ? 0 : 1));
  const most = Number(maximum ?? (least === 0 ? 1 : least + (isRating ? 4 : 99)));
  const opinion = isRating ? opinionOf(subject) : null;
  const value = least + (most - least) * (opinion === null ? random() : (opinion.tone + 2) / 4);
  return most - least > 1 || type === 'integer' ? Math.round(value) : Math.round(100 * value) / 100;
}

function textFor(
  name: string,
  schema: Body,
  isOpen: boolean,
  { subject, details, random, temperature }: Task,
): string | null {
  if (/sentiment|polarity|mood/i.test(name)) return choose(subject, SENTIMENTS, random, temperature);
  // `Known customer: …` has the `customer_name`.
  const parts = wordsOf(name.replaceAll('_', ' ')).filter(({ length }) => length > 3);
  const caption = details
    .split('\n')
    .find((line) => wordsOf(line.split(':')[0] ?? '').some((word) => parts.includes(word)));
  const known = caption?.slice(caption.indexOf(':') + 1).trim() || undefined;
  // A value of an example is valid, whatever the key means.
  const examples = [schema['examples'] ?? []].flat().filter((example) => typeof example === 'string');
  const given = examples[Math.floor(random() * examples.length)];
  const [, pattern, otherwise] = VALUES.find(([key]) => key.test(name)) ?? [];
  if (pattern !== undefined) {
    const found =
      known ?? pattern.exec(`${subject}\n${details}`)?.[0] ?? (isOpen ? null : (given ?? otherwise ?? null));
    return found !== null && name.endsWith('date-time') ? `${found}T00:00:00Z` : found;
  }
  if (PROSE.test(name)) return summaryOf(subject);
  const words = wordsOf(subject).filter(({ length }) => length > 3);
  return known ?? given ?? words[Math.floor(random() * words.length)] ?? 'unknown';
}
