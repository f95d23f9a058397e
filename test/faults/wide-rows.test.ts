import { afterAll, describe, expect, it } from 'vitest';
import './figures.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

/** Lines of progress that tell nothing new come once a minute. */
const TIMEOUT = 600_000;

/** 36 MB: an empty cell takes one byte of the file and, as a field of a map, some sixty of memory. */
const COLUMNS = 6_000;
const ROWS = 6_000;
/** Only these are sent. */
const SENT = new Set(['1', '2', String(ROWS)]);

const header = Array.from({ length: COLUMNS }, (_, i) => `c${i}`).join(',');
const line = (row: number): string =>
  `${row},${SENT.has(String(row)) ? 'sent' : ''}${','.repeat(COLUMNS - 2)}\n`;

// The rows are in the process of the run, whatever the store.
describe('6,000 columns by 6,000 rows, on embedded', () => {
  const work = new Workplace();
  let service: ScriptedService;
  afterAll(async () => {
    await service.close();
    work.remove();
  });

  it(
    'fault 70: go through 700 MB of heap while the first answer is awaited',
    async ({ task }) => {
      work.write('wide.csv', `${header}\n${Array.from({ length: ROWS }, (_, i) => line(i + 1)).join('')}`);
      // The run cannot write a row before the first is answered: the window is as full as it gets.
      let answer = (): void => {};
      const held = new Promise<void>((resolve) => {
        answer = resolve;
      });
      service = await startScriptedService(async ({ prompt }) => {
        if (prompt === 'row 1') await held;
        return {};
      });
      const job = work.job({
        input: { path: 'wide.csv', require: ['c1'] },
        prompt: 'row {{ c0 }}',
        output: { path: 'out.csv', columns: ['c0', 'status'] },
      });
      const running = work.start(['run', job], {
        PROMPTMILL_BASE_URL: service.url,
        NODE_OPTIONS: '--max-old-space-size=700',
      });
      await Promise.race([running.ended, standstill(running.process.stderr)]);
      answer();
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(0);
      expect(work.records('out.csv').map(({ c0 }) => Number(c0))).toEqual(
        Array.from({ length: ROWS }, (_, i) => i + 1),
      );
      expect(service.requests.map(({ prompt }) => prompt).sort()).toEqual(
        [...SENT].map((row) => `row ${row}`).sort(),
      );
      task.meta.fault = { rows: ROWS, calls: service.requests.length };
    },
    TIMEOUT,
  );
});

/** Resolves when two lines of progress in a row tell of the same rows, and of some: then the producer waits for room. */
function standstill(stderr: NodeJS.ReadableStream | null): Promise<void> {
  let last = '';
  return new Promise((resolve) => {
    stderr?.on('data', (text: string) => {
      for (const [, rows = ''] of text.matchAll(/^([\d,]+) \/ 6,000 rows/gm)) {
        if (rows === last && rows !== '0') resolve();
        last = rows;
      }
    });
  });
}
