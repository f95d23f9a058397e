import type { Json } from './model.js';

/** Lossless reading of external JSON: big numbers, `1.10`, key order, `__proto__` (faults 9 and 10). */

/** Deepest nesting accepted; deeper text would overflow the stack here or when it is written again. */
export const MAX_DEPTH = 200;

/** `undefined` for invalid JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Reads one JSON object into a map in the order of its keys.
 *
 * `JSON.parse` moves keys such as `"10"` to the front, silently keeps the last of two equal keys, and rounds
 * numbers. Here nested objects have no prototype, so every key is plain data; equal keys are refused; and
 * numbers lose nothing. A field's number that JavaScript would write differently (`1.50`, `1e5`, twenty
 * digits) becomes its text, because columns are written byte for byte; a nested one becomes its text only if
 * it would lose digits, because there `1.0` is a value and not a column.
 *
 * @throws SyntaxError naming the column
 */
export function parseFields(text: string): Map<string, Json> {
  const fields = new Map<string, Json>();
  const reader = new Reader(text, {
    number: (digits, depth) => {
      const number = Number(digits);
      return String(number) === digits || (depth > 1 && isExact(digits, number)) ? number : digits;
    },
    refusesEqualKeys: true,
  });
  reader.document(fields);
  return fields;
}

/** Like `JSON.parse`, but keeps rounded whole numbers as text. @throws SyntaxError, also beyond 200 levels */
export function parseExact(text: string): Json {
  // Most values of an output are strings, and the reader takes several times as long for them.
  const simple = text.startsWith('"') ? parseJson(text) : undefined;
  if (typeof simple === 'string') return simple;
  if (text === 'null') return null;
  const number = (digits: string): Json => {
    const value = Number(digits);
    return Number.isInteger(value) && !Number.isSafeInteger(value) ? digits : value;
  };
  return new Reader(text, { number, refusesEqualKeys: false }).value();
}

/** {@link parseExact}, with another value for invalid JSON. */
export function exactOr<Other>(text: string, other: Other): Json | Other {
  try {
    return parseExact(text);
  } catch {
    return other;
  }
}

function isExact(digits: string, number: number): boolean {
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) return false;
  return significant(digits) === significant(String(number));
}

/** Digits without sign, point, exponent, and zeros at both ends. */
function significant(number: string): string {
  const digits = number.replace(/e.*/i, '').replace(/[-.]/g, '').replace(/^0+/, '');
  // A pattern would be quadratic in a long run of zeros.
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  return digits.slice(0, end);
}

interface ParseRules {
  /** @param depth brackets around the number */
  readonly number: (digits: string, depth: number) => Json;
  /** If false, the last one counts. */
  readonly refusesEqualKeys: boolean;
}

const SPACE = /[ \t\r\n]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
const WORDS = new Map<string, boolean | null>([
  ['true', true],
  ['false', false],
  ['null', null],
]);

class Reader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(
    text: string,
    private readonly reading: ParseRules,
  ) {
    this.#text = text;
  }

  document(fields: Map<string, Json>): void {
    if (this.#peek() !== '{') throw this.#expected('an object');
    this.#members((key, value) => {
      if (fields.has(key)) throw this.#equalKeys(key);
      fields.set(key, value);
    });
    if (this.#peek() !== '') throw this.#expected('the end of the line');
  }

  value(): Json {
    const value = this.#value();
    if (this.#peek() !== '') throw this.#expected('the end of the text');
    return value;
  }

  #value(): Json {
    switch (this.#peek()) {
      case '{':
        return this.#object();
      case '[':
        return this.#array();
      case '"':
        return this.#string();
      default:
        return this.#scalar();
    }
  }

  #object(): Json {
    const object: { [key: string]: Json } = Object.create(null);
    this.#members((key, value) => {
      if (this.reading.refusesEqualKeys && key in object) throw this.#equalKeys(key);
      object[key] = value;
    });
    return object;
  }

  #members(add: (key: string, value: Json) => void): void {
    this.#items('}', () => {
      if (this.#peek() !== '"') throw this.#expected('a key in quotes');
      const key = this.#string();
      if (this.#peek() !== ':') throw this.#expected('a colon');
      this.#at++;
      add(key, this.#value());
    });
  }

  #array(): Json {
    const array: Json[] = [];
    this.#items(']', () => array.push(this.#value()));
    return array;
  }

  #items(close: '}' | ']', item: () => void): void {
    if (++this.#depth > MAX_DEPTH) throw this.#fault(`more than ${MAX_DEPTH} levels of nesting`);
    this.#at++;
    if (this.#peek() !== close) {
      item();
      while (this.#peek() === ',') {
        this.#at++;
        item();
      }
    }
    if (this.#peek() !== close) throw this.#expected(`a comma or ${close}`);
    this.#at++;
    this.#depth--;
  }

  #string(): string {
    const start = this.#at;
    const end = stringEnd(this.#text, start);
    if (end < 0) throw this.#fault('a string that is never closed');
    try {
      const value: string = JSON.parse(this.#text.slice(start, end + 1));
      this.#at = end + 1;
      return value;
    } catch {
      throw this.#fault('a string with a bad escape or a control character');
    }
  }

  #scalar(): Json {
    const word = WORDS.get(this.#match(WORD));
    if (word !== undefined) return word;
    const digits = this.#match(NUMBER);
    if (digits === '') throw this.#expected('a value');
    return this.reading.number(digits, this.#depth);
  }

  /** The next character after white space, or `''` at the end. */
  #peek(): string {
    this.#match(SPACE);
    return this.#text[this.#at] ?? '';
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += found.length;
    return found;
  }

  #equalKeys(key: string): SyntaxError {
    return this.#fault(`two values for the key ${JSON.stringify(key)}`);
  }

  #expected(what: string): SyntaxError {
    const found = this.#text[this.#at];
    return this.#fault(`${found === undefined ? 'its end' : JSON.stringify(found)} in place of ${what}`);
  }

  #fault(what: string): SyntaxError {
    return new SyntaxError(`${what} at column ${this.#at + 1}`);
  }
}

/** The same text for objects with their members in any order. */
export const canonical = (value: Json): string => JSON.stringify(value, sorted);

const sorted = (_: string, value: Json): Json =>
  isObject(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value;

/** Neither a list nor null. */
export function isObject(value: Json | undefined): value is { readonly [key: string]: Json };
export function isObject(value: unknown): value is { readonly [key: string]: unknown };
export function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Index of the quote that ends the string beginning at `start`, or −1 without one. */
export function stringEnd(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end > 0) {
    let escapes = 0;
    while (text[end - 1 - escapes] === '\\') escapes++;
    if (escapes % 2 === 0) break;
    end = text.indexOf('"', end + 1);
  }
  return end;
}

/**
 * The members of a JSON object by name, without white space between tokens: digits of big numbers, `1.10` and
 * the order of keys survive. The last of two equal names counts, as in `JSON.parse`. Not recursive, so any
 * depth is safe.
 * @param object text that `JSON.parse` has accepted as an object
 */
export function memberTexts(object: string): Map<string, string> {
  const texts = new Map<string, string>();
  let key = object.indexOf('"');
  while (key >= 0) {
    const keyEnd = stringEnd(object, key);
    const name: unknown = JSON.parse(object.slice(key, keyEnd + 1));
    const start = object.indexOf(':', keyEnd) + 1;
    if (start === 0) throw new SyntaxError('a key has no value');
    const { text, end } = valueAt(object, start);
    texts.set(String(name), text);
    key = object.indexOf('"', end);
  }
  return texts;
}

/** The value at `start`, and the index of the comma or bracket after it. */
function valueAt(text: string, start: number): { text: string; end: number } {
  let copied = '';
  let from = start;
  let depth = 0;
  let at = start;
  for (; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      at = stringEnd(text, at);
      if (at < 0) throw new SyntaxError('a string is not closed');
    } else if (char === '{' || char === '[') depth++;
    else if (depth === 0 && (char === ',' || char === '}')) break;
    else if (char === '}' || char === ']') depth--;
    else if (char === ' ' || char === '\t' || char === '\n' || char === '\r') {
      copied += text.slice(from, at);
      from = at + 1;
    }
  }
  return { text: copied + text.slice(from, at), end: at };
}

/** For prompts and CSV cells: a string unchanged, `null` and missing values empty, else compact JSON. */
export function valueText(value: Json | undefined): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}
