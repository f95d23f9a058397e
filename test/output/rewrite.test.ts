import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { csv } from '../../src/output/csv.js';
import { jsonl } from '../../src/output/jsonl.js';
import { type Output, type OutputRecord, readOutput } from '../../src/output/reader.js';
import type { OutputFormat } from '../../src/output/record.js';
import { type Change, merged, rewritten } from '../../src/output/rewrite.js';
import { csvRow } from './records.js';

/** The bytes in pieces of a size. */
async function* pieces(text: string | Buffer, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const outputOf = (text: string | Buffer, format: OutputFormat, size = 1000): Output => ({
  ...{ name: 'out', format },
  bytes: () => pieces(text, size),
});

async function rewrite(
  format: OutputFormat,
  text: string | Buffer,
  change: (record: OutputRecord) => Change,
  size = 7,
): Promise<Buffer> {
  const written: Buffer[] = [];
  for await (const piece of rewritten(outputOf(text, format, size), change)) written.push(piece);
  return Buffer.concat(written);
}

const CSV = 'id,"no""te",answer\n1,"a, ""b""\nc",yes\n\n2,ü🙂,no\n';
const JSONL = '{"row":1,"input":{"n": 1.50,"a":{"answer":"x"}},"answer":"yes"}\n{"row":2,"answer":"no"}\n';

describe('an output that is written anew', () => {
  it.each([1, 2, 5, 1000])('has other values where they change, in pieces of %i bytes', async (size) => {
    const change = (record: OutputRecord): Change =>
      record.number === 2
        ? new Map([
            ['answer', '"a, b"'],
            ['none', 'x'],
          ])
        : record.get('id') === 'x'
          ? 'never'
          : null;
    expect(String(await rewrite(csv, CSV, change, size))).toBe(CSV.replace('🙂,no', '🙂,"a, b"'));
    expect(String(await rewrite(jsonl, JSONL, change, size))).toBe(
      JSONL.replace('"answer":"no"', '"answer":"a, b"'),
    );
  });

  it('takes a whole record in the place of another', async () => {
    const change = ({ number }: OutputRecord): Change => (number === 1 ? '9,x,y\n' : null);
    expect(String(await rewrite(csv, CSV, change))).toBe('id,"no""te",answer\n9,x,y\n\n2,ü🙂,no\n');
  });

  it.each([1, 2, 5, 1000])(
    'has the records of another in their places, in pieces of %i bytes',
    async (size) => {
      const merge = async (format: OutputFormat, text: string, numbers: number[], others: string) => {
        const written: Buffer[] = [];
        for await (const piece of merged(pieces(text, size), format, numbers, pieces(others, size)))
          written.push(piece);
        return String(Buffer.concat(written));
      };
      const other = 'id,"no""te",answer\n\n8,"x\ny",no\n9,z,no\n';
      expect(await merge(csv, `${CSV}3,c,yes\n`, [1, 3], other)).toBe(
        'id,"no""te",answer\n8,"x\ny",no\n\n2,ü🙂,no\n9,z,no\n',
      );
      expect(await merge(jsonl, JSONL, [2], '{"row":9}\n')).toBe(`${JSONL.split('\n')[0]}\n{"row":9}\n`);
      await expect(merge(csv, CSV, [1], other)).rejects.toThrow('left over');
      await expect(merge(csv, CSV, [1, 2, 3], other)).rejects.toThrow('left over');
      await expect(merge(jsonl, JSONL, [1, 2], '{"row":9}\n')).rejects.toThrow('no record for row 2');
    },
  );

  it('knows the values of its records, and has all bytes beside them as they are, sound UTF-8 or not', async () => {
    const seen: unknown[] = [];
    const odd = Buffer.concat([
      Buffer.from('a,b\n1,'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('\n2,x\r\n3,y'),
    ]);
    const change = (record: OutputRecord): Change => {
      seen.push([record.number, record.get('a'), record.has('c')]);
      return record.number === 2 ? null : new Map([['a', 'z']]);
    };
    const expected = [Buffer.from('a,b\nz,'), Buffer.from([0xff, 0xfe]), Buffer.from('\n2,x\r\nz,y')];
    expect(await rewrite(csv, odd, change)).toEqual(Buffer.concat(expected));
    expect(seen).toEqual([
      [1, '1', false],
      [2, '2', false],
      [3, '3', false],
    ]);
    for await (const [first] of readOutput(outputOf(JSONL, jsonl))) {
      if (first === undefined) continue;
      expect(first.get('input')).toEqual({ n: 1.5, a: { answer: 'x' } });
      expect(first.get('answer')).toBe('yes');
    }
  });

  it('reads the cells that it has written, whatever is in them', async () => {
    const cell = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r', 'ü', '🙂', '=', "'") });
    const records = fc.array(fc.tuple(cell, cell), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(records, fc.integer({ min: 1, max: 20 }), async (rows, size) => {
        const answer = { columns: ['answer'], shape: 'value', read: () => NONE } as const;
        const columns = ['one', 'two'].map((name) => ({
          name,
          part: 'input' as const,
          field: name,
          value: ({ row }: { row: { fields: ReadonlyMap<string, unknown> } }) => String(row.fields.get(name)),
        }));
        const layout = { columns, parts: new Set(['input'] as const), fields: null, isWhole: true, answer };
        const format = csv.records(layout, 'raw');
        const text = rows.map(([one, two]) =>
          format.format(csvRow({ one, two }), { status: 'skipped' }, null),
        );
        const whole = format.header + text.join('');
        const found: unknown[] = [];
        const same = await rewrite(
          csv,
          whole,
          (record) => {
            found.push([record.get('one'), record.get('two')]);
            return null;
          },
          size,
        );
        expect(String(same)).toBe(whole);
        expect(found).toEqual(rows);
      }),
      { numRuns: 200 },
    );
  });
});

const NONE = { values: [null], counted: [], problem: null };
