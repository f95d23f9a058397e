import type { Json } from '../../model.js';
import { type Body, isObject } from '../checks.js';
import { choicesIn, longestList, type Term, term, termsIn } from './labels.js';
import type { PromptParts } from './reading.js';

/** An object in a prompt, with a schema's braces and colons or without. */
const OBJECT = /\{\s*["']?\w[\w -]*["']?\??\s*[:,]/;

/** Words that announce keys for certain, and words that may. */
const KEYS =
  /\b(?:keys?|fields?|properties|attributes|columns|members|feldern?|champs|campos)\b(?:,?\s+(?:named|called|are|is|exactly|only|in this order))*\s*[:=]?\s*/gi;
const PERHAPS_KEYS =
  /\b(?:extract|containing|contains?|with|json|has|have|including|return|give)\b(?:\s+(?:the|an?|object|following|its|as|json|that|has|have|with))*\s*\)?:?\s*/gi;

/** What ends a list of keys in words. A comma carries it on to the next line. */
const END = /\s(?:as|from|in|of|into|for|on|that|which|using)\s|(?<!,)[ \t]*\n(?!\s*(?:and|or)\b)|[.;:]/;

/** Deeper members of an object are left out. */
const DEEPEST = 8;

/** Whether a prompt asks for JSON: by that word, in other words, or by an object that shows it. */
export function wantsJson({ instruction, examples }: PromptParts): boolean {
  const inWords = /\bjson\b|\bobject\b[^.\n]{0,60}\b(?:keys?|fields?|properties)\b/i;
  return inWords.test(instruction) || OBJECT.test(`${instruction}\n${examples.join('\n')}`);
}

/** The JSON Schema of the answer that a prompt wants, out of a schema, an example, or keys in any layout. */
export function schemaOf({ instruction, subject, examples }: PromptParts): Body {
  const schema = shown(examples.join('\n')) ?? listed(instruction) ?? listed(subject);
  if (schema === null) return objectOf([/sentiment/i.test(instruction) ? ['sentiment', {}] : ['answer', {}]]);
  return /\bjson (?:array|list)\b|\b(?:array|list) of (?:json )?objects\b/i.test(instruction) &&
    schema['type'] !== 'array'
    ? { type: 'array', items: schema }
    : schema;
}

function listed(text: string): Body | null {
  const object = shown(text);
  if (object) return object;
  const terms = keysIn(text);
  const lines = termsIn(text);
  const members = terms.map(({ name, meaning }): [string, Body] => {
    return [name.replace(/\s+/g, '_'), described(meaning || saidOf(name, lines, text))];
  });
  return members.length === 0 ? null : objectOf(members);
}

/** Keys in words, on a line each, or one alone. */
function keysIn(text: string): readonly Term[] {
  const certain = longestList(text, KEYS, END);
  if (certain.length >= 2) return certain;
  const lines = termsIn(text);
  const several = lines.length > 0 ? lines : longestList(text, PERHAPS_KEYS, END);
  if (lines.length > 0 || several.length >= 2) return several;
  const [, alone] = /\b(?:field|key|property)\s+(?:named\s+|called\s+)?["'`]?([\w-]+)/i.exec(text) ?? [];
  return alone === undefined ? [] : [term(alone)];
}

/** What a line of its own or a sentence such as `category is one of …` says about a key. */
function saidOf(name: string, lines: readonly Term[], text: string): string {
  const line = lines.find((one) => one.name === name);
  if (line) return line.meaning;
  const stem = name.replace(/(?:y|s)$/i, '').replace(/[^\p{L}\p{N}]/gu, '.');
  const is = String.raw`(?<![\p{L}_])${stem}(?:y|ies|s)?\b["'\x60*]*\s*(?::|=|\b(?:is|are|must be|should be|can be)\b)`;
  const sentence = new RegExp(String.raw`${is}[^\S\n]*([^.;\n]*)`, 'iu').exec(text)?.[1];
  // `Categories:` stands before a list of what the key may be.
  return sentence === '' ? `one of ${lines.map((one) => one.name).join(', ')}` : (sentence ?? '');
}

/** What the objects in a text show. The values of further examples may stand for those of the first. */
function shown(text: string): Body | null {
  const all = objectsIn(text).flatMap((object) => schemaShown(object, text));
  if (all[0] === undefined) return null;
  const members = Object.keys(objectIn(all[0], 'properties')).map((name): [string, Body] => {
    const same: Body[] = all.map((one) => objectIn(objectIn(one, 'properties'), name));
    const examples = same.flatMap((one) => one['examples'] ?? []);
    return [name, { ...same[0], ...(examples.length > 0 ? { examples } : {}) }];
  });
  return { ...all[0], properties: Object.fromEntries(members) };
}

/** An object is a JSON Schema itself, an example, or a sketch that is no JSON. */
function schemaShown(object: string, text: string): Body[] {
  for (const json of [object, sketch(object)]) {
    try {
      const schema = shownBy(JSON.parse(json), json === object, text);
      if (isObject(schema['properties'] ?? null)) return [schema];
    } catch {}
  }
  return [];
}

/** A member that is an object, or an empty one. */
export function objectIn(body: Body, member: string): Body {
  const value = body[member] ?? null;
  return isObject(value) ? value : {};
}

function objectsIn(text: string): string[] {
  const found: string[] = [];
  let [depth, begin] = [0, 0];
  for (const { 0: brace, index } of text.matchAll(/[{}]/g)) {
    if (brace === '{' && depth++ === 0) begin = index;
    if (brace === '}' && depth > 0 && --depth === 0) found.push(text.slice(begin, index + 1));
  }
  return depth > 0 ? [...found, text.slice(begin)] : found;
}

/**
 * @param isExact whether the value is JSON, whose strings are strings
 * @param text says more about members without a value
 */
function shownBy(value: Json, isExact: boolean, text: string, depth = 0): Body {
  if (typeof value === 'string') {
    const said = described(value);
    const isExample = isExact && Object.keys(said).length === 0 && !/^<.*>$/.test(value);
    return isExample ? { type: 'string', examples: [value] } : said;
  }
  if (value === null || depth > DEEPEST) return {};
  if (Array.isArray(value))
    return { type: 'array', items: shownBy(value[0] ?? null, isExact, text, depth + 1) };
  if (typeof value === 'number' && value > 0 && value < 1) return { type: 'number', minimum: 0, maximum: 1 };
  if (!isObject(value)) return { type: typeof value };
  if (isObject(value['properties'] ?? null) || value['type'] === 'array') return value;
  const members = Object.entries(value).map(([name, one]): [string, Body] => {
    const isSilent = typeof one === 'string' && /^[\W_]*$/.test(one);
    return [name, shownBy(isSilent ? saidOf(name, [], text) : one, isExact && !isSilent, text, depth + 1)];
  });
  return members.length === 0 ? {} : objectOf(members);
}

function objectOf(members: readonly (readonly [string, Body])[]): Body {
  return { type: 'object', properties: Object.fromEntries(members) };
}

/** An object with bare words as keys and values, comments, or members without a value, as JSON. */
function sketch(text: string): string {
  return text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n\s*/g, '\n')
    .replace(/[,;]? \/\/([^\n]*)/g, (_, comment: string) => `${comment.replaceAll(',', '|')},`)
    .replace(
      /(\w*)\[([^[\]{}]*)\]/g,
      (_, type: string, items: string) => ` list of ${type}${items.replaceAll(',', '|')}`,
    )
    .replace(/["']?(\w[\w -]*)["']?\??\s*:\s*([^,;{}[\]\n]*)/g, (_, name: string, value: string) => {
      const words = value.replace(/["'<>]/g, '').trim();
      return `${JSON.stringify(name.trim())}:${value.trim() === '' ? '' : JSON.stringify(words)}`;
    })
    .replace(/(?<=[{,]\s*)["']?([\w-]+)["']?(?=\s*[,}])/g, '"$1":""')
    .replace(/[,;\s]*(?:[,;\n]|(?<=[,{\n]\s*)\.{3})[,;\s]*/g, ',')
    .replace(/(?<=[{[]),|,(?=[}\]])/g, '');
}

const RANGE =
  /(?<![\d.-])(\d+(?:\.\d+)?)\s*(?:-|–|to|and|\.\.+)\s*(\d+(?:\.\d+)?)(?![\d-]|\s*(?:words?|sentences?|char|letters|lines|items))/i;
const KIND =
  /^\W*(?:an?\s|as\s)*(?:whole\s|decimal\s)?(number|integer|int|float|numeric|string|str|text)\b|\bas an? (?:\w+ )?(number|integer|float)\b/i;

/** The JSON Schema of what the words about a key say: a type, a range, or the values to choose from. */
function described(words: string): Body {
  const meaning = words.replace(/[\s,|/(]*(?:\bor\s+)?\bnull\b.*/is, '');
  const more = meaning.length < words.length ? { nullable: true } : {};
  const list = /\b(?:list|array) of\s+(.*)/is.exec(meaning)?.[1];
  if (list !== undefined) return { ...more, type: 'array', items: described(list) };
  const [, minimum, maximum] = RANGE.exec(meaning) ?? [];
  if (maximum !== undefined && Number(minimum) < Number(maximum)) {
    return { ...more, type: 'number', minimum: Number(minimum), maximum: Number(maximum) };
  }
  if (/\bbool(?:ean)?\b|\btrue\s*(?:\/|\||or\b|if\b)/i.test(meaning)) return { ...more, type: 'boolean' };
  const kind = KIND.exec(meaning);
  if (kind) return { ...more, type: /^(?:str|text)/i.test(kind[1] ?? '') ? 'string' : 'number' };
  const oneOf = /\b(?:one of|either)\b.*/is.exec(meaning)?.[0];
  const offered = oneOf === undefined ? longestList(meaning, /^/g, /[.;\n]/) : choicesIn(oneOf);
  const names = offered.map(({ name }) => name);
  // "delivery or return" and "delivery, return, other" are choices; "the address, if any" is none.
  const mostWords = /\bor\b|\|/i.test(meaning) ? 2 : names.length > 2 ? 1 : 0;
  const isChoice = oneOf !== undefined || names.every((name) => name.split(' ').length <= mostWords);
  return names.length >= 2 && isChoice ? { ...more, enum: names } : more;
}
