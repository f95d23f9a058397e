import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterAll, expect, it } from 'vitest';
import './figures.js';
import { serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';

const MB = 1024 * 1024;

describeOn('embedded', 'answers that nobody expects, in a run', (store) => {
  const work = new Workplace();
  afterAll(() => work.remove());
  const env = (url: string) => ({ PROMPTMILL_BASE_URL: url, ...store().env });

  it('fault 73: of 12 MB, twenty at once, take bounded memory, are kept in part, and the rows say so', async ({
    task,
  }) => {
    const large = 'word "x" '.repeat((12 * MB) / 9);
    const whole = 'y'.repeat(MB);
    const service = await startScriptedService(({ prompt }) => ({
      answer: { text: prompt === 'row 1' ? whole : large },
    }));
    try {
      const job = work.job({
        service: serviceOn(store()),
        input: { path: work.rows(21) },
        output: { path: 'large.jsonl' },
        limits: { concurrency: 20 },
      });
      const { code, stderr } = await work.run(['run', job], {
        ...env(service.url),
        NODE_OPTIONS: '--max-old-space-size=512',
      });
      expect(code, stderr).toBe(0);
      const records = work.lines('large.jsonl');
      expect(records.length).toBe(21);
      expect(records[0].text === whole).toBe(true);
      expect(records[0].error).toBeNull();
      const cut = records.slice(1);
      expect(cut.every(({ text }) => text === large.slice(0, MB))).toBe(true);
      expect(new Set(cut.map(({ status, error }) => `${status} ${error.code}`))).toEqual(
        new Set(['completed text_cut']),
      );
      const summary = JSON.parse(work.read('large.summary.json'));
      expect(summary.errors).toEqual({ text_cut: 20 });
      // A machine that is busy enough loses the lock of a chunk over this much; what it calls again is counted.
      const { sent, repeated } = summary.calls;
      expect(sent).toBe(service.requests.length);
      expect(sent - 21).toBeLessThanOrEqual(repeated);
      task.meta.fault = { rows: 21, calls: sent, repeated };
    } finally {
      await service.close();
    }
  });

  it('fault 73: with bytes that are no UTF-8 keep their text, and the row, the summary and the terminal say so', async ({
    task,
  }) => {
    const service = serviceOn(store());
    const [head, end] = service.operation === 'chat' ? ['"message":{"content":"', '"}'] : ['"text":"', '"'];
    const body = (text: Buffer) =>
      Buffer.concat([
        Buffer.from(`\ufeff{"choices":[{"index":0,"finish_reason":"stop",${head}`),
        text,
        Buffer.from(`${end}}]}`),
      ]);
    const texts = [
      Buffer.from('caf\u00e9'),
      Buffer.from('caf\u00e9', 'latin1'),
      // A character that the service sent itself, in a body without a fault.
      Buffer.from('\ufffd'),
    ];
    const server = createServer((request, response) => {
      let sent = '';
      request.on('data', (piece) => {
        sent += piece;
      });
      request.on('end', () =>
        response.end(body(texts[Number(/row (\d)/.exec(sent)?.[1]) - 1] ?? Buffer.of())),
      );
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : 0;
    try {
      const job = work.job({
        service,
        input: { path: work.rows(3, 'three.csv') },
        output: { path: 'bytes.csv' },
      });
      const { code, stderr } = await work.run(['run', job], env(`http://127.0.0.1:${port}`));
      expect(code, stderr).toBe(0);
      const said = work
        .records('bytes.csv')
        .map(({ status, text, error_code }) => [status, text, error_code]);
      expect(said).toEqual([
        ['completed', 'caf\u00e9', ''],
        ['completed', 'caf\ufffd', 'invalid_utf8'],
        ['completed', '\ufffd', ''],
      ]);
      expect(work.records('bytes.csv')[1]?.['error_message']).toBe(
        'the text has bytes that are no UTF-8: each of them is shown as U+FFFD',
      );
      expect(JSON.parse(work.read('bytes.summary.json')).errors).toEqual({ invalid_utf8: 1 });
      expect(stderr).toMatch(/invalid_utf8 +1/);
      task.meta.fault = { rows: 3, calls: 3 };
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
