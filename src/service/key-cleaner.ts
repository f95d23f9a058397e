/**
 * Gateways quote the key they refuse, some of them escaped: JSON (`\u002B`, `\/`), URLs (`%2b`), HTML
 * (`&#43;`, `&plus;`), nested or mixed, base64 as in Basic authentication, hexadecimal. Each body is cleaned
 * before anything reads it, so no message, log or store can hold the key (faults 53 and 78).
 *
 * The body is unescaped to a plain form, and the key's plain form is searched there. Each plain character
 * maps back to its place in the body.
 */

export type KeyCleaner = (text: string) => string;

/** Real keys are longer; a shorter stand-in for a local server could be a word of an answer. */
const SHORTEST = 12;

/** For a proxy user: shorter ones, or their base64, may be common words. */
const SHORTEST_USER = 6;

/** @param user `user:password` of the proxy, which its own responses may quote */
export function proxyCleaner(user: string): KeyCleaner {
  const cleanPassword = keyCleaner(user.slice(user.indexOf(':') + 1));
  const cleanBoth = keyCleaner(user, SHORTEST_USER);
  return (text) => cleanPassword(cleanBoth(text));
}

/**
 * @param key only characters that a header can carry
 * @param shortest shorter keys are not removed
 */
export function keyCleaner(key: string, shortest = SHORTEST): KeyCleaner {
  if (key.length < shortest) return (text) => text;
  const forms = formsOf(key);
  // Nearly every body has quotes, and their escapes matter only for a key with a quote.
  const mayMean = key.includes('"') ? ESCAPE : new RegExp(`(?!\\\\")(?:${ESCAPE.source})`, 'i');
  return (body) => {
    const text = body.includes(key) ? body.replaceAll(key, '[key]') : body;
    const plain = mayMean.test(text) ? plainOf(text, false).text : text.toLowerCase();
    return forms.some((form) => plain.includes(form)) ? without(text, forms) : text;
  };
}

/**
 * Escapes of visible ASCII characters, since keys have no others: hexadecimal byte, HTML number or name,
 * backslash. Leading zeros are bounded far above any real text.
 */
const ESCAPE =
  /(?:%|\\x|\\u00)([2-7][\da-f])|&#x([\da-f]{1,10});?|&#(\d{1,10});?|&([a-z]{1,8});|\\([!-/:-@[-`{-~])/i;
const ESCAPE_FIRST = new RegExp(`^(?:${ESCAPE.source})`);
/** Length of the longest escape, in characters. */
const LONGEST = 14;

/** The forms to remove, in lower case as in the plain text. */
function formsOf(key: string): readonly string[] {
  // A backslash at its end would join with what follows in the body.
  const raw = plainOf(key, false).text.replace(/\\{1,100}$/, '');
  const encoded = [0, 1, 2].map((offset) => base64Core(key, offset));
  const forUrls = encoded.map((core) => core.replaceAll('+', '-').replaceAll('/', '_'));
  return [...new Set([raw, ...encoded, ...forUrls, Buffer.from(key).toString('hex')])];
}

/** Base64 of the key after `offset` bytes, without the characters that share bits with its neighbours. */
function base64Core(key: string, offset: number): string {
  const bits = Buffer.concat([Buffer.alloc(offset), Buffer.from(key)]);
  const first = Math.ceil((offset * 8) / 6);
  const whole = Math.floor((bits.length * 8) / 6);
  return bits.toString('base64').slice(first, whole).toLowerCase();
}

function without(text: string, forms: readonly string[]): string {
  const plain = plainOf(text, true);
  const anyForm = new RegExp(forms.map((form) => form.replace(/\W/g, '\\$&')).join('|'), 'g');
  let cleaned = '';
  let copied = 0;
  for (const { 0: form, index } of plain.text.matchAll(anyForm)) {
    cleaned += `${text.slice(copied, plain.from(index))}[key]`;
    copied = plain.from(index + form.length);
  }
  return cleaned + text.slice(copied);
}

interface Plain {
  /** ASCII letters in lower case. */
  readonly text: string;
  /** Where a plain character begins in the original; the end of the text for its length. */
  readonly from: (index: number) => number;
}

/**
 * Runs from the end, so that nested escapes are resolved from the inside out, in linear time.
 * @param placed whether `from` will be used
 */
function plainOf(text: string, placed: boolean): Plain {
  const codes = new Uint16Array(text.length);
  const bytes = Buffer.from(codes.buffer);
  const places = new Uint32Array(placed ? text.length : 0);
  let top = text.length;
  let escaped = -1;
  for (let at = text.length - 1; at >= 0; at--) {
    const given = lower(text.charCodeAt(at));
    let code = given;
    codes[--top] = code;
    while (code === PERCENT || code === AMPERSAND || code === BACKSLASH) {
      const { meant, length } = escapeIn(bytes.toString('utf16le', 2 * top, 2 * (top + LONGEST)));
      if (length === 0) break;
      code = lower(meant);
      top += length - 1;
      codes[top] = code;
    }
    // In nested JSON an escape has more backslashes before it.
    if (code === BACKSLASH && top + 1 === escaped) top++;
    if (given === BACKSLASH && code !== BACKSLASH) escaped = top;
    if (placed) places[top] = at;
  }
  return {
    text: bytes.toString('utf16le', 2 * top),
    from: (index) => places[top + index] ?? text.length,
  };
}

/** The escape at the start of a lower-case text, if it stands for a visible character. */
function escapeIn(text: string): { meant: number; length: number } {
  const [found = '', byte, hex = byte, decimal, name = '', sign] = ESCAPE_FIRST.exec(text) ?? [];
  const digits = hex === undefined ? decimal : `0x${hex}`;
  const meant = digits === undefined ? (ENTITIES.get(name) ?? sign ?? '').charCodeAt(0) : Number(digits);
  return meant > 0x20 && meant < 0x7f ? { meant, length: found.length } : { meant: 0, length: 0 };
}

const PERCENT = 0x25;
const AMPERSAND = 0x26;
const BACKSLASH = 0x5c;

/** HTML names of visible ASCII characters, in lower case. Source: the HTML standard, 13.5. */
const ENTITIES: ReadonlyMap<string, string> = new Map(
  (
    'excl ! quot " num # dollar $ percnt % amp & apos \' lpar ( rpar ) ast * midast * plus + comma , period . sol / colon : ' +
    'semi ; lt < equals = gt > quest ? commat @ lsqb [ lbrack [ bsol \\ rsqb ] rbrack ] hat ^ lowbar _ underbar _ grave ` ' +
    'lcub { lbrace { verbar | vert | rcub } rbrace }'
  )
    .split(' ')
    .flatMap((name, i, all) => (i % 2 === 0 ? [[name, all[i + 1] ?? ''] as const] : [])),
);

const lower = (code: number): number => (code >= 0x41 && code <= 0x5a ? code + 0x20 : code);
