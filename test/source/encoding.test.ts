import iconv from 'iconv-lite';
import { expect, test } from 'vitest';
import { toUtf8 } from '../../src/source/encoding.js';
import { cells, expectRefused, input, read } from './inputs.js';

const TEXT = 'náme,b\n"Grüße, 😀","שלום\0"\n日本,x\n';
const CELLS = [
  ['Grüße, 😀', 'שלום\0'],
  ['日本', 'x'],
];

test('faults 1 and 8: a byte-order mark leaves the first header clean, and the text unchanged', async () => {
  for (const mark of ['', '\ufeff']) {
    const { surveyed } = await read({ path: input('rows.csv', mark + TEXT) });
    expect(surveyed.columns).toEqual(['náme', 'b']);
    expect(await cells({ path: input('rows.csv', mark + TEXT) })).toEqual(CELLS);
  }
  const jsonl = input('rows.jsonl', '\ufeff{"náme":1}\n');
  expect((await read({ path: jsonl })).surveyed.columns).toEqual(['náme']);
});

test('fault 1: only one mark is taken away, and a mark elsewhere is text', async () => {
  const { surveyed } = await read({ path: input('rows.csv', '\ufeff\ufeffa,b\n1,2\n') });
  expect(surveyed.columns).toEqual(['\ufeffa', 'b']);
});

test('fault 2: UTF-16 with a mark is decoded, in both byte orders', async () => {
  for (const encoding of ['utf-16le', 'utf-16be'] as const) {
    const path = input('rows.csv', iconv.encode(TEXT, encoding, { addBOM: true }));
    expect(await cells({ path }), encoding).toEqual(CELLS);
  }
});

test('fault 2: characters cut by the end of a chunk stay whole, however small the chunks', async () => {
  const text = `${TEXT}é\r\n\r😀`;
  for (const encoding of ['utf8', 'utf-16le', 'utf-16be', 'gb18030'] as const) {
    const bytes = iconv.encode(`\ufeff${text}`, encoding);
    for (let size = 1; size <= 9; size++) {
      const decoded: Buffer[] = [];
      for await (const part of toUtf8(chunked(bytes, size), 'it', encoding)) decoded.push(part);
      expect(Buffer.concat(decoded).toString().replace('\ufeff', ''), `${encoding}, ${size}`).toBe(text);
    }
  }
});

async function* chunked(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

test('fault 2: invalid UTF-8 is refused with the offset of the first bad byte', async () => {
  const at = (prefix: string, bad: number[]) =>
    input('rows.csv', Buffer.concat([Buffer.from(prefix), Buffer.from(bad), Buffer.from(',x\n')]));
  await expectRefused({ path: at('a,b\n1,caf', [0xe9]) }, 'invalid_encoding', /byte 0xe9 at offset 9\b/);
  await expectRefused({ path: at('\ufeffa\n\ufffd', [0xff]) }, 'invalid_encoding', /byte 0xff at offset 8\b/);
  await expectRefused({ path: at('a\n', [0xed, 0xa0, 0x80]) }, 'invalid_encoding', /byte 0xed at offset 2\b/);
  const far = `a\n${'é\n'.repeat(50_000)}`;
  await expectRefused({ path: at(far, [0xc3]) }, 'invalid_encoding', /byte 0xc3 at offset 150002\b/);
  const cut = input('rows.csv', Buffer.from('a\n1é').subarray(0, -1));
  await expectRefused({ path: cut }, 'invalid_encoding', /byte 0xc3 at offset 3\b/);
});

test('fault 2: a named encoding is used, and bytes that it has no meaning for are refused with the line', async () => {
  for (const encoding of ['latin1', 'windows-1252', 'utf-16le'] as const) {
    const path = input('rows.csv', iconv.encode('a\ncafé\n', encoding));
    expect(await cells({ path, encoding }), encoding).toEqual([['café']]);
  }
  const path = input('rows.csv', iconv.encode('a\n日本\n', 'shift_jis'));
  expect(await cells({ path, encoding: 'Shift_JIS' })).toEqual([['日本']]);
  const hole = input('rows.csv', Buffer.from('a\r\n1\r\n\x81\r\n', 'latin1'));
  await expectRefused({ path: hole, encoding: 'windows-1252' }, 'invalid_encoding', /line 3: .*windows-1252/);
});

test('fault 2: UTF-16 with half a pair, or half a character at its end, is refused with the line', async () => {
  const half = input('rows.csv', Buffer.from('\ufeffa\n1\n\ud83dx\n', 'utf16le'));
  await expectRefused({ path: half }, 'invalid_encoding', /line 3: .*utf-16le/);
  const odd = input('rows.csv', Buffer.from('\ufeffa\n1', 'utf16le').subarray(0, -1));
  await expectRefused({ path: odd }, 'invalid_encoding', /line 2: .*utf-16le/);
});

test('a double-byte character cut before a chunk of plain letters costs no letter', async () => {
  // With 64 KiB at a time, iconv-lite alone would lose the last letter of the second chunk.
  const letters = 'x'.repeat(200_000);
  const path = input('rows.csv', iconv.encode(`a\n${'x'.repeat(64 * 1024 - 5)}😀${letters}\n`, 'gb18030'));
  const [[cell] = []] = await cells({ path, encoding: 'gb18030' });
  expect(String(cell).length).toBe(64 * 1024 - 5 + 2 + 200_000);
});

test('an encoding that nobody knows is refused by name', async () => {
  await expectRefused(
    { path: input('x.csv', 'a\n1\n'), encoding: 'klingon' },
    'unknown_encoding',
    /"klingon"/,
  );
});

test('a file shorter than any mark is read', async () => {
  expect(await cells({ path: input('rows.jsonl', '{}') })).toEqual([[]]);
});
