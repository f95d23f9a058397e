import { createHash } from 'node:crypto';
import { chmodSync, existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { rows, spoolStandardInput, survey, sweepSpools } from '../../src/source/source.js';
import { built, startChild } from '../support/children.js';
import { cells, expectRefused, input, read, scratch } from './inputs.js';

test('the format is told by the name, compressed or not, or given', async () => {
  const files = { csv: 'a\n1\n', tsv: 'a\n1\n', jsonl: '{"a":"1"}\n', ndjson: '{"a":"1"}\n' };
  for (const [ending, text] of Object.entries(files)) {
    expect(await cells({ path: input(`rows.${ending}`, text) })).toEqual([['1']]);
    expect(await cells({ path: input(`ROWS.${ending.toUpperCase()}.GZ`, gzipSync(text)) })).toEqual([['1']]);
  }
  expect(await cells({ path: input('rows.txt', 'a\n1\n'), format: 'csv' })).toEqual([['1']]);
  await expectRefused(
    { path: input('rows.txt', 'a\n1\n') },
    'unknown_format',
    /\.csv, \.tsv, \.jsonl, \.ndjson/,
  );
  await expectRefused(
    { path: input('csv', 'a\n1\n'), name: 'standard input' },
    'unknown_format',
    /standard input/,
  );
});

test('gzip is known by its first bytes too, and may have several members', async () => {
  const bytes = Buffer.concat([gzipSync('a\n1'), gzipSync('2\n3\n')]);
  expect(await cells({ path: input('rows.csv', bytes) })).toEqual([['12'], ['3']]);
});

test('the survey counts, fingerprints and measures the file as it lies on disk', async () => {
  const bytes = gzipSync('a,b\n1,2\n3\n');
  expect(await survey({ path: input('rows.csv.gz', bytes) })).toMatchObject({
    format: { name: 'csv' },
    rows: 2,
    badRows: 1,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    bytes: bytes.length,
    columns: ['a', 'b'],
  });
});

test('progress is told now and then, and at the end', async () => {
  const path = input('rows.csv', `a\n${'1\n'.repeat(200_000)}`);
  const told: number[][] = [];
  await survey({ path }, { onProgress: (...numbers) => told.push(numbers) });
  expect(told.at(-1)).toEqual([400_002, 400_002, 200_000]);
  expect(told.length).toBeLessThan(100);
});

test('a survey stops when it is told to, with the reason', async () => {
  const path = input('rows.csv', `a\n${'1\n'.repeat(200_000)}`);
  const reason = new Error('interrupted');
  await expect(survey({ path }, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  await expectClosed(path);
});

test('a reader that stops early leaves the file closed', async () => {
  for (const [name, bytes] of [
    ['rows.csv', Buffer.from(`a\n${'1\n'.repeat(200_000)}`)],
    ['rows.csv.gz', gzipSync(`a\n${'1\n'.repeat(200_000)}`)],
  ] as const) {
    const path = input(name, bytes);
    for await (const row of rows({ path }, await survey({ path }))) if (row.number === 3) break;
    await expectClosed(path);
  }
});

test('fault 12: an empty CSV is refused; a header alone, and a JSONL without a line, have no rows', async () => {
  for (const [name, bytes] of [
    ['a.csv', ''],
    ['b.csv', '\ufeff'],
    ['c.csv', '\r\n\n'],
    ['d.tsv', ''],
    ['e.csv.gz', ''],
    ['f.csv.gz', gzipSync('')],
    ['g.csv', 'sep=;\r\n'],
  ] as const) {
    await expectRefused({ path: input(name, bytes) }, 'empty_input', /is empty: it has no header/);
  }
  const header = await survey({ path: input('rows.csv', 'a,b\r\n\r\n') });
  expect(header).toMatchObject({ rows: 0, badRows: 0, columns: ['a', 'b'] });
  for (const [name, bytes] of [
    ['a.jsonl', ''],
    ['b.jsonl', ' \n\n'],
    ['c.jsonl.gz', gzipSync('')],
  ] as const) {
    expect(await read({ path: input(name, bytes) })).toMatchObject({ surveyed: { rows: 0 }, rows: [] });
  }
});

test('fault 13: truncated gzip is refused, wherever it is cut', async () => {
  const bytes = gzipSync(`a\n${Array.from({ length: 500 }, (_, index) => index * 7919).join('\n')}\n`);
  for (const length of [2, 9, 40, bytes.length - 8, bytes.length - 1]) {
    const path = input('rows.csv.gz', bytes.subarray(0, length));
    await expectRefused({ path }, 'bad_gzip', new RegExp(`cut off.* ${length} of ${length} bytes`));
  }
});

test('fault 13: gzip that is damaged, followed by something else, or none at all is refused', async () => {
  const bytes = gzipSync('a\n1\n');
  const damaged = Buffer.concat([bytes.subarray(0, -8), Buffer.alloc(8)]);
  await expectRefused({ path: input('rows.csv.gz', damaged) }, 'bad_gzip', /not sound gzip/);
  const followed = Buffer.concat([bytes, Buffer.from('more')]);
  await expectRefused({ path: input('rows.csv.gz', followed) }, 'bad_gzip', /not sound gzip/);
  const padded = Buffer.concat([bytes, Buffer.alloc(1_000_000)]);
  await expectRefused({ path: input('rows.csv.gz', padded) }, 'input_changed', /follows its gzip stream/);
  await expectRefused({ path: input('rows.csv.gz', 'a\n1\n') }, 'bad_gzip', /not sound gzip/);
});

test('a file that is missing, a directory, or no regular file is refused', async () => {
  const directory = scratch();
  await expectRefused({ path: join(directory, 'none.csv') }, 'input_missing', /does not exist/);
  await expectRefused({ path: directory, format: 'csv' }, 'input_is_directory', /is a directory/);
  const path = join(directory, 'socket.csv');
  const server = createServer().listen(path);
  await new Promise((resolve) => server.once('listening', resolve));
  await expectRefused({ path }, 'input_not_a_file', /not a regular file/);
  await new Promise((resolve) => server.close(resolve));
});

const root = process.getuid?.() === 0;
if (root) console.log('skipped: this is root, who may read every file, so an unreadable one is not tried');

test.skipIf(root)('a file without the right to read it is refused', async () => {
  const path = input('rows.csv', 'a\n1\n');
  chmodSync(path, 0);
  await expectRefused({ path }, 'input_unreadable', /permission denied/);
});

test('standard input is copied to a file of its own, which only its owner can read', async () => {
  const directory = join(scratch(), 'state');
  const text = ['a,b\n', '1,2\n'];
  const [first, second] = await Promise.all([
    spoolStandardInput(Readable.from(text), directory),
    spoolStandardInput(Readable.from(text), directory),
  ]);
  expect(first.path).not.toBe(second.path);
  expect(readFileSync(first.path, 'utf8')).toBe(text.join(''));
  expect(statSync(first.path).mode & 0o777).toBe(0o600);
  const { rows: found } = await read({ path: second.path, name: 'standard input', format: 'csv' });
  expect(found).toHaveLength(1);
  first.discard();
  second.discard();
  expect(readdirSync(directory)).toEqual([]);
});

test('a copy of standard input is swept away when its process was killed, and not before', async () => {
  const directory = scratch();
  const { path, discard } = await spoolStandardInput(Readable.from(['a\n1\n']), directory);
  const child = startChild(`
    import { Readable } from 'node:stream';
    import { spoolStandardInput } from '${built('source/spool.js')}';
    await spoolStandardInput(Readable.from(['b\\n2\\n']), (await lines.next()).value);
    console.log('spooled');
  `);
  child.tell(directory);
  await child.line();
  await sweepSpools(directory);
  const name = basename(path);
  expect(readdirSync(directory).length).toBe(4);
  await child.kill('SIGKILL');
  await sweepSpools(directory);
  expect(readdirSync(directory).sort()).toEqual([name, `${name}.lock`]);
  discard();
  expect(readdirSync(directory)).toEqual([]);
});

test('standard input that breaks off leaves no file, and says so', async () => {
  const directory = scratch();
  const broken = Readable.from(
    (function* () {
      yield 'a\n';
      throw new Error('broken pipe');
    })(),
  );
  await expect(spoolStandardInput(broken, directory)).rejects.toMatchObject({
    code: 'spool_failed',
    message: expect.stringContaining('broken pipe'),
  });
  expect(readdirSync(directory)).toEqual([]);
});

/** Waits until the path is not among the open files, where the system tells which are. */
async function expectClosed(path: string): Promise<void> {
  if (!existsSync('/proc/self/fd')) return;
  const open = () =>
    readdirSync('/proc/self/fd').map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return null; // closed since it was listed
      }
    });
  await expect.poll(open).not.toContain(path);
}
