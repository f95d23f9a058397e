import { existsSync } from 'node:fs';
import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cells, expectRefused, input, read } from './inputs.js';

test('fault 3: CRLF, LF, CR and a mixture of them end records', async () => {
  const expected = [
    ['1', 'x'],
    ['2', 'y'],
  ];
  for (const text of [
    'a,b\r\n1,x\r\n2,y\r\n',
    'a,b\n1,x\n2,y',
    'a,b\r1,x\r2,y\r',
    'a,b\r\n1,x\n2,y\r',
    'a,b\n1,x\r\n2,y',
  ]) {
    expect(await cells({ path: input('rows.csv', text) }), JSON.stringify(text)).toEqual(expected);
  }
});

test('fault 3: line ends inside quoted cells come out byte for byte', async () => {
  const path = input('rows.csv', 'a,b\r\n"1\r\n2\r3\n4","\n"\r\n5,6\r\n');
  expect(await cells({ path })).toEqual([
    ['1\r\n2\r3\n4', '\n'],
    ['5', '6'],
  ]);
});

test('a row knows its number, and the line on which its record begins', async () => {
  const path = input('rows.csv', '\r\n"a\r\nb",c\r\n\r\n1,2\r\n"x\r\ny\rz\n","\r\n"\r\n\n\r\r\n3,4\n5,6');
  const { rows } = await read({ path });
  expect(rows.map(({ number, line }) => [number, line])).toEqual([
    [1, 5],
    [2, 6],
    [3, 14],
    [4, 15],
  ]);
});

test('the bytes of the rows, with the header’s, are those of the file', async () => {
  const { surveyed, rows } = await read({ path: input('rows.csv', 'ä,b\r\n"ü ""x""",2\r\n3,4\r\n') });
  expect(rows.map((row) => row.bytes)).toEqual([14, 5]);
  expect(surveyed.bytes).toBe(25);
});

test('fault 4: a quote that opens a cell at row 10 of 1,000 and never closes is refused with its line', async () => {
  const withRow10 = (row: string) => {
    const lines = Array.from({ length: 1_000 }, (_, index) => `${index + 1},"a ""fine"" cell",more`);
    lines[9] = row;
    return input('rows.csv', `id,size,note\n${lines.join('\r\n')}\r\n`);
  };
  await expectRefused({ path: withRow10('10,"nail,more') }, 'bad_quote', /line 11 .*"size"/);
});

test('fault 4: a last quote that is never closed is refused with the line of its record', async () => {
  const path = input('rows.csv', 'id,note\n1,"a\r\nb"\r\n\r\n2,"open\r\n3,x\r\n4,y\r\n');
  await expectRefused({ path }, 'bad_quote', /line 5 .*"note".* never closed/);
});

test('fault 5: a ragged record is a row with a fault, and reading continues in step', async () => {
  const { surveyed, rows } = await read({ path: input('rows.csv', 'a,b\n1,2\n3\n4,5,6\n7,8\n') });
  expect(surveyed).toMatchObject({ rows: 4, badRows: 2 });
  expect(rows.map((row) => [row.number, [...row.fields.values()].join(), row.problem?.message])).toEqual([
    [1, '1,2', undefined],
    [2, '3', 'the record on line 3 has 1 cells, and the header has 2'],
    [3, '4,5', 'the record on line 4 has 3 cells, and the header has 2'],
    [4, '7,8', undefined],
  ]);
  expect(rows.map((row) => row.problem?.code)).toEqual([
    undefined,
    'ragged_record',
    'ragged_record',
    undefined,
  ]);
});

test('fault 6: two columns of one name are refused with both positions', async () => {
  await expectRefused(
    { path: input('x.csv', 'a,b,a\n1,2,3\n') },
    'duplicate_column',
    /columns 1 and 3 .*"a"/,
  );
  const named = input('x.csv', 'column_2,\n1,2\n');
  await expectRefused({ path: named }, 'duplicate_column', /columns 1 and 2 .*"column_2"/);
  await expectRefused({ path: input('x.csv', 'a,a') }, 'duplicate_column', /columns 1 and 2 .*"a"/);
});

test('a column without a name is called after its position', async () => {
  const { surveyed } = await read({ path: input('rows.csv', ',a,""\n1,2,3\n') });
  expect(surveyed.columns).toEqual(['column_1', 'a', 'column_3']);
});

test('fault 9: headers that are names of a prototype are plain data', async () => {
  const { surveyed, rows } = await read({ path: input('x.csv', '__proto__,constructor,toString\n1,2,3\n') });
  expect(surveyed.columns).toEqual(['__proto__', 'constructor', 'toString']);
  expect([...(rows[0]?.fields ?? [])]).toEqual([
    ['__proto__', '1'],
    ['constructor', '2'],
    ['toString', '3'],
  ]);
});

test('fault 10: what looks like a number or a truth value stays the text it is', async () => {
  const path = input('rows.csv', 'a,b,c,d,e,f\n00012,1e5,12345678901234567890,true, x\t,\n');
  expect(await cells({ path })).toEqual([['00012', '1e5', '12345678901234567890', 'true', ' x\t', '']]);
});

test('fault 16: a row of 500 columns', async () => {
  const names = Array.from({ length: 500 }, (_, index) => `c${index}`);
  const { surveyed, rows } = await read({ path: input('rows.csv', `${names}\n${names}\n`) });
  expect(surveyed.columns).toEqual(names);
  expect([...(rows[0]?.fields.values() ?? [])]).toEqual(names);
});

test('blank lines are no records, and an empty cell alone on its line is written in quotes', async () => {
  expect(await cells({ path: input('rows.csv', '\n\na\n1\n\n""\n\r\n \n\n') })).toEqual([['1'], [''], [' ']]);
});

test('TSV is separated by tabs, and a delimiter of one’s own by that', async () => {
  expect(await cells({ path: input('rows.tsv', 'a\tb\n1,5\t"x\ty"\n') })).toEqual([['1,5', 'x\ty']]);
  expect(await cells({ path: input('rows.csv', 'a;b\n1,5;2\n'), delimiter: ';' })).toEqual([['1,5', '2']]);
  await expectRefused({ path: input('rows.csv', 'a\n1\n'), delimiter: '"' }, 'bad_delimiter', /"\\""/);
});

test('any table of any text is read back cell for cell', async () => {
  const cell = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 12 }),
    fc.string({
      unit: fc.constantFrom('"', ',', '\r', '\n', '\0', ' ', '\ufeff', 'ü', '😀', 'ש'),
      maxLength: 8,
    }),
  );
  const table = fc
    .integer({ min: 1, max: 5 })
    .chain((width) =>
      fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1, maxLength: 8 }),
    );
  await fc.assert(
    fc.asyncProperty(table, fc.constantFrom('\n', '\r\n', '\r'), async (expected, ending) => {
      const header = (expected[0] ?? []).map((_, index) => `c${index}`);
      const text = stringify([header, ...expected], {
        quoted: true,
        quoted_empty: true,
        record_delimiter: ending,
      });
      expect(await cells({ path: input('table.csv', text) })).toEqual(expected);
    }),
    { seed: 20_240_601, numRuns: 200 },
  );
});

const reviews = '../shared/data/clothing-reviews.csv';
const absent = !existsSync(reviews);
if (absent) console.log(`skipped: ${reviews} is not here, so the clothing reviews are not read`);

test.skipIf(absent)('the clothing reviews are read whole', async () => {
  const { surveyed, rows } = await read({ path: reviews });
  expect(surveyed).toMatchObject({ rows: 1_000, badRows: 0 });
  expect(surveyed.columns.slice(0, 2)).toEqual(['column_1', 'Clothing ID']);
  expect(rows.filter((row) => row.fields.get('Review Text') === '')).toHaveLength(42);
});

test('fault 70: a record of many short cells counts as the memory that they take, and not as its bytes', async () => {
  const names = Array.from({ length: 1_000 }, (_, i) => `c${i}`).join(',');
  const { rows } = await read({ path: input('many.csv', `${names}\n${'1,'.repeat(999)}1\n`) });
  expect(rows[0]?.bytes).toBe(2_000);
  expect(rows[0]?.memoryBytes).toBeGreaterThan(20_000);
});
