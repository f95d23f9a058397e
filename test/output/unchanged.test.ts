import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planRows } from '../../src/run/plan.js';
import { settingsFor } from '../resume/run-files.js';
import { read, scratch } from '../source/inputs.js';
import { completed } from './records.js';

/** What has a meaning somewhere on the way: to CSV, to spreadsheets, to JSON, to objects, to terminals. */
const TROUBLE = [
  '"',
  "'",
  ',',
  '\n',
  '\r',
  '\t',
  '\0',
  '=',
  '+',
  '-',
  '@',
  ' ',
  '1',
  '\\',
  '{{',
  '\ufeff',
  '\u202e',
  '\u2028',
];

// UTF-8 has no lone surrogates, so a CSV cannot carry them.
const cell = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom(...TROUBLE) }),
  fc.constantFrom('00012', '1e5', '12345678901234567890', 'true', 'null', '-1.50', '=1+1', ' @x'),
);
const name = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'status', 'answer', 'input', 'row', '7', ''),
  fc.string({ unit: 'binary' }),
);
/** Rows of equal length under different names. An empty name is called `column_<n>`, which must be free as well. */
const table = fc
  .uniqueArray(
    name.filter((text) => !/^column_\d+$/.test(text)),
    { minLength: 1, maxLength: 5 },
  )
  .chain((header) => {
    const row = fc.array(cell, { minLength: header.length, maxLength: header.length });
    return fc.record({ header: fc.constant(header), rows: fc.array(row, { minLength: 1, maxLength: 10 }) });
  });

const quoted = (cells: readonly string[]): string =>
  cells.map((text) => `"${text.replaceAll('"', '""')}"`).join(',');

/** Records of a file, as `promptmill run` writes them when every row is answered. */
async function recordsOf(path: string, job: { output: object }, kind: 'csv' | 'jsonl'): Promise<string[]> {
  const settings = settingsFor(`out.${kind}`, { ...job, input: { path }, prompt: 'the same for all' });
  const { surveyed, rows } = await read({ path });
  const plan = await planRows(settings, surveyed);
  return [plan.header, ...rows.map((row) => plan.recordOf(row, completed).text)];
}

describe('faults 8, 9 and 10: what goes in comes out', () => {
  // A file of twice the rows costs much less than a second file.
  const settings = { seed: 8, numRuns: 100 };

  it.each([
    ['unchanged to the byte when formulas are raw', 'raw', (text: string) => [text]],
    ["unchanged but for a leading ' when they are not", 'protect', (text: string) => [text, `'${text}`]],
  ] as const)('from CSV to CSV, %s', async (_, formulas, allowed) => {
    const path = join(scratch(), 'in.csv');
    const property = fc.asyncProperty(
      table,
      fc.constantFrom('\n', '\r\n', '\r'),
      async ({ header, rows }, end) => {
        writeFileSync(path, [header, ...rows].map((cells) => quoted(cells) + end).join(''));
        const text = (await recordsOf(path, { output: { formulas } }, 'csv')).join('');
        const written: string[][] = parse(text, { record_delimiter: ['\r\n', '\n', '\r'] });
        expect(written.length).toBe(rows.length + 1);
        for (const [i, cells] of rows.entries()) {
          for (const [j, given] of cells.entries()) expect(allowed(given)).toContain(written[i + 1]?.[j]);
          expect(written[i + 1]?.[cells.length]).toBe('completed');
        }
      },
    );
    await fc.assert(property, settings);
  });

  it('from CSV to the input of a JSONL record', async () => {
    const path = join(scratch(), 'in.csv');
    const property = fc.asyncProperty(table, async ({ header, rows }) => {
      writeFileSync(path, [header, ...rows].map((cells) => `${quoted(cells)}\n`).join(''));
      const records = (await recordsOf(path, { output: {} }, 'jsonl')).slice(1);
      const names = header.map((text, i) => text || `column_${i + 1}`);
      for (const [i, cells] of rows.entries()) {
        const members = names.map((text, j) => `${JSON.stringify(text)}:${JSON.stringify(cells[j])}`);
        expect(records[i]).toContain(`"input":{${members.join(',')}},"status":`);
      }
    });
    await fc.assert(property, settings);
  });

  it('from JSONL to the input of a JSONL record, as it is written there', async () => {
    const path = join(scratch(), 'in.jsonl');
    // Escapes can carry lone surrogates; numbers have more than one spelling.
    const text = fc.oneof(cell, fc.string({ unit: fc.constantFrom('\ud800', '\udfff', 'a') }));
    const value = fc.oneof(
      fc.jsonValue().map((json) => JSON.stringify(json)),
      text.map((json) => JSON.stringify(json)),
      fc.constantFrom('1.50', '1e5', '-0', '12345678901234567890', '[ 1, {"__proto__" : null} ]'),
    );
    const object = fc.uniqueArray(fc.tuple(fc.oneof(name, text), value), {
      selector: ([key]) => key,
      maxLength: 5,
    });
    const property = fc.asyncProperty(fc.array(object, { minLength: 1, maxLength: 10 }), async (objects) => {
      const lines = objects.map(
        (members) => `{${members.map(([key, json]) => `${JSON.stringify(key)}: ${json}`).join(' , ')}}`,
      );
      writeFileSync(path, lines.join('\n'));
      const records = (await recordsOf(path, { output: {} }, 'jsonl')).slice(1);
      expect(records.length).toBe(lines.length);
      for (const [i, line] of lines.entries()) {
        expect(records[i]).toContain(`"row":${i + 1},"input":${line},"status":"completed"`);
      }
    });
    await fc.assert(property, settings);
  });
});
