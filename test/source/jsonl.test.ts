import { expect, test } from 'vitest';
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
    expect(row.problem?.code, row.source).toBe('bad_json');
    expect(row.problem?.message).toContain(`line ${row.line} `);
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
