import { statSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

/** The events of a run, as its log has them at the level `debug`. */

let work: Workplace;
let service: ScriptedService;

beforeEach(async () => {
  work = new Workplace();
  service = await startScriptedService(() => ({}));
});
afterEach(async () => {
  await service.close();
  work.remove();
});

/** Runs a job of so many rows. @returns gives the entries of the log with a message, oldest first */
async function logged(rows: number): Promise<(message: string) => unknown[]> {
  const job = work.job({ input: { path: work.rows(rows) }, output: { path: 'out.jsonl' } });
  const { stderr } = await work.run(['run', job, '--log-level', 'debug'], {
    PROMPTMILL_BASE_URL: service.url,
  });
  return (message) =>
    stderr
      .split('\n')
      .filter((line) => line.endsWith(`"msg":"${message}"}`))
      .map((line) => JSON.parse(line));
}

it('says what is on disk after each commit', async () => {
  const entries = await logged(5);
  expect(entries('run started')).toMatchObject([{ execution: 1, committed: 0 }]);
  const rows = { total: 5, completed: 5, filtered: 0, failed: 0, skipped: 0 };
  expect(entries('committed').at(-1)).toMatchObject({ rows, bytes: statSync(work.path('out.jsonl')).size });
  expect(entries('run ended')).toMatchObject([{ known: 5 }]);
});
