import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { memberTexts, parseExact, parseFields } from '../../src/core/json.js';

test('fault 9: keys that are names of a prototype are plain data, nested ones too', () => {
  const text = '{"__proto__":{"__proto__":{"x":1},"toString":2},"constructor":3,"toString":4}';
  const fields = parseFields(text);
  expect([...fields.keys()]).toEqual(['__proto__', 'constructor', 'toString']);
  expect(JSON.stringify(fields.get('__proto__'))).toBe('{"__proto__":{"x":1},"toString":2}');
  expect(Object.getPrototypeOf(fields.get('__proto__'))).toBeNull();
  expect(({} as { x?: unknown }).x).toBeUndefined();
});

test('fault 8: NUL, a lone surrogate, emoji and right-to-left text come through their escapes', () => {
  expect(parseFields('{"a":"\\u0000\\ud800 \\ud83d\\ude00 😀 שלום \\"\\\\"}').get('a')).toBe(
    '\0\ud800 😀 😀 שלום "\\',
  );
});

test('fault 10: a number that JavaScript would write otherwise is its text', () => {
  const numbers = '[1,-2.5,0]';
  const fields = parseFields(
    `{"a":1,"b":1.50,"c":1e5,"d":12345678901234567890,"e":-0,"f":1e400,"g":0.1,"h":${numbers}}`,
  );
  expect([...fields.values()]).toEqual([
    1,
    '1.50',
    '1e5',
    '12345678901234567890',
    '-0',
    '1e400',
    0.1,
    [1, -2.5, 0],
  ]);
});

test('fault 10: a nested number is a number unless it would lose digits', () => {
  const body = parseFields('{"body":{"temperature":0.0,"max_tokens":5,"id":12345678901234567890}}').get(
    'body',
  );
  expect(JSON.stringify(body)).toBe('{"temperature":0,"max_tokens":5,"id":"12345678901234567890"}');
});

test('fault 6: two values for one key are refused, at the top and inside', () => {
  expect(() => parseFields('{"a":1,"a":1}')).toThrow('two values for the key "a" at column');
  expect(() => parseFields('{"a":{"b":1,"b":2}}')).toThrow('two values for the key "b"');
});

test('nesting too deep to write again is refused and not a stack overflow', () => {
  expect(() => parseFields(`{"a":${'['.repeat(1_000_000)}`)).toThrow(SyntaxError);
});

test('every value that JSON can write is read as JSON.parse reads it', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(0, 1), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      const nested = parseFields(`{"value":${text}}`).get('value');
      expect(JSON.stringify(nested)).toBe(JSON.stringify(JSON.parse(text)));
    }),
    { seed: 20_240_601, numRuns: 300 },
  );
});

test('no text makes the parser accept what JSON.parse refuses', () => {
  const token = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '"b"',
    '1',
    '-',
    '.5',
    'e1',
    'true',
    'nul',
    ' ',
  );
  fc.assert(
    fc.property(fc.array(token, { maxLength: 8 }), (tokens) => {
      const text = `{${tokens.join('')}}`;
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      if (!valid) expect(() => parseFields(text), text).toThrow(SyntaxError);
    }),
    { seed: 20_240_601, numRuns: 2_000 },
  );
});

const asText = (_: string, value: unknown): unknown =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? String(value) : value;

describe('the JSON of an answer', () => {
  it('is what JSON.parse reads, and the last of two equal keys counts', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(0, 1), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        expect(JSON.stringify(parseExact(text))).toBe(JSON.stringify(value, asText));
      }),
      { seed: 20_240_601, numRuns: 300 },
    );
    expect(parseExact('{"a":1,"b":2,"a":3}')).toEqual({ a: 3, b: 2 });
  });

  it('keeps the digits of a whole number that JavaScript would round, and nothing else as text', () => {
    expect(parseExact('[12345678901234567890, 9007199254740991, 1.50, 1e5, -7]')).toEqual([
      '12345678901234567890',
      9_007_199_254_740_991,
      1.5,
      100_000,
      -7,
    ]);
  });
});

describe('the members of a JSON object as text', () => {
  it('come to an end wherever the text is cut off', () => {
    const text = '{"a":"x\\"y","b":{"c":[1,"z"]},"d":null}';
    for (let end = 1; end < text.length; end++) {
      try {
        expect(memberTexts(text.slice(0, end)).size).toBeLessThanOrEqual(3);
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError);
      }
    }
    expect(() => memberTexts('{"a":"x')).toThrow('a string is not closed');
    expect(() => memberTexts('x,"a"')).toThrow('a key has no value');
  });

  it('are the values that JSON.parse finds, without white space between tokens', () => {
    const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { noNullPrototype: true });
    const property = fc.property(object, fc.constantFrom(0, 1, '\t'), (value, indent) => {
      const members = memberTexts(JSON.stringify(value, null, indent));
      const compact = Object.entries(value).map(([name, member]) => [name, JSON.stringify(member)]);
      expect([...members]).toEqual(compact);
    });
    fc.assert(property, { seed: 10, numRuns: 500 });
  });
});
