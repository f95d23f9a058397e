import { statSync } from 'node:fs';
import { expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';

/** The events of a run, as its log has them at the level `debug`. */

const place = scriptedPlace();

/** Runs a job of so many rows. @returns gives the entries of the log with a message, oldest first */
// biome-ignore lint/suspicious/noExplicitAny: as of JSON.parse
async function logged(rows: number): Promise<(message: string) => any[]> {
  const job = place.work.job({ input: { path: place.work.rows(rows) }, output: { path: 'out.jsonl' } });
  const { stderr } = await place.work.run(['run', job, '--log-level', 'debug'], {
    PROMPTMILL_BASE_URL: place.service.url,
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
  expect(entries('committed').at(-1)).toMatchObject({
    rows,
    bytes: statSync(place.work.path('out.jsonl')).size,
  });
  expect(entries('run ended')).toMatchObject([{ known: 5 }]);
});

it('has a line for each call: its row, its attempt and what came of it, and no text of a row, an answer or a key', async () => {
  place.script = ({ prompt, count }) =>
    prompt === 'row 2' && count === 1 ? { status: 500, text: 'broken' } : {};
  const calls = (await logged(3))('call ended').sort((a, b) => a.row - b.row || a.attempt - b.attempt);
  expect(calls.map(({ row, rows, attempt, status }) => [row, rows, attempt, status])).toEqual([
    [1, 1, 1, '200'],
    [2, 1, 1, '500'],
    [2, 1, 2, '200'],
    [3, 1, 1, '200'],
  ]);
  expect(Object.keys(calls[0]).sort()).toEqual(
    ['attempt', 'latency_ms', 'level', 'msg', 'row', 'rows', 'run', 'status', 'time'].sort(),
  );
});
