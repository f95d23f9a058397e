import { MAX_DEPTH } from '../core/json.js';
import { loadPackage } from '../core/load-package.js';
import { fits } from './text.js';

/** Longest repaired text, in characters: some 8,000 tokens. The library's time is not linear in it. */
const LONGEST = 32_000;

/**
 * Repairs text that is nearly JSON: wrong or missing quotes, comments, Python's literals, stray or missing
 * commas. The library would also complete cut texts and invent what is missing. So all brackets and strings
 * must be closed, and the result must have the same brackets and words in the same places.
 * @param openers brackets with which the JSON may begin
 * @returns the first object or array that can be repaired, or undefined
 */
export function jsonRepairer(openers: string): (text: string) => string | undefined {
  const { jsonrepair }: typeof import('jsonrepair') = loadPackage('jsonrepair');

  const mended = (text: string, wanted: string): string | undefined => {
    try {
      const json = jsonrepair(text);
      return skeleton(json, 0)?.words === wanted ? json : undefined;
    } catch {
      // The library may throw anything on a model's text: it is no JSON then.
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

/** Opening quote → the quotes that may close it. */
const ENDS: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ["'", "'"],
  ...[...'“”'].map((mark): [string, string] => [mark, '"“”']),
  ...[...'‘’`´'].map((mark): [string, string] => [mark, "'‘’`´"]),
]);

/** What may follow a string. Anything else suggests an unescaped quote inside. */
const BEHIND = /\s*(?:[,:}\]+]|\/[/*])|\s+["'“”‘’`´](?![\s,:[\]/{}()+])|[ \t\r]*\n/y;
const WORDY = /[\p{L}\p{N}_]/u;
/** Outside strings: calls, escapes, entities, and ellipses. */
const REFUSED = /[()\\&…]|\.\.\./y;

/**
 * @returns null when a bracket or string is not closed, a string may end elsewhere, or it is nested too deep
 */
function skeleton(text: string, start: number): { readonly end: number; readonly words: string } | null {
  const open: string[] = [];
  let words = '';
  let bare = '';
  /** The last string, while nothing has followed it. */
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

function stringEnd(text: string, start: number, ends: string): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (ends.includes(text.charAt(at))) return at;
  }
  return -1;
}

/** Index after the comment at `start`; 0 when there is none, or it is not closed. */
function commentEnd(text: string, start: number): number {
  const [mark, length] = text[start + 1] === '*' ? ['*/', 2] : ['\n', 0];
  if (mark === '\n' && text[start + 1] !== '/') return 0;
  const end = text.indexOf(mark, start + 2);
  return end < 0 ? 0 : end + length;
}

/** Whether the string leaves a bracket open, which the bracket after it may close. */
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

/** Marks what the library would change into other text; no repaired text contains it. */
const NO_JSON = '?';

/** Whether a bare word would become text, although it may mean another value. */
const isUnclear = (word: string): boolean =>
  word.includes(';') || (/^(?:null|none|true|false)$/i.test(word) && !/^(?:null|true|false)$/.test(word));

/** Letters and digits only: repair may change escapes. It drops stray backslashes, so these are refused. */
function letters(text: string): string {
  const plain = text.replace(/\\[bfnrt"'\\/]/g, '');
  return /\\(?!u)/.test(plain) ? NO_JSON : plain.replace(/[^\p{L}\p{M}\p{N}]+/gu, '');
}
