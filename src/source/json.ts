import { isSafeNumber } from 'lossless-json';
import type { Json } from '../model.js';

/** Levels of nesting that are read; deeper text would overflow the stack here or where it is written again. */
const MAX_DEPTH = 200;

/**
 * Reads one JSON object into a map in the order of its keys.
 *
 * `JSON.parse` and lossless-json give an object: keys such as `"10"` move to its front, and the one silently
 * keeps the last of two equal keys, the other needs some 33 bytes of heap for each character of a long text.
 * Here nested objects have no prototype, so that every key is plain data (fault 9), two equal keys are refused,
 * and numbers lose nothing (fault 10): a field's number that a JavaScript number would not write the same way
 * (`1.50`, `1e5`, twenty digits) becomes its text, because columns come out byte for byte; a nested one
 * becomes its text only if it would lose digits, because there `1.0` is a value and not a column.
 *
 * @throws SyntaxError naming the column
 */
export function parseObject(text: string): Map<string, Json> {
  return new Reader(text).document();
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

  constructor(text: string) {
    this.#text = text;
  }

  document(): Map<string, Json> {
    const fields = new Map<string, Json>();
    if (this.#peek() !== '{') throw this.#expected('an object');
    this.#members((key, value) => {
      if (fields.has(key)) throw this.#fault(`two values for the key ${JSON.stringify(key)}`);
      fields.set(key, value);
    });
    if (this.#peek() !== '') throw this.#expected('the end of the line');
    return fields;
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
      if (key in object) throw this.#fault(`two values for the key ${JSON.stringify(key)}`);
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
    let end = this.#text.indexOf('"', start + 1);
    while (end >= 0 && this.#escaped(end)) end = this.#text.indexOf('"', end + 1);
    if (end < 0) throw this.#fault('a string that is never closed');
    try {
      const value: string = JSON.parse(this.#text.slice(start, end + 1));
      this.#at = end + 1;
      return value;
    } catch {
      throw this.#fault('a string with a bad escape or a control character');
    }
  }

  #escaped(quote: number): boolean {
    let first = quote;
    while (this.#text[first - 1] === '\\') first--;
    return (quote - first) % 2 === 1;
  }

  #scalar(): Json {
    const word = WORDS.get(this.#match(WORD));
    if (word !== undefined) return word;
    const digits = this.#match(NUMBER);
    if (digits === '') throw this.#expected('a value');
    const number = Number(digits);
    const kept = String(number) === digits || (this.#depth > 1 && isSafeNumber(digits));
    return kept ? number : digits;
  }

  /** The next character that is not white space, or nothing at the end. */
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

  #expected(what: string): SyntaxError {
    const found = this.#text[this.#at];
    return this.#fault(`${found === undefined ? 'its end' : JSON.stringify(found)} in place of ${what}`);
  }

  #fault(what: string): SyntaxError {
    return new SyntaxError(`${what} at column ${this.#at + 1}`);
  }
}
