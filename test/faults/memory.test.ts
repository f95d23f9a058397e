import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { InputSpec } from '../../src/source/source.js';
import { rows, survey } from '../../src/source/source.js';
import { expectRefused, input } from '../source/inputs.js';

const MB = 1_000_000;

/** The most memory held above the start while the work was done, in bytes, measured every few milliseconds. */
async function growth(work: () => Promise<void>): Promise<number> {
  const held = () => {
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = held();
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, held());
  }, 5);
  await work().finally(() => clearInterval(timer));
  return Math.max(most, held()) - before;
}

/** Gzip of the text a hundred times over: a file of a hundred members. */
function bomb(head: string, text: string): Buffer {
  const member = gzipSync(text);
  return Buffer.concat([gzipSync(head), ...Array.from({ length: 100 }, () => member)]);
}

async function expectCell(spec: InputSpec, column: string, expected: string): Promise<void> {
  const digest = (text: unknown) => createHash('sha256').update(String(text)).digest('hex');
  const surveyed = await survey(spec);
  expect(surveyed.rows).toBe(3);
  for await (const row of rows(spec, surveyed)) {
    if (row.number === 2) expect(digest(row.fields.get(column))).toBe(digest(expected));
  }
}

test('fault 7: a cell of 10 MB is read whole in both formats, in a few times its size', async () => {
  const cell = 'say "ü", \r\n'.repeat(910_000);
  const csv = input('rows.csv', `id,text\n1,x\n2,"${cell.replaceAll('"', '""')}"\n3,y\n`);
  expect(await growth(() => expectCell({ path: csv }, 'text', cell))).toBeLessThan(200 * MB);
  const line = JSON.stringify({ text: cell });
  const jsonl = input('rows.jsonl', `{}\n${line}\n{}\n`);
  expect(await growth(() => expectCell({ path: jsonl }, 'text', cell))).toBeLessThan(200 * MB);
});

test('fault 13: gzip that grows to 300 MB of rows is surveyed in a small part of that', async () => {
  const row = `{"text":"${'x'.repeat(2_989)}"}\n`;
  const path = input('rows.jsonl.gz', bomb('', row.repeat(1_000)));
  const grown = await growth(async () => {
    expect(await survey({ path })).toMatchObject({ rows: 100_000, badRows: 0 });
  });
  expect(grown).toBeLessThan(100 * MB);
});

test('fault 13: gzip that grows to 100 MB of blank lines holds nothing', async () => {
  const path = input('rows.csv.gz', bomb('a\n1\n', '\n'.repeat(MB)));
  const grown = await growth(async () => {
    expect((await survey({ path })).rows).toBe(1);
  });
  expect(grown).toBeLessThan(50 * MB);
});

test('fault 13: a record without an end is refused at 32 MiB with its line', async () => {
  const text = 'x'.repeat(3 * MB);
  const csv = input('rows.csv.gz', bomb('a\n\n1\n', text));
  const jsonl = input('rows.jsonl.gz', bomb('{}\n\n', text));
  const grown = await growth(async () => {
    await expectRefused({ path: csv }, 'record_too_large', /line 4 is larger than 32 MiB/);
    await expectRefused({ path: jsonl }, 'record_too_large', /line 3 is larger than 32 MiB/);
  });
  expect(grown).toBeLessThan(200 * MB);
});
