import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

const thousand = (row10: string): string => {
  const lines = Array.from({ length: 1_000 }, (_, i) => `${i + 1},"a ""fine"" note"`);
  lines[9] = row10;
  return `id,note\n${lines.join('\n')}\n`;
};

const REFUSED: readonly (readonly [fault: string, name: string, bytes: string | Buffer, says: RegExp])[] = [
  ['fault 2: bytes that are no UTF-8', 'rows.csv', Buffer.from('id\n1\ncaf\xe9\n', 'latin1'), /offset 8\b/],
  ['fault 4: a stray quote at row 10 of 1,000', 'rows.csv', thousand('10,5" nail'), /line 11\b/],
  ['fault 4: a quote at row 10 that is never closed', 'rows.csv', thousand('10,"5 nails'), /line 11\b/],
  ['fault 6: two columns of one name', 'rows.csv', 'id,note,id\n1,a,2\n', /columns 1 and 3/],
  ['fault 12: an empty file', 'rows.csv', '', /is empty/],
  ['fault 12: a header alone', 'rows.csv', 'id,note\n', /header of 2 columns, and no record/],
  ['fault 13: truncated gzip', 'rows.csv.gz', gzipSync(thousand('10,x')).subarray(0, -9), /cut off/],
];

describe('an input that is refused', () => {
  const work = new Workplace();
  let service: ScriptedService;
  beforeAll(async () => {
    service = await startScriptedService();
  });
  afterAll(async () => {
    await service.close();
    work.remove();
  });

  it.each(REFUSED)('%s: exit 2, nothing is sent, and nothing is left', async (_, name, bytes, says) => {
    const job = work.job({ input: { path: work.write(name, bytes) }, output: { path: 'out.csv' } });
    const { code, stdout, stderr } = await work.run(['run', job], { PROMPTMILL_BASE_URL: service.url });
    expect(code, stderr).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(name);
    expect(stderr).toMatch(says);
    expect(stderr).not.toMatch(/^ +at /m);
    expect(service.requests.length).toBe(0);
    expect(() => work.read('out.csv.part')).toThrow('ENOENT');
    expect(() => work.read('out.csv')).toThrow('ENOENT');
  });
});
