import type { ByteRange } from './record.js';

export interface JsonMembers {
  /** Where the value of a member stands; of duplicate names the last counts, as in `JSON.parse`. */
  placeOf(name: string): ByteRange | null;
  names(): string[];
}

/**
 * Does not parse the values. The bytes that separate members are never part of another UTF-8 character.
 * Numbers, not objects: an output of a million rows has some 20 million members.
 * @throws SyntaxError for bytes that are no object, such as a truncated one
 */
export function jsonMembers(object: Buffer): JsonMembers {
  const { ends, isPlain } = endsIn(object);
  const nameAt = (i: number): string =>
    JSON.parse(object.toString('utf8', (ends[i] ?? 0) - 1, (ends[i + 1] ?? 0) + 1));
  return {
    placeOf: (name) => {
      const bytes = Buffer.from(name);
      // Invalid bytes, and half a surrogate pair in the wanted name, become U+FFFD.
      const isExact = isPlain && !bytes.includes(NO_TEXT);
      for (let i = ends.length - EACH; i >= 0; i -= EACH) {
        const isNamed = isExact ? isAt(object, ends[i] ?? 0, ends[i + 1] ?? 0, bytes) : nameAt(i) === name;
        if (isNamed) return { start: ends[i + 2] ?? 0, end: ends[i + 3] ?? 0 };
      }
      return null;
    },
    names: () => Array.from({ length: ends.length / EACH }, (_, i) => nameAt(i * EACH)),
  };
}

/** Numbers per member: start and end of its name inside the quotes, start and end of its value. */
const EACH = 4;

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const ESCAPE = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const NO_TEXT = Buffer.from('\ufffd');
const DEPTH = new Int8Array(256);
DEPTH[OPEN_OBJECT] = 1;
DEPTH[OPEN_ARRAY] = 1;
DEPTH[CLOSE_OBJECT] = -1;
DEPTH[CLOSE_ARRAY] = -1;
DEPTH[QUOTE] = 2;

/** @returns `isPlain`: no name has an escape */
function endsIn(object: Buffer): { ends: number[]; isPlain: boolean } {
  const ends: number[] = [];
  let isPlain = true;
  let at = afterSpace(object, 0);
  if (object[at] !== OPEN_OBJECT) throw new SyntaxError('it does not begin as an object');
  at = afterSpace(object, at + 1);
  let isEnded = object[at] === CLOSE_OBJECT;
  while (!isEnded) {
    if (object[at] !== QUOTE) throw new SyntaxError('a name is missing');
    const nameEnd = stringEnd(object, at);
    for (let i = at + 1; i < nameEnd; i++) if (object[i] === ESCAPE) isPlain = false;
    const colon = afterSpace(object, nameEnd + 1);
    if (object[colon] !== COLON) throw new SyntaxError('a name has no value');
    const start = afterSpace(object, colon + 1);
    const end = valueEnd(object, start);
    ends.push(at + 1, nameEnd, start, end);
    at = afterSpace(object, end);
    isEnded = object[at] === CLOSE_OBJECT;
    if (!isEnded && object[at] !== COMMA) throw new SyntaxError('it is cut off, or a comma is missing');
    if (!isEnded) at = afterSpace(object, at + 1);
  }
  if (afterSpace(object, at + 1) < object.length) throw new SyntaxError('something follows the object');
  return { ends, isPlain };
}

function afterSpace(text: Buffer, from: number): number {
  let at = from;
  while (isSpace(text[at])) at++;
  return at;
}

const isSpace = (byte: number | undefined): boolean =>
  byte === SPACE || byte === LF || byte === CR || byte === TAB;

function valueEnd(text: Buffer, start: number): number {
  const first = text[start];
  if (first === QUOTE) return stringEnd(text, start) + 1;
  let at = start;
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
    for (let depth = 0; at < text.length; at++) {
      const change = DEPTH[text[at] ?? 0] ?? 0;
      if (change === 0) continue;
      if (change === 2) at = stringEnd(text, at);
      else {
        depth += change;
        if (depth === 0) return at + 1;
      }
    }
    throw new SyntaxError('a bracket is not closed');
  }
  while (at < text.length && text[at] !== COMMA && text[at] !== CLOSE_OBJECT && !isSpace(text[at])) at++;
  if (at === start) throw new SyntaxError('a value is missing');
  return at;
}

/** The closing quote of the string that begins at `start`. */
function stringEnd(text: Buffer, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const byte = text[at];
    if (byte === QUOTE) return at;
    if (byte === ESCAPE) at++;
  }
  throw new SyntaxError('a string is not closed');
}

function isAt(text: Buffer, start: number, end: number, name: Buffer): boolean {
  if (end - start !== name.length) return false;
  for (let i = 0; i < name.length; i++) if (text[start + i] !== name[i]) return false;
  return true;
}
