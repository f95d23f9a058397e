import { statSync } from 'node:fs';
import { expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';

const place = scriptedPlace();

it('the log has what is on disk after each commit, and a line for each call without a text of a row, an answer or a key', async () => {
  const { work, service } = place;
  place.script = ({ prompt, count }) =>
    prompt === 'row 2' && count === 1 ? { status: 500, text: 'broken' } : {};
  const job = work.job({ input: { path: work.rows(3) }, output: { path: 'out.jsonl' } });
  const { stderr } = await work.call(['run', job, '--log-level', 'debug'], {
    PROMPTMILL_BASE_URL: service.url,
  });
  const entries = (message: string) =>
    stderr
      .split('\n')
      .filter((line) => line.endsWith(`"msg":"${message}"}`))
      .map((line) => JSON.parse(line));

  expect(entries('run started')).toMatchObject([{ execution: 1, committed: 0 }]);
  const rows = { total: 3, completed: 3, filtered: 0, failed: 0, skipped: 0 };
  expect(entries('committed').at(-1)).toMatchObject({ rows, bytes: statSync(work.path('out.jsonl')).size });
  expect(entries('run ended')).toMatchObject([{ known: 3 }]);

  const calls = entries('call ended').sort((a, b) => a.row - b.row || a.attempt - b.attempt);
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

it('a quiet run that is stopped says why in one line, and nothing else', async () => {
  const { work, service } = place;
  place.script = () => ({ status: 403, json: { error: { code: '403', message: 'blocked for policy' } } });
  const job = work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' } });
  const { code, stdout, stderr } = await work.call(['run', job, '--quiet'], {
    PROMPTMILL_BASE_URL: service.url,
  });
  expect(code, stderr).toBe(3);
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^promptmill: .*blocked for policy.*\n$/);
});
