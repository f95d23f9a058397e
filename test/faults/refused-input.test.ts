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
  ['fault 4: a quote at row 10 that is never closed', 'rows.csv', thousand('10,"5 nails'), /line 11\b/],
  ['fault 6: two columns of one name', 'rows.csv', 'id,note,id\n1,a,2\n', /columns 1 and 3/],
  ['fault 12: an empty file', 'rows.csv', '', /is empty: it has no header/],
  [
    'fault 12: a workbook',
    'rows.csv',
    Buffer.from('PK\x03\x04 xl/workbook.xml'),
    /an Excel workbook .*CSV UTF-8/s,
  ],
  ['fault 12: a JSON array', 'rows.jsonl', '[\n{"id":1}\n]\n', /one JSON array.*jq -c/s],
  ['fault 12: a web page', 'rows.csv', '<!doctype html>\n<p>Log in', /a web page/],
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
    const { code, stdout, stderr } = await work.call(['run', job], { PROMPTMILL_BASE_URL: service.url });
    expect(code, stderr).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(name);
    expect(stderr).toMatch(says);
    expect(stderr).not.toMatch(/^ +at /m);
    expect(service.requests.length).toBe(0);
    expect(() => work.read('out.csv.part')).toThrow('ENOENT');
    expect(() => work.read('out.csv')).toThrow('ENOENT');
  });

  it('fault 12: standard input without a format: exit 2, and says --format', async () => {
    const job = work.job({ input: { path: '-' }, output: { path: 'out.csv' } });
    const { code, stderr } = await work.run(['run', job], { PROMPTMILL_BASE_URL: service.url }, 'id\n1\n');
    expect(code, stderr).toBe(2);
    expect(stderr).toMatch(/standard input is unknown.*--format csv/s);
    expect(service.requests.length).toBe(0);
  });
});

describe('a night on embedded with nothing to do', () => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it.each([
    ['a header alone', 'rows.csv', 'id,note\r\n', 'header.csv', /^id,note,status,[^\n]*\n$/],
    ['a JSONL without a line', 'rows.jsonl', '', 'none.jsonl', /^$/],
  ])(
    'fault 12: %s: exit 0, an output without records, a summary of 0 rows, and on_finish',
    async (_, name, text, out, says) => {
      const job = work.job({
        input: { path: work.write(name, text) },
        output: { path: out },
        prices: { prompt: 1, completion: 1 },
        limits: { canary: 3, stop_after_failures: 0.1 },
        on_finish: {
          command: [process.execPath, '-e', `process.stdin.pipe(fs.createWriteStream('${out}.told'))`],
        },
      });
      const checked = await work.call(['check', job]);
      expect(checked.code, checked.stderr).toBe(0);
      expect(checked.stderr).toContain('0 rows = 0 to send');

      // Nothing listens there, and nothing is called.
      const { code, stderr } = await work.call(['run', job], { PROMPTMILL_BASE_URL: 'http://127.0.0.1:9' });
      expect(code, stderr).toBe(0);
      expect(stderr).toContain('there is nothing to call');
      expect(stderr).not.toMatch(/NaN|Infinity|undefined|null/);
      expect(work.read(out)).toMatch(says);
      const summary = JSON.parse(work.read(out.replace(/\w+$/, 'summary.json')));
      expect(summary).toMatchObject({
        stopped: null,
        input: { rows: 0 },
        rows: { total: 0, completed: 0, filtered: 0, failed: 0, skipped: 0 },
        calls: { sent: 0 },
        cost: 0,
        rows_per_second: 0,
        latency_ms: { p50: null },
      });
      const { details: _details, ...told } = summary;
      expect(JSON.parse(work.read(`${out}.told`))).toEqual(told);
    },
  );
});
