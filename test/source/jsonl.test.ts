import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseObject } from '../../src/source/json.js';
import { expectRefused, input, read } from './inputs.js';

test('fault 11: a bad line fails that row only, and the numbering stays', async () => {
  const bad = [
    '{"a":',
    '[1]',
    '"text"',
    '7',
    'null',
    '{"a":1} x',
    "{'a':1}",
    '{"a":1,}',
    '{"a":01}',
    '{"a":"\t"}',
  ];
  const text = ['{"a":1}', ...bad, '{"a":2}'].join('\n');
  const { surveyed, rows } = await read({ path: input('rows.jsonl', text) });
  expect(surveyed).toMatchObject({ rows: 12, badRows: 10, columns: ['a'] });
  expect(rows.map((row) => row.number)).toEqual(rows.map((_, index) => index + 1));
  for (const row of rows.slice(1, -1)) {
    expect(row.fault?.code, row.source).toBe('bad_json');
    expect(row.fault?.message).toContain(`line ${row.line} `);
    expect(row.source).toBe(bad[row.number - 2]);
  }
  expect(rows.at(-1)?.fields.get('a')).toBe(2);
});

test('fault 11: blank lines are no rows but count as lines, whatever ends them', async () => {
  const path = input('rows.ndjson', '\n{"a":1}\r\n \t\r\r{"a":2}\n\r\n  {"a": 3} ');
  const { rows } = await read({ path });
  expect(rows.map(({ number, line, source, bytes }) => [number, line, source, bytes])).toEqual([
    [1, 2, '{"a":1}', 7],
    [2, 5, '{"a":2}', 7],
    [3, 7, '  {"a": 3} ', 11],
  ]);
});

test('fault 3: a CR LF cut by the end of a chunk ends one line', async () => {
  for (let pad = 0; pad < 4; pad++) {
    const first = JSON.stringify({ a: 'x'.repeat(64 * 1024 - 12 + pad) });
    const { rows } = await read({ path: input('rows.jsonl', `${first}\r\n{"a":2}\r\n`) });
    expect(rows.map((row) => row.line)).toEqual([1, 2]);
  }
});

test('the columns are the keys of all records in the order first seen, and fields keep their own', async () => {
  const { surveyed, rows } = await read({ path: input('x.jsonl', '{"b":1,"10":2,"2":3}\n{"a":4,"b":5}\n') });
  expect(surveyed.columns).toEqual(['b', '10', '2', 'a']);
  expect(rows.map((row) => [...row.fields.keys()])).toEqual([
    ['b', '10', '2'],
    ['a', 'b'],
  ]);
});

test('more than 2,000 different keys are refused with the line', async () => {
  const lines = Array.from({ length: 2_001 }, (_, index) => `{"k${index}":1}\n`).join('');
  await expectRefused({ path: input('rows.jsonl', lines) }, 'too_many_columns', /line 2001: .*2000/);
});

test('fault 9: keys that are names of a prototype are plain data, nested ones too', () => {
  const text = '{"__proto__":{"__proto__":{"x":1},"toString":2},"constructor":3,"toString":4}';
  const fields = parseObject(text);
  expect([...fields.keys()]).toEqual(['__proto__', 'constructor', 'toString']);
  expect(JSON.stringify(fields.get('__proto__'))).toBe('{"__proto__":{"x":1},"toString":2}');
  expect(Object.getPrototypeOf(fields.get('__proto__'))).toBeNull();
  expect(({} as { x?: unknown }).x).toBeUndefined();
});

test('fault 8: NUL, a lone surrogate, emoji and right-to-left text come through their escapes', () => {
  expect(parseObject('{"a":"\\u0000\\ud800 \\ud83d\\ude00 😀 שלום \\"\\\\"}').get('a')).toBe(
    '\0\ud800 😀 😀 שלום "\\',
  );
});

test('fault 10: a number that JavaScript would write otherwise is its text', () => {
  const numbers = '[1,-2.5,0]';
  const fields = parseObject(
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
  const body = parseObject('{"body":{"temperature":0.0,"max_tokens":5,"id":12345678901234567890}}').get(
    'body',
  );
  expect(JSON.stringify(body)).toBe('{"temperature":0,"max_tokens":5,"id":"12345678901234567890"}');
});

test('fault 6: two values for one key are refused, at the top and inside', () => {
  expect(() => parseObject('{"a":1,"a":1}')).toThrow('two values for the key "a" at column');
  expect(() => parseObject('{"a":{"b":1,"b":2}}')).toThrow('two values for the key "b"');
});

test('nesting too deep to write again is refused and not a stack overflow', () => {
  expect(() => parseObject(`{"a":${'['.repeat(1_000_000)}`)).toThrow(SyntaxError);
});

test('every value that JSON can write is read as JSON.parse reads it', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.constantFrom(0, 1), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      const nested = parseObject(`{"value":${text}}`).get('value');
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
      if (!valid) expect(() => parseObject(text), text).toThrow(SyntaxError);
    }),
    { seed: 20_240_601, numRuns: 2_000 },
  );
});
