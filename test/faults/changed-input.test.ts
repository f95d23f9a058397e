import { createHash, randomBytes } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  openSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StopError } from '../../src/core/errors.js';
import { BlockDigester } from '../../src/source/open.js';
import { rows, survey } from '../../src/source/source.js';
import { input } from '../source/inputs.js';

/** Some 40 blocks of bytes that do not compress. */
const ROWS = 20_000;
const notes = Array.from({ length: ROWS }, () => randomBytes(48).toString('hex'));
const text = `id,note\n${notes.map((note, i) => `${i + 1},${note}\n`).join('')}`;

/** Overwrites bytes of a file where it lies; its size stays. */
function overwrite(path: string, at: number, bytes: string | Buffer): void {
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.from(bytes), 0, undefined, at);
  closeSync(file);
}

/**
 * Reads a surveyed input, and does something to the file once row number `after` is there; 0 is before the reading.
 * Every row that comes is held against the original.
 */
async function readWhile(
  path: string,
  after: number,
  change: () => void,
): Promise<{ read: number; error: StopError | null; grown: number | null }> {
  const surveyed = await survey({ path });
  expect(surveyed.rows).toBe(ROWS);
  if (after === 0) change();
  let read = 0;
  let grown: number | null = null;
  const onGrown = (bytes: number): void => {
    grown = bytes;
  };
  try {
    for await (const row of rows({ path }, surveyed, { onGrown })) {
      read++;
      if (row.number !== read || row.fields.get('note') !== notes[read - 1])
        expect.fail(`row ${read} is not the one`);
      if (read === after) change();
    }
    return { read, error: null, grown };
  } catch (error) {
    expect(error).toMatchObject({
      name: 'StopError',
      code: 'input_changed',
      exit: 3,
      hint: /Put the file back/,
    });
    return { read, error: error as StopError, grown };
  }
}

const whole = { read: ROWS, error: null, grown: null };

test.each([
  ['rows.csv', Buffer.from(text)],
  ['rows.csv.gz', gzipSync(text)],
] as const)(
  'fault 61: %s edited in place gives no row of its new bytes, wherever it is edited',
  async (name, bytes) => {
    const path = input(name, bytes);
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: bytes.length - 1 }),
        fc.constantFrom(0, 1, 5_000, 15_000),
        async (at, after) => {
          const edited = Buffer.from([(bytes[at] ?? 0) ^ 1]);
          const { read, error } = await readWhile(path, after, () => overwrite(path, at, edited));
          writeFileSync(path, bytes);
          if (error === null) expect(read).toBe(ROWS);
          // What was edited before the reading is always seen.
          if (after === 0) expect(error?.message).toMatch(/bytes \d+ to \d+ are not what they were/);
        },
      ),
      { seed: 61, numRuns: 12 },
    );
  },
);

test('fault 61: the message says at which bytes the file was changed', async () => {
  const path = input('rows.csv', text);
  const { read, error } = await readWhile(path, 10, () => overwrite(path, 1_000_000, 'x'));
  expect(error?.message).toMatch(/bytes 983041 to 1048576 are not/);
  expect(read).toBeGreaterThan(9_000);
});

test('fault 61: an edit that is never reached, and one that is put back in time, change nothing', async () => {
  const path = input('rows.csv', text);
  const surveyed = await survey({ path });
  overwrite(path, text.length - 20, 'edited');
  for await (const row of rows({ path }, surveyed)) if (row.number === 100) break;
  writeFileSync(path, text);
  expect(await readWhile(path, 500, () => writeFileSync(path, text))).toEqual(whole);
});

test('fault 61: rows that are added to the file are no rows of the run, and are told of', async () => {
  for (const after of [0, 10, ROWS - 1]) {
    const path = input('rows.csv', text);
    const added = `${ROWS + 1},added\n`;
    const grown = text.length + added.length;
    expect(await readWhile(path, after, () => appendFileSync(path, added))).toEqual({ ...whole, grown });
  }
  // Also where the last row has no line's end, so that it would seem to be another one.
  const path = input('rows.csv', text.slice(0, -1));
  expect((await readWhile(path, 10, () => appendFileSync(path, 'more'))).read).toBe(ROWS);
});

test('fault 61: a file of another name in its place is not read', async () => {
  const path = input('rows.csv', text);
  const other = input('other.csv', text.replaceAll(/[0-9a-f]{40}/g, 'another'));
  expect(await readWhile(path, 10, () => renameSync(other, path))).toEqual(whole);
  const before = await readWhile(input('rows.csv', text), 0, () => {});
  expect(before).toEqual(whole);
  const replaced = input('rows.csv', text);
  const swap = input('other.csv', text.replace('1,', '2,'));
  expect((await readWhile(replaced, 0, () => renameSync(swap, replaced))).error?.message).toMatch(
    /bytes 1 to 65536/,
  );
});

test('fault 61: a file that is cut, or gone, stops the run', async () => {
  const path = input('rows.csv', text);
  const cut = await readWhile(path, 10, () => truncateSync(path, 1_000_000));
  expect(cut.error?.message).toMatch(/it had \d+ bytes when the run began, and now it ends after 1000000/);
  const missing = input('rows.csv', text);
  expect((await readWhile(missing, 0, () => rmSync(missing))).error?.message).toMatch(/does not exist/);
});

test('fault 61: the digests of a file of any size take a mebibyte, and its SHA-256 is that of its bytes', () => {
  for (const size of [0, 1, 65_536, 65_537, 2 ** 32, 2 ** 32 + 1, 2 ** 40]) {
    const { digests } = new BlockDigester(size);
    expect(digests.bytes.length).toBeLessThanOrEqual(2 ** 20);
    expect(digests.bytes.length).toBe(Math.ceil(size / digests.blockBytes) * 16);
  }
  const bytes = randomBytes(100_000);
  const taker = new BlockDigester(bytes.length);
  taker.add(bytes.subarray(0, taker.blockBytes));
  taker.add(bytes.subarray(taker.blockBytes));
  expect(taker.sha256()).toBe(createHash('sha256').update(bytes).digest('hex'));
});
