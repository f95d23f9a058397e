import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { outputBytes } from '../../src/output/output-bytes.js';

const folder = mkdtempSync(join(tmpdir(), 'output-bytes-'));
afterAll(() => rmSync(folder, { recursive: true }));

const TEXT = 'id,status\n1,completed\n'.repeat(50);

/** What is read of an output with this content. */
async function read(name: string, content: Buffer): Promise<string> {
  const path = join(folder, name);
  writeFileSync(path, content);
  let text = '';
  for await (const piece of outputBytes(path)) text += piece;
  return text;
}

describe('the bytes of an output', () => {
  it('are those of the file, inflated where its name ends in .gz', async () => {
    expect(await read('plain.csv', Buffer.from(TEXT))).toBe(TEXT);
    expect(await read('packed.csv.gz', gzipSync(TEXT))).toBe(TEXT);
    expect(await read('twice.JSONL.GZ', Buffer.concat([gzipSync(TEXT), gzipSync(TEXT)]))).toBe(TEXT + TEXT);
  });

  it('are refused where the gzip is damaged, with the name of the file', async () => {
    const packed = gzipSync(TEXT);
    const damages: readonly (readonly [content: Buffer, what: string])[] = [
      [packed.subarray(0, -3), 'is cut off: its gzip stream ends too early'],
      [Buffer.alloc(0), 'is cut off: its gzip stream ends too early'],
      [Buffer.from(TEXT), 'is not sound gzip (incorrect header check)'],
      [Buffer.concat([packed, Buffer.from('more')]), 'is not sound gzip (incorrect header check)'],
    ];
    for (const [content, what] of damages) {
      await expect(read('damaged.csv.gz', content)).rejects.toMatchObject({
        code: 'output_damaged',
        message: `${join(folder, 'damaged.csv.gz')} ${what}`,
      });
    }
  });

  it('of a file that is not there are the error of the file system', async () => {
    const missing = (async () => {
      for await (const _ of outputBytes(join(folder, 'missing.csv.gz'))) expect.unreachable();
    })();
    await expect(missing).rejects.toMatchObject({ code: 'ENOENT' });
  });
});
