import { choicesIn, isLabel, itemsOf, type Term, termsIn } from './labels.js';
import { languageOf } from './language.js';
import type { PromptParts } from './prompt-parts.js';

/** What a prompt wants in its JSON. */
export interface Field {
  readonly name: string;
  readonly kind: 'string' | 'number' | 'boolean' | 'array' | 'object';
  /** What the prompt says about it; empty when it says nothing. */
  readonly meaning: string;
  /** The values to choose from, when the prompt names them. */
  readonly options: readonly string[];
  /** Members of an object. */
  readonly fields: readonly Field[];
}

/**
 * The fields that a prompt names: in a JSON Schema, in an example object (also of an earlier answer), in bullets,
 * or in words ("with the fields name, email and date"). Empty when it names none.
 */
export function fieldsIn({ instruction, examples }: PromptParts): readonly Field[] {
  for (const text of [instruction, ...examples]) {
    const braces = /\{[\s\S]*\}/.exec(text)?.[0];
    if (braces !== undefined) {
      const fields = fromObject(braces);
      if (fields.length > 0) return fields;
    }
  }
  const terms = termsIn(instruction);
  return terms.length > 0
    ? terms.map(described)
    : namesInWords(instruction).map((name) => field(nameOf(name)));
}

function fromObject(text: string): Field[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fromSketch(text);
  }
  if (!isObject(value)) return [];
  return isObject(value['properties']) ? fromSchema(value['properties']) : fromExample(value);
}

function fromSchema(properties: Readonly<Record<string, unknown>>): Field[] {
  return Object.entries(properties).map(([name, schema]) => {
    if (!isObject(schema)) return field(name);
    const description = typeof schema['description'] === 'string' ? schema['description'] : '';
    const meaning = schema['format'] === 'date' ? `${description} as YYYY-MM-DD` : description;
    const known = { ...field(name), meaning };
    const types = [schema['type']].flat();
    const members = isObject(schema['properties']) ? fromSchema(schema['properties']) : [];
    const options = Array.isArray(schema['enum'])
      ? schema['enum'].filter((item) => typeof item === 'string')
      : [];
    if (types.includes('object')) return { ...known, kind: 'object', fields: members };
    if (types.includes('integer') || types.includes('number')) return { ...known, kind: 'number' };
    if (types.includes('boolean')) return { ...known, kind: 'boolean' };
    return { ...known, kind: types.includes('array') ? 'array' : 'string', options };
  });
}

function fromExample(example: Readonly<Record<string, unknown>>): Field[] {
  return Object.entries(example).map(([name, value]) => {
    if (typeof value === 'string') return sketched(name, value);
    if (typeof value === 'number') return { ...field(name), kind: 'number' };
    if (typeof value === 'boolean') return { ...field(name), kind: 'boolean' };
    if (Array.isArray(value)) return { ...field(name), kind: 'array' };
    return isObject(value) ? { ...field(name), kind: 'object', fields: fromExample(value) } : field(name);
  });
}

/** An example that is no JSON: `{"name": string, "rating": 1-5, "tone": "good" | "bad"}`. */
function fromSketch(text: string): Field[] {
  const members = text.matchAll(/["']?([\p{L}_][\p{L}\p{N}_ -]*)["']?\s*:\s*([^,}\n]*)/gu);
  return [...members].map(([, name = '', value = '']) => sketched(name.trim(), value));
}

/** A field whose example value may describe it: a type, or alternatives. */
function sketched(name: string, value: string): Field {
  if (/\b(?:number|integer|int|float)\b|^\s*\d+\s*-\s*\d+\s*$/i.test(value))
    return { ...field(name), kind: 'number' };
  if (/\bbool(?:ean)?\b|^\s*true\s*(?:[|/]|or)\s*false\s*$/i.test(value))
    return { ...field(name), kind: 'boolean' };
  if (value.trimStart().startsWith('[')) return { ...field(name), kind: 'array' };
  const options = /[|/]| or /.test(value)
    ? value.split(/\s*(?:[|/]| or )\s*/).map((option) => option.replace(/["'<>]/g, '').trim())
    : [];
  return {
    ...field(name),
    options:
      options.length >= 2 && options.every((option) => option !== '' && option !== 'null') ? options : [],
  };
}

/** A term's meaning may name a type or the values to choose from: "as a number", "one of low, normal, high". */
function described({ name, meaning }: Term): Field {
  const known = { ...field(nameOf(name)), meaning };
  if (
    /\b(?:as|is) an? (?:\w+ )?(?:number|integer|float)\b|^\W*(?:number|integer|float|numeric)\b/i.test(
      meaning,
    )
  ) {
    return { ...known, kind: 'number' };
  }
  if (/\bboolean\b|\btrue (?:or|if)\b/i.test(meaning)) return { ...known, kind: 'boolean' };
  if (/\b(?:list|array) of\b/i.test(meaning)) return { ...known, kind: 'array' };
  const offered = /(?:\b(?:one of|either|eines von|l'un de|uno de|uno di|um de|een van)\b|^\().*/i.exec(
    meaning,
  )?.[0];
  return offered === undefined ? known : { ...known, options: choicesIn(offered) };
}

/** "…with the fields a, b and c", "extract the a, b and c". */
function namesInWords(instruction: string): string[] {
  const leads = instruction.matchAll(
    /\b(?:fields?|keys?|properties|attributes|columns|felder[n]?|champs|campos|campi|extract|containing|with)\b(?:\s+(?:the|named|called|following|fields?|keys?|properties))*\s*:?\s*/gi,
  );
  const language = languageOf(instruction);
  let best: string[] = [];
  for (const lead of leads) {
    const text = instruction.slice(lead.index + lead[0].length).replace(/\([^)]*\)/g, '');
    const end = /\s+(?:as|from|in|of|into|for)\s|[.;\n:]/.exec(text)?.index ?? text.length;
    const names = itemsOf(text.slice(0, end), language);
    if (names.length >= 2 && names.length > best.length && names.every(isLabel)) best = names;
  }
  if (best.length > 0) return best;
  const single = /\b(?:field|key|property)\s+(?:named\s+|called\s+)?["'`]?([\w-]+)/i.exec(instruction)?.[1];
  return single === undefined ? [] : [single];
}

function nameOf(words: string): string {
  return words.trim().replace(/\s+/g, '_');
}

function field(name: string): Field {
  return { name, kind: 'string', meaning: '', options: [], fields: [] };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
