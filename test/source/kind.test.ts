import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { cells, expectRefused, input, read } from './inputs.js';

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');
const padded = (text: string): Buffer => Buffer.concat([latin1(text), Buffer.alloc(200, 1)]);

test.each([
  [
    'rows.csv',
    padded('PK\x03\x04...docProps/app.xml...xl/workbook.xml'),
    'input_is_workbook',
    /Excel workbook \(\.xlsx\)/,
  ],
  ['rows.xlsx', padded('PK\x03\x04...xl/worksheets/sheet1.xml'), 'input_is_workbook', /\.xlsx/],
  [
    'rows.ods',
    padded('PK\x03\x04mimetypeapplication/vnd.oasis.opendocument.spreadsheet'),
    'input_is_workbook',
    /\.ods/,
  ],
  ['rows.csv', padded('PK\x03\x04\x14\0reviews.csv'), 'input_is_archive', /zip archive/],
  ['rows.csv.gz', gzipSync(padded('PK\x03\x04')), 'input_is_archive', /zip archive/],
  ['rows.xls', padded('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1'), 'input_is_workbook', /\.xls\b/],
  ['rows.parquet', padded('PAR1\x15\x04'), 'input_is_parquet', /Parquet/],
  ['rows.csv', padded('\x28\xb5\x2f\xfd'), 'input_is_compressed', /zstd/],
  ['rows.csv.bz2', padded('BZh91AY&SY'), 'input_is_compressed', /bzip2/],
  ['rows.csv', padded('%PDF-1.7\n'), 'input_is_pdf', /PDF/],
  ['rows.csv', '\ufeff\n<!DOCTYPE html>\n<html><body>Log in</body></html>', 'input_is_html', /web page/],
  ['rows.jsonl', '<html lang="de">', 'input_is_html', /web page/],
  ['rows.csv', '<?xml version="1.0"?>\n<rows/>', 'input_is_xml', /XML/],
  ['rows.jsonl', '[\n  {"a": 1},\n  {"a": 2}\n]\n', 'input_is_json_array', /one JSON array/],
  ['rows.json', '[{"a":1},{"a":2}]', 'input_is_json_array', /one JSON array/],
  ['rows.json', ' [ ] \n', 'input_is_json_array', /one JSON array/],
  ['rows.csv', '[{"a":1}]', 'input_is_json_array', /one JSON array/],
  ['rows.json', '{\n  "a": 1\n}\n', 'input_is_json', /over several lines/],
  ['rows.jsonl', 'id,review\n1,good\n2,"bad, really"\n', 'input_is_csv', /has CSV in it/],
  ['rows.jsonl', 'id;review\n\n1;good\n', 'input_is_csv', /read as JSON lines/],
  ['rows.csv', '{"a":1,"b":2}\n{"a":3,"b":4}\n', 'input_is_json_lines', /read as CSV/],
] as const)('%s of other content is named as what it is: %#', async (name, bytes, code, message) => {
  await expectRefused({ path: input(name, bytes) }, code, message);
});

test('what only begins like another kind of file is read', async () => {
  expect(await cells({ path: input('rows.csv', 'PAR1,PKW\nBZh,%PDF\n') })).toEqual([['BZh', '%PDF']]);
  expect(await cells({ path: input('rows.csv', '<htmlish>,[x]\n{1,2\n') })).toEqual([['{1', '2']]);
  const { rows } = await read({ path: input('rows.jsonl', '[{"a":1}]\n{"a":2}\n[\n') });
  expect(rows.map((row) => row.problem?.code)).toEqual(['bad_json', undefined, 'bad_json']);
  const { rows: odd } = await read({ path: input('odd.jsonl', 'a, b\n{"a":2}\nc, d\n') });
  expect(odd.map((row) => row.problem?.code)).toEqual(['bad_json', undefined, 'bad_json']);
  expect(await cells({ path: input('rows.json', '{"a":1}\n{"a":2}\n') })).toEqual([[1], [2]]);
});

test.each([
  [
    'semicolons',
    'rows.csv',
    'id;note;price\n1;"a;b, c";3,50\n2;x,y,z;1,20\n',
    [
      ['1', 'a;b, c', '3,50'],
      ['2', 'x,y,z', '1,20'],
    ],
  ],
  ['tabs', 'rows.csv', 'id\tnote\n1\ta, b; c\n', [['1', 'a, b; c']]],
  ['vertical bars', 'rows.csv', 'id|note\r\n1|a\r\n', [['1', 'a']]],
  ['commas', 'rows.tsv', 'id,note\n1,a\n', [['1', 'a']]],
  ['semicolons', 'rows.csv', '"first\nand ""second"", too";note\r1;2\r', [['1', '2']]],
  [
    'semicolons',
    'rows.csv',
    `id;note\n${'1;2\n'.repeat(9)}1;2;3\n`,
    [...Array.from({ length: 9 }, () => ['1', '2']), ['1', '2']],
  ],
] as const)(
  'cells separated by %s in %s are told apart, and it is said: %#',
  async (names, name, text, expected) => {
    const { surveyed, rows } = await read({ path: input(name, text) });
    expect(rows.map((row) => [...row.fields.values()])).toEqual(expected);
    expect(surveyed.note).toMatch(new RegExp(`separated by ${names}, not by`));
  },
);

test('a comma in the header, or one column of prose, is read as CSV is', async () => {
  for (const [text, columns] of [
    ['id,"a;b",c;d\n1,2,3\n', ['id', 'a;b', 'c;d']],
    ['Question; please answer\nWhy; and; how\nWhen\nWho\n', ['Question; please answer']],
    ['"a;b"\n1;2\n', ['a;b']],
    ['note\n1;2\n', ['note']],
  ] as const) {
    const { surveyed } = await read({ path: input('rows.csv', text) });
    expect(surveyed.columns).toEqual(columns);
    expect(surveyed.note).toBeUndefined();
  }
});

test('what cannot be told apart is asked for, and what the job says is taken', async () => {
  const both = input('rows.csv', 'a;b|c\n1;2|3\n');
  await expectRefused(
    { path: both },
    'ambiguous_delimiter',
    /no commas and some semicolons and vertical bars/,
  );
  expect(await cells({ path: both, delimiter: ';' })).toEqual([['1', '2|3']]);
  const path = input('rows.csv', 'id;note\n1;a\n');
  const { surveyed } = await read({ path, delimiter: ',' });
  expect(surveyed).toMatchObject({ columns: ['id;note'] });
});

test('Excel’s first line sep=; is honoured, and lines are counted with it', async () => {
  for (const [first, delimiter] of [
    ['sep=;\r\n', ';'],
    ['\ufeffSEP=|\n', '|'],
    ['"sep=\t"\r', '\t'],
    ['sep=,\n', ','],
  ] as const) {
    const path = input('rows.csv', `${first}a${delimiter}b\n1${delimiter}2\n`);
    const { surveyed, rows } = await read({ path });
    expect(surveyed.columns, first).toEqual(['a', 'b']);
    expect(rows.map((row) => [row.line, ...row.fields.values()])).toEqual([[3, '1', '2']]);
    expect(surveyed.note).toMatch(/as its first line says, "?sep=/i);
  }
  const given = input('rows.csv', 'sep=;\na,b\n1,2\n');
  expect(await cells({ path: given, delimiter: ',' })).toEqual([['1', '2']]);
});
