/**
 * Gateways quote the key they refuse, some in escapes: JSON (`\u002B`, `\/`), URLs (`%2b`), HTML (`&#43;`, `&plus;`), each
 * inside another or mixed, in base64 as in Basic authentication, in hexadecimal. A body is cleaned of all of these before
 * anything reads it, so no message, log or store can have the key (faults 53 and 78).
 *
 * The body is brought to a plain form, in which every escape is the character that it means, and the plain form of the key
 * is looked for there. Each character of the plain form knows where it came from.
 */

/** Takes a key out of a text, whatever form it has there. */
export type KeyCleaner = (text: string) => string;

/** Real keys are longer; a shorter stand-in for a local server could be a word of an answer. */
const SHORTEST = 12;

/** Of these, fewer characters are no common word, and their base64 is none either. */
const SHORTEST_USER = 6;

/**
 * Takes out what a proxy that answers in the place of the service may quote.
 * @param user `user:password` of the proxy
 */
export function proxyCleaner(user: string): KeyCleaner {
  const cleanPassword = keyCleaner(user.slice(user.indexOf(':') + 1));
  const cleanBoth = keyCleaner(user, SHORTEST_USER);
  return (text) => cleanPassword(cleanBoth(text));
}

/**
 * @param key of characters that a header can carry
 * @param shortest a shorter one is left where it is
 */
export function keyCleaner(key: string, shortest = SHORTEST): KeyCleaner {
  if (key.length < shortest) return (text) => text;
  const forms = formsOf(key);
  const isIn = (plain: string): boolean => forms.some((form) => plain.includes(form));
  // Nearly every body has line breaks and quotes in it; the escapes of these say nothing of most keys.
  const mayMean = key.includes('"') ? /\\[^nrtbf]|[%&]/ : /\\[^nrtbf"]|[%&]/;
  return (body) => {
    const text = body.includes(key) ? body.replaceAll(key, '[key]') : body;
    const plain = mayMean.test(text) ? plainOf(text, false).text : text.toLowerCase();
    return isIn(plain) ? without(text, forms) : text;
  };
}

/** What the plain form of a text must not have in it; plain as well, so in lower case. */
function formsOf(key: string): readonly string[] {
  // A backslash at its end would stand before what follows in the body.
  const raw = plainOf(key, false).text.replace(/\\{1,100}$/, '');
  const encoded = [0, 1, 2].map((offset) => base64Core(key, offset));
  const forUrls = encoded.map((core) => core.replaceAll('+', '-').replaceAll('/', '_'));
  return [...new Set([raw, ...encoded, ...forUrls, Buffer.from(key).toString('hex')])];
}

/**
 * What base64 makes of a key behind so many bytes of something else, without the characters that hold bits of what is around
 * it: `user:` before it, a line break behind it.
 */
function base64Core(key: string, offset: number): string {
  const bits = Buffer.concat([Buffer.alloc(offset), Buffer.from(key)]);
  const first = Math.ceil((offset * 8) / 6);
  const whole = Math.floor((bits.length * 8) / 6);
  return bits.toString('base64').slice(first, whole).toLowerCase();
}

function without(text: string, forms: readonly string[]): string {
  const plain = plainOf(text, true);
  const found = forms.flatMap((form) => placesOf(form, plain.text)).sort((a, b) => a.start - b.start);
  let cleaned = '';
  let copied = 0;
  for (const { start, end } of found) {
    const from = plain.from(start);
    const to = plain.from(end);
    if (to <= copied) continue;
    if (from >= copied) cleaned += `${text.slice(copied, from)}[key]`;
    copied = to;
  }
  return cleaned + text.slice(copied);
}

function placesOf(form: string, plain: string): { start: number; end: number }[] {
  const places: { start: number; end: number }[] = [];
  for (let start = plain.indexOf(form); start >= 0; start = plain.indexOf(form, start + form.length)) {
    places.push({ start, end: start + form.length });
  }
  return places;
}

/** A text without its escapes. */
interface Plain {
  /** In lower case as far as ASCII goes. */
  readonly text: string;
  /** Where a character of the plain form begins in the text; for its length the end of the text. */
  readonly from: (index: number) => number;
}

/**
 * From the end to the beginning, so that an escape inside an escape is plain before the outer one is looked at, however
 * many there are: each looks at a few characters and takes them away, or leaves them for good.
 * @param placed whether `from` will be asked
 */
function plainOf(text: string, placed: boolean): Plain {
  const codes = new Uint16Array(text.length);
  const places = new Uint32Array(placed ? text.length : 0);
  let top = text.length;
  let escaped = -1;
  for (let at = text.length - 1; at >= 0; at--) {
    const given = lower(text.charCodeAt(at));
    let code = given;
    for (let found = escapeAt(code, codes, top); found !== null; found = escapeAt(code, codes, top)) {
      code = lower(found.code);
      top += found.taken;
    }
    // In JSON inside JSON, an escape has more backslashes before it.
    if (code !== BACKSLASH || top !== escaped) codes[--top] = code;
    if (given === BACKSLASH && code !== BACKSLASH) escaped = top;
    if (placed) places[top] = at;
  }
  return {
    text: Buffer.from(codes.buffer, 2 * top).toString('utf16le'),
    from: (index) => places[top + index] ?? text.length,
  };
}

interface Escape {
  /** The character that it means. */
  readonly code: number;
  /** Characters behind the first one. */
  readonly taken: number;
}

/** The escape that a character begins, when it means a visible character of ASCII: keys have no others. */
function escapeAt(code: number, codes: Uint16Array, next: number): Escape | null {
  if (code === PERCENT) return numeral(codes, next, 2, 2, 16);
  if (code === AMPERSAND) return entity(codes, next);
  if (code !== BACKSLASH) return null;
  const escaped = codes[next] ?? 0;
  if (escaped === LETTER_U) return behind(1, numeral(codes, next + 1, 4, 4, 16));
  if (escaped === LETTER_X) return behind(1, numeral(codes, next + 1, 2, 2, 16));
  return isVisible(escaped) && !isLetterOrDigit(escaped) ? { code: escaped, taken: 1 } : null;
}

/** `&#43;`, `&#x2b;`, `&plus;` */
function entity(codes: Uint16Array, next: number): Escape | null {
  if (codes[next] !== NUMBER_SIGN) {
    let name = '';
    for (let at = next; isLetterOrDigit(codes[at] ?? 0) && name.length < LONGEST_NAME; at++) {
      name += String.fromCharCode(codes[at] ?? 0);
    }
    const char = codes[next + name.length] === SEMICOLON ? ENTITIES.get(name) : undefined;
    return char === undefined ? null : { code: char.charCodeAt(0), taken: name.length + 1 };
  }
  const inHex = codes[next + 1] === LETTER_X;
  const found = inHex
    ? behind(2, numeral(codes, next + 2, 1, LONGEST_NUMBER, 16))
    : behind(1, numeral(codes, next + 1, 1, LONGEST_NUMBER, 10));
  if (found === null) return null;
  return codes[next + found.taken] === SEMICOLON ? behind(1, found) : found;
}

/** As many digits as there are, of those that are allowed. */
function numeral(
  codes: Uint16Array,
  next: number,
  least: number,
  most: number,
  base: 10 | 16,
): Escape | null {
  let code = 0;
  let taken = 0;
  for (; taken < most; taken++) {
    const digit = digitOf(codes[next + taken] ?? 0);
    if (digit >= base) break;
    code = code * base + digit;
  }
  return taken >= least && isVisible(code) ? { code, taken } : null;
}

const behind = (more: number, found: Escape | null): Escape | null =>
  found && { code: found.code, taken: found.taken + more };

const PERCENT = 0x25;
const AMPERSAND = 0x26;
const NUMBER_SIGN = 0x23;
const SEMICOLON = 0x3b;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const LETTER_X = 0x78;

/** Leading zeros are allowed without end; nobody writes more. */
const LONGEST_NUMBER = 10;
const LONGEST_NAME = 8;

/** HTML's names of the visible characters of ASCII, in lower case. Source: the HTML standard, 13.5. */
const ENTITIES: ReadonlyMap<string, string> = new Map(
  (
    'excl ! quot " num # dollar $ percnt % amp & apos \' lpar ( rpar ) ast * midast * plus + comma , period . sol / colon : ' +
    'semi ; lt < equals = gt > quest ? commat @ lsqb [ lbrack [ bsol \\ rsqb ] rbrack ] hat ^ lowbar _ underbar _ grave ` ' +
    'lcub { lbrace { verbar | vert | rcub } rbrace }'
  )
    .split(' ')
    .flatMap((name, i, all) => (i % 2 === 0 ? [[name, all[i + 1] ?? ''] as const] : [])),
);

const isVisible = (code: number): boolean => code > 0x20 && code < 0x7f;
const lower = (code: number): number => (code >= 0x41 && code <= 0x5a ? code + 0x20 : code);
/** All letters are small here. */
const isLetterOrDigit = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x7a);

function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  return code >= 0x61 && code <= 0x66 ? code - 0x57 : 99;
}
