import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { keyCleaner } from '../../src/service/key-cleaner.js';

const KEY = 'sk+Ab/9=Zz-q_8"<&x>T';
const clean = keyCleaner(KEY);
const basic = (user: string, end = '') => Buffer.from(`${user}${KEY}${end}`).toString('base64');
const each = (code: (char: string) => string) => [...KEY].map(code).join('');
const hex = (char: string, digits: number) => char.charCodeAt(0).toString(16).padStart(digits, '0');

describe('fault 78: a key in a body', () => {
  test.each([
    ['as it is', KEY],
    ['in small letters', KEY.toLowerCase()],
    ['in JSON', JSON.stringify(KEY)],
    ['in JSON inside JSON', JSON.stringify(JSON.stringify(KEY))],
    ['with \\/', KEY.replace('/', '\\/')],
    ['with \\u002B', KEY.replace('+', '\\u002B')],
    ['with \\u002b', KEY.replace('+', '\\u002b')],
    ['with \\\\u002b', KEY.replace('+', '\\\\u002b')],
    ['all in \\u', each((char) => `\\u${hex(char, 4)}`)],
    ['all in \\x', each((char) => `\\x${hex(char, 2)}`)],
    ['in a URL', encodeURIComponent(KEY)],
    ['in a URL, with small digits', encodeURIComponent(KEY).replace(/%../g, (code) => code.toLowerCase())],
    ['in a URL inside a URL', encodeURIComponent(encodeURIComponent(encodeURIComponent(KEY)))],
    ['all in %', each((char) => `%${hex(char, 2)}`)],
    [
      'in %, of odd case',
      each((char) => `%${hex(char, 2).replace(/[a-f]/, (digit) => digit.toUpperCase())}`),
    ],
    [
      'in HTML',
      KEY.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;'),
    ],
    [
      'in HTML by names',
      KEY.replace('+', '&plus;').replace('/', '&sol;').replace('=', '&equals;').replace('_', '&lowbar;'),
    ],
    ['in decimals of HTML', each((char) => `&#${char.charCodeAt(0)};`)],
    ['in decimals with zeros', each((char) => `&#${String(char.charCodeAt(0)).padStart(7, '0')};`)],
    ['in hexadecimals of HTML', each((char) => `&#X${hex(char, 2)};`)],
    [
      'in a URL inside HTML inside JSON',
      JSON.stringify(encodeURIComponent(KEY).replaceAll('%', '&#x25;')).slice(1, -1),
    ],
    ['in hexadecimal', Buffer.from(KEY).toString('hex')],
    ['in hexadecimal, capitals', Buffer.from(KEY).toString('hex').toUpperCase()],
    ['in base64', basic('')],
    ['in base64 of Basic', basic('user:')],
    ['in base64 of Basic, another length', basic('me:', '\n')],
    ['in base64 of Basic, another still', basic('user1:', ', and more')],
    ['in base64 for URLs', Buffer.from(`u:${KEY}`).toString('base64url')],
    ['in base64 in JSON', basic('user:').replaceAll('/', '\\/')],
    ['in base64 in a URL', encodeURIComponent(basic('user:'))],
  ])('goes %s', (_, form) => {
    const body = `{"message":"the key ${form} is not valid \\u00e9 \\n"}`;
    // Of base64, what holds parts of other characters stays.
    expect(clean(body)).toMatch(
      /^\{"message":"the key [\\"]{0,4}[\w]{0,8}\[key\](?:[\w=+/]|%3D){0,20}[\\"]{0,4} is not valid \\u00e9 \\n"\}$/,
    );
    expect(JSON.parse(clean(JSON.stringify({ form })))).toEqual({ form: expect.stringContaining('[key]') });
  });

  it('goes every time it is there, and leaves everything else as it was', () => {
    const other = String.raw`\u0041 %41 &amp; 100 % & \\ "\/" é 👍 \ud83d %2 &#; &nope; \u12`;
    expect(clean(other)).toBe(other);
    const twice = `${encodeURIComponent(KEY)}${KEY}`;
    expect(clean(`${other}${twice}${other}`)).toBe(`${other}[key][key]${other}`);
  });

  it('stays where it is too short to be told from a word', () => {
    expect(keyCleaner('local')('a local server')).toBe('a local server');
  });

  it('is found in any mixture of escapes', () => {
    const codes: readonly ((char: string) => string)[] = [
      (char) => char,
      (char) => `%${hex(char, 2)}`,
      (char) => `\\u${hex(char, 4)}`,
      (char) => `&#${char.charCodeAt(0)};`,
      (char) => `&#x${hex(char, 2).toUpperCase()};`,
    ];
    const key = fc.string({ unit: fc.constantFrom(...'aZ09+/=-_.~$!'), minLength: 16, maxLength: 40 });
    const choices = fc.array(fc.nat({ max: codes.length - 1 }), { minLength: 300, maxLength: 300 });
    const property = fc.property(key, choices, fc.nat({ max: 2 }), (secret, chosen, times) => {
      let next = 0;
      let form = secret;
      for (let time = 0; time < times + 1; time++) {
        // A second time only some characters, or the form would grow without end.
        form = [...form]
          .map((char, i) =>
            time > 0 && i % 5 > 0 ? char : (codes[chosen[next++ % 300] ?? 0]?.(char) ?? char),
          )
          .join('');
      }
      expect(keyCleaner(secret)(`before ${form} behind`)).toBe('before [key] behind');
    });
    fc.assert(property, { seed: 78, numRuns: 500 });
  });
});
