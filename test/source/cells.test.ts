import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import { csv } from '../../src/output/csv.js';
import { recordFormat } from '../../src/output/format.js';
import { readCsv } from '../../src/source/csv.js';
import { lineBreaks } from '../../src/source/lines.js';
import { cells, expectRefused, input, read } from './inputs.js';

const require = createRequire(import.meta.url);
const spectrum = dirname(require.resolve('csv-spectrum/package.json'));
const samples = readdirSync(join(spectrum, 'csvs')).map((file) => basename(file, '.csv'));

test('fault 71: csv-spectrum has its twelve files', () => {
  expect(samples).toHaveLength(12);
});

test.each(samples)('fault 71: csv-spectrum, %s', async (name) => {
  const { rows } = await read({ path: join(spectrum, 'csvs', `${name}.csv`) });
  const json = JSON.parse(readFileSync(join(spectrum, 'json', `${name}.json`), 'utf8'));
  // The package's JSON of the coordinates is no list, and has another telephone number than its CSV.
  const expected = Array.isArray(json) ? json : [{ ...json, 'Contact Phone Number': '2095257564' }];
  expect(rows.map((row) => Object.fromEntries(row.fields))).toEqual(expected);
  expect(rows.filter((row) => row.problem !== undefined)).toEqual([]);
});

test('fault 71: a quote inside a cell that does not begin with one is data', async () => {
  const text = `size,place\n5'11",37°36'37.8"N 126°59'00"E\n"5'11""","a ""b"""\na"b"c,"x" ,\n`;
  const { rows } = await read({ path: input('rows.csv', text) });
  expect(rows.map((row) => [...row.fields.values()])).toEqual([
    [`5'11"`, `37°36'37.8"N 126°59'00"E`],
    [`5'11"`, 'a "b"'],
    ['a"b"c', 'x '],
  ]);
  expect(rows.map((row) => row.line)).toEqual([2, 3, 4]);
});

test('fault 71: text behind a closing quote belongs to the cell, as in Python and pandas', async () => {
  const text = 'a,b\n"abc"def,1\n"5" nail,""x\n"a""b"c"d"e,"" ""\n"x" \t,"y"z';
  expect(await cells({ path: input('rows.csv', text) })).toEqual([
    ['abcdef', '1'],
    ['5 nail', 'x'],
    ['a"bc"d"e', ' ""'],
    ['x \t', 'yz'],
  ]);
});

test('fault 4: an unclosed quote that meets a later quote is refused, and swallows no row', async () => {
  const text = 'id,note\r\n1,x\r\n2,"open\r\n3,"closed"\r\n4,y\r\n';
  await expectRefused({ path: input('rows.csv', text) }, 'bad_quote', /line 3 .*"note".* never closed/);
});

test('a cell over several lines may have spaces behind its quote', async () => {
  expect(await cells({ path: input('rows.csv', 'a,b\n"1\n2" \t,3\n4,5\n') })).toEqual([
    ['1\n2 \t', '3'],
    ['4', '5'],
  ]);
});

/** Long ones, and the characters that can stand for a long one, among them. */
const CHARACTERS = [
  '"',
  '"',
  ',',
  '\n',
  '\r',
  ' ',
  'x',
  '\0',
  '\u0001',
  '\ufffd',
  'ü',
  'x'.repeat(23),
  'y'.repeat(30),
];
const odd = fc.string({ unit: fc.constantFrom(...CHARACTERS), maxLength: 24 });

test('fault 71: any text is read as Python’s csv reads it, or refused for a quote that never closes', async () => {
  await fc.assert(
    fc.asyncProperty(
      odd,
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom(',', '§'),
      async (raw, size, delimiter) => {
        const text = raw.replaceAll(',', delimiter);
        const expected = pythonCsv(text, delimiter);
        const found = await parsed(text, size, delimiter);
        expect(found).toEqual(expected);
      },
    ),
    { seed: 71, numRuns: 1_000 },
  );
});

test('any table is read as csv-parse reads it alone: cells, places, and what is wrong', async () => {
  const bare = fc
    .string({ unit: fc.constantFrom(...CHARACTERS.filter((each) => !/[\r\n]/.test(each))), maxLength: 6 })
    .filter((text) => !text.startsWith('"'));
  const quoted = fc
    .string({ unit: fc.constantFrom(...CHARACTERS, '\r\n'), maxLength: 6 })
    .map((text) => `"${text.replaceAll('"', '""')}"`);
  const record = fc.array(fc.oneof(bare, quoted), { minLength: 1, maxLength: 5 });
  const ending = fc.constantFrom('\n', '\r\n', '\r', '\n\n');
  const tail = fc.constantFrom('', '\n', 'x', 'x|', `"never closed ${'and long '.repeat(4)}`);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(record, ending), { maxLength: 6 }),
      tail,
      fc.integer({ min: 1, max: 60 }),
      fc.constantFrom(',', ';', '\t', '§', '||', '\0', '\u0001'),
      async (records, end, size, delimiter) => {
        const text =
          records
            .map(
              ([cells, ending]) =>
                cells
                  .map((cell) => (cell.startsWith('"') ? cell : cell.replaceAll(delimiter, 'x')))
                  .join(delimiter) + ending,
            )
            .join('') + end;
        expect(await readInPieces(text, size, delimiter)).toEqual(parsedAlone(text, delimiter));
      },
    ),
    { seed: 12, numRuns: 2_000 },
  );
});

test('fault 71: such cells come out as they went in', async () => {
  const { surveyed, rows } = await read({
    path: input('rows.csv', `size,note\n5'11",37°36'37.8"N\n"""q"" said","a\r\nb"\n"abc"def,"\n"\n`),
  });
  const format = recordFormat({
    format: csv,
    inputColumns: surveyed.columns,
    answer: answerReader({ kind: 'text' }),
    select: ['size', 'note'],
    formulas: 'raw',
    origins: [],
  });
  const output = format.header + rows.map((row) => format.format(row, { status: 'skipped' }, null)).join('');
  const back: unknown = parse(output, { relax_quotes: false });
  expect(back).toEqual([surveyed.columns, ...rows.map((row) => [...row.fields.values()])]);
});

/** The records behind a header, with their places, read in pieces of that size; or where a quote is never closed. */
async function readInPieces(text: string, size: number, delimiter: string): Promise<unknown> {
  const found: unknown[] = [];
  try {
    const options = { name: 'text', delimiter, onColumns: () => {} };
    for await (const batch of readCsv(pieces(headed(text, delimiter), size), options)) {
      for (const { fields, line, bytes } of batch) found.push({ cells: [...fields.values()], line, bytes });
    }
  } catch (error) {
    const [, line, column] =
      / line (\d+) .* column "(.*)", a quote that is never closed/.exec(String(error)) ?? [];
    return { line: Number(line), column };
  }
  return found;
}

/** The same of csv-parse alone, which gets all of it at once. */
function parsedAlone(text: string, delimiter: string): unknown {
  const bytes = Buffer.from(headed(text, delimiter));
  const found: { cells: string[]; line: number; bytes: number }[] = [];
  let end = 0;
  const lineAt = (from: number): number => {
    const blank = /^[\r\n]*/.exec(bytes.toString('utf8', from))?.[0] ?? '';
    return 1 + lineBreaks(bytes.toString('utf8', 0, from) + blank);
  };
  try {
    parse(bytes, {
      delimiter,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      relax_quotes: true,
      skip_empty_lines: true,
      on_record: (cells: string[], info) => {
        found.push({ cells, line: lineAt(end), bytes: info.bytes - end });
        end = info.bytes;
        return null;
      },
    });
  } catch (error) {
    return { line: lineAt(end), column: `c${Object(error).column}` };
  }
  return found.slice(1);
}

/** Behind a header of more columns than a record of these tests has. */
function headed(text: string, delimiter: string): string {
  return `${Array.from({ length: 60 }, (_, i) => `c${i}`).join(delimiter)}\n${text}`;
}

/** The records behind a header, read in pieces of that size; null when a quote is never closed. */
async function parsed(text: string, size: number, delimiter: string): Promise<string[][] | null> {
  const found: string[][] = [];
  const options = { name: 'text', delimiter, onColumns: () => {} };
  try {
    for await (const batch of readCsv(pieces(headed(text, delimiter), size), options)) {
      for (const row of batch) found.push([...row.fields.values()].map(String));
    }
  } catch (error) {
    expect(error).toMatchObject({ code: 'bad_quote' });
    return null;
  }
  return found;
}

async function* pieces(text: string, size: number) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/**
 * Python's csv module (`Modules/_csv.c`, not strict), but for what Promptmill says of a quote that never closes: null
 * at the end inside quotes, and where a quoted cell over several lines goes on behind its quote with more than spaces.
 */
function pythonCsv(text: string, delimiter: string): string[][] | null {
  const records: string[][] = [];
  let record: string[] = [];
  let cell = '';
  let state: 'start' | 'bare' | 'quoted' | 'quote' = 'start';
  let overLines = false;
  const endCell = () => {
    record.push(cell);
    [cell, state, overLines] = ['', 'start', false];
  };
  const endRecord = (blank: boolean) => {
    if (!blank) {
      endCell();
      records.push(record);
    }
    record = [];
  };
  const characters = text.match(/\r\n|./gsu) ?? [];
  for (const each of characters) {
    const lineEnd = /[\r\n]/.test(each);
    if (state === 'quoted') {
      if (each === '"') state = 'quote';
      else {
        cell += each;
        overLines ||= lineEnd;
      }
    } else if (state === 'quote' && each === '"') {
      cell += each;
      state = 'quoted';
    } else if (lineEnd) {
      endRecord(state === 'start' && record.length === 0);
    } else if (each === delimiter) {
      endCell();
    } else if (state === 'start' && each === '"') {
      state = 'quoted';
    } else {
      if (overLines && each !== ' ') return null;
      cell += each;
      if (state === 'start' || state === 'quote') state = 'bare';
    }
  }
  if (state === 'quoted') return null;
  if (record.length > 0 || state !== 'start') endRecord(false);
  return records;
}
