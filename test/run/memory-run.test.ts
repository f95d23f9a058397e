import { afterAll, expect, it } from 'vitest';
import { memoryRun } from '../support/memory-run.js';
import { Workplace } from '../support/promptmill.js';
import { type Script, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const store = oneStore();
const work = new Workplace();
afterAll(() => work.remove());

/** Row 3 is blocked, row 4 is refused, row 5 is answered the second time, row 6 says what no label says. */
const script: Script = ({ prompt, count }) => {
  if (prompt === 'row 3') return { status: 400, json: { error: { code: 'content_filter', message: 'no' } } };
  if (prompt === 'row 4') return { status: 400, json: { error: { code: 'bad', message: 'not this' } } };
  if (prompt === 'row 5' && count === 1) return { status: 500, json: { error: { message: 'again' } } };
  return { answer: { text: prompt === 'row 6' ? ' perhaps' : ' positive' } };
};

const JOB = {
  answer: { labels: ['positive', 'negative'] },
  limits: { chunk_size: 4, concurrency: 2 },
};
const ROWS = `id,note\n${Array.from({ length: 20 }, (_, i) => `${i + 1},"note, ${i}"\n`).join('')}`;

/** What two runs of one job do not share. */
const timeless = ({ latency_ms: _, ...record }: { readonly latency_ms: unknown }) => record;

it('a run in memory has the records, the exit code and the counts of one on the disk', async () => {
  const service = await startScriptedService(script);
  work.write('in.csv', ROWS);
  const job = work.job({ ...JOB, input: { path: 'in.csv' }, output: { path: 'out.jsonl' } });
  const onDisk = await work.call(['run', job], { PROMPTMILL_BASE_URL: service.url, ...store() });
  await service.close();

  const { lines, summary, code } = await memoryRun(JOB, ROWS, script);
  expect(code).toBe(onDisk.code);
  expect(lines.map(timeless)).toEqual(work.lines('out.jsonl').map(timeless));
  const { rows, answers, usage, calls, errors } = summary;
  expect(work.json('out.summary.json')).toMatchObject({ rows, answers, usage, calls, errors });
});
