import { createRequire } from 'node:module';
import { MAX_DEPTH } from '../json.js';
import { fits } from './text.js';

const require = createRequire(import.meta.url);

/** Characters of a text that is mended: some 8,000 tokens. The library's time grows with more than the length. */
const LONGEST = 32_000;

/**
 * Finds JSON in a text that is nearly JSON: with quotes of another kind or none, comments, Python's words, a comma too many or
 * too few. The library also ends what was never ended, and fills in what is missing; so a text is mended only where its
 * brackets and strings are all closed, and where what came of it has the same brackets and the same words in the same places.
 * @param openers brackets with which the JSON may begin
 * @returns for a text the first object or array that can be mended; undefined where there is none
 */
export function jsonRepairer(openers: string): (text: string) => string | undefined {
  const { jsonrepair }: typeof import('jsonrepair') = require('jsonrepair');

  const mended = (text: string, wanted: string): string | undefined => {
    try {
      const json = jsonrepair(text);
      return skeleton(json, 0)?.words === wanted ? json : undefined;
    } catch {
      // Whatever the library makes of a text that a model wrote: there is no JSON in it then.
      return undefined;
    }
  };

  return (text) => {
    if (text.length > LONGEST) return undefined;
    for (let at = 0; at < text.length; at++) {
      if (!openers.includes(text.charAt(at))) continue;
      const found = skeleton(text, at);
      if (found === null) return undefined;
      const json = mended(text.slice(at, found.end), found.words);
      if (json !== undefined) return json;
      at = found.end - 1;
    }
    return undefined;
  };
}

/** With which marks a string ends, by the mark with which it begins. */
const ENDS: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ["'", "'"],
  ...[...'“”'].map((mark): [string, string] => [mark, '"“”']),
  ...[...'‘’`´'].map((mark): [string, string] => [mark, "'‘’`´"]),
]);

/** What may stand behind a string. Where a quote inside of a string was not escaped, something else does. */
const BEHIND = /\s*(?:[,:}\]+]|\/[/*])|\s+["'“”‘’`´](?![\s,:[\]/{}()+])|[ \t\r]*\n/y;
const WORDY = /[\p{L}\p{N}_]/u;
/** Outside of strings: calls, escapes, entities, and the dots of what was left out. */
const REFUSED = /[()\\&…]|\.\.\./y;

/**
 * What a text in brackets says, without how it is written: its brackets and words in their order.
 * @returns null where a bracket or a string is never closed, a string may not end where it seems to, or it is too deep
 */
function skeleton(text: string, start: number): { readonly end: number; readonly words: string } | null {
  const open: string[] = [];
  let words = '';
  let bare = '';
  /** The string behind which nothing has come yet. */
  let string: string | null = null;
  let joined = false;
  const endWord = (): void => {
    const word = bare.trim();
    bare = '';
    if (word === '') return;
    const plain = PYTHON.get(word) ?? word;
    words += `\0${isUnclear(plain) ? NO_JSON : letters(plain)}`;
    string = null;
  };
  for (let at = start; at < text.length; at++) {
    const char = text.charAt(at);
    const ends = ENDS.get(char);
    if (ends !== undefined) {
      const end = stringEnd(text, at, ends);
      if (end < 0 || WORDY.test(text.charAt(at - 1)) || !fits(BEHIND, text, end + 1)) return null;
      endWord();
      string = text.slice(at + 1, end);
      words += `${joined ? '' : '\0'}${letters(string)}`;
      joined = false;
      at = end;
    } else if (char === '/') {
      at = commentEnd(text, at) - 1;
      if (at < 0) return null;
    } else if (fits(REFUSED, text, at) || (joined && char.trim() !== '')) {
      return null;
    } else if (char === '+' && !/\d[eE]/.test(bare.slice(-2))) {
      if (string === null) return null;
      joined = true;
    } else if (char === '{' || char === '[') {
      endWord();
      if (open.push(char === '{' ? '}' : ']') > MAX_DEPTH) return null;
      words += char;
      string = null;
    } else if (char === '}' || char === ']') {
      endWord();
      if (open.pop() !== char || isOpen(string, char)) return null;
      words += char;
      string = null;
      if (open.length === 0) return { end: at + 1, words };
    } else if (char === ',' || char === ':') {
      endWord();
      if (char === ':' && open.at(-1) === ']') words += NO_JSON;
      string = null;
    } else if (char === '\n') endWord();
    else bare += char;
  }
  return null;
}

/** Index of the mark that ends the string which begins at `start`, or −1. */
function stringEnd(text: string, start: number, ends: string): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (ends.includes(text.charAt(at))) return at;
  }
  return -1;
}

/** Index behind the comment that begins at `start`; 0 where none does, or it is never closed. */
function commentEnd(text: string, start: number): number {
  const [mark, length] = text[start + 1] === '*' ? ['*/', 2] : ['\n', 0];
  if (mark === '\n' && text[start + 1] !== '/') return 0;
  const end = text.indexOf(mark, start + 2);
  return end < 0 ? 0 : end + length;
}

/** Whether a string opens a bracket and leaves it open, so that the bracket behind the string may be part of it. */
function isOpen(string: string | null, closing: string): boolean {
  if (string === null) return false;
  const opening = closing === '}' ? '{' : '[';
  return string.split(opening).length > string.split(closing).length;
}

const PYTHON: ReadonlyMap<string, string> = new Map([
  ['None', 'null'],
  ['undefined', 'null'],
  ['True', 'true'],
  ['False', 'false'],
]);

/** Stands for what the library would turn into another text. Nothing that is mended has it among its words. */
const NO_JSON = '?';

/** Whether a bare word would become a text, with its semicolon, although it may mean another value. */
const isUnclear = (word: string): boolean =>
  word.includes(';') || (/^(?:null|none|true|false)$/i.test(word) && !/^(?:null|true|false)$/.test(word));

/**
 * Letters and digits only: an escape may have come in the place of a character, or gone. The library leaves out a backslash
 * that is part of none.
 */
function letters(text: string): string {
  const plain = text.replace(/\\[bfnrt"'\\/]/g, '');
  return /\\(?!u)/.test(plain) ? NO_JSON : plain.replace(/[^\p{L}\p{M}\p{N}]+/gu, '');
}
