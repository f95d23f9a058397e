import { readdirSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';

const ROWS = 12;

describe('promptmill retry', { timeout: 60_000 }, () => {
  let work: Workplace;
  let service: ScriptedService;
  /** Rows that fail, as long as they are in it. */
  let failing: Set<number>;
  let said: (row: number) => string;
  beforeEach(async () => {
    work = new Workplace();
    failing = new Set([3, 7]);
    said = (row) => ` answer ${row}`;
    service = await startScriptedService(({ prompt }) => {
      const row = Number(prompt.slice('row '.length));
      if (failing.has(row)) return { status: 400, json: { error: { code: 'bad', message: `no ${row}` } } };
      return { json: completionBody({ text: said(row), prompt_tokens: row }) };
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  const env = () => ({ PROMPTMILL_BASE_URL: service.url });
  const job = (more: object = {}) =>
    work.job({ input: { path: work.rows(ROWS) }, output: { path: 'out.csv' }, ...more });

  it.each(['out.csv', 'out.jsonl'])(
    'calls the failed rows of %s again, and leaves every other byte',
    async (output) => {
      const prices = { prompt: 1, completion: 2 };
      const run = await work.call(['run', job({ output: { path: output }, prices })], env());
      expect(run.code, run.stderr).toBe(1);
      expect(run.stderr).toContain(`2 rows failed. Call them again with:\n  promptmill retry ${output}`);
      const before = work.read(output).split('\n');
      const first = work.json('out.summary.json');
      failing = new Set([7]);
      rmSync(work.path('.promptmill'), { recursive: true });
      const calls = service.calls();
      const retried = await work.call(['retry', output], env());
      expect(retried.code, retried.stderr).toBe(1);
      expect(retried.stderr).toContain(`retrying 2 of 12 rows of ${output} (--status failed)`);
      expect(service.calls() - calls).toBe(2);
      const after = work.read(output).split('\n');
      const row3 = output === 'out.csv' ? 3 : 2;
      const row7 = row3 + 4;
      expect(after.map((line, i) => line === before[i] || i)).toEqual(
        before.map((_, i) => (i === row3 || i === row7 ? i : true)),
      );
      expect(after[row3]).toContain('answer 3');
      if (output === 'out.jsonl')
        expect(work.lines(output).map(({ row }) => row)).toEqual(
          before.flatMap((_, i) => (i < ROWS ? [i + 1] : [])),
        );
      const summary = work.json('out.summary.json');
      expect(summary).toMatchObject({
        run: first['run'],
        rows: { total: ROWS, completed: ROWS - 1, failed: 1 },
        errors: { invalid_request: 1 },
        calls: { sent: ROWS + 2 },
        usage: { prompt_tokens: 78 - 7 },
        retried: { rows: 2 },
        started_at: first['started_at'],
      });
      expect(
        readdirSync(work.folder)
          .filter((name) => name.startsWith('out.'))
          .sort(),
      ).toEqual([output, 'out.summary.json'].sort());
    },
  );
});
