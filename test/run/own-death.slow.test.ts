import { expect, it } from 'vitest';
import type { Running } from '../support/promptmill.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';

const ROWS = 30;
const CONCURRENCY = 8;
const CULPRIT = 13;
/** Processes that die before the chunk is taken apart, and the one that dies of the row alone. */
const DEATHS = 4;

const place = scriptedPlace();

it('fault 44: of the rows beside one that ends each process that calls it, all others are answered', async () => {
  let running: Running | null = null;
  place.script = async ({ prompt }) => {
    if (prompt !== `row ${CULPRIT}`) return { json: completionBody({ text: ` re ${prompt}` }) };
    running?.process.kill('SIGKILL');
    return 'hang';
  };
  const { work, service } = place;
  const path = work.job({
    input: { path: work.rows(ROWS) },
    output: { path: 'out.csv' },
    limits: { concurrency: CONCURRENCY, chunk_size: 5 },
  });
  for (let deaths = 0; deaths < DEATHS; deaths++) {
    running = work.start(['run', path], { PROMPTMILL_BASE_URL: service.url });
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBeNull();
  }
  const finished = await work.call(['run', path], { PROMPTMILL_BASE_URL: service.url });
  expect(finished.code, finished.stderr).toBe(1);
  expect(work.json('out.summary.json')['rows']).toMatchObject({
    total: ROWS,
    completed: ROWS - 1,
    failed: 1,
  });
  expect(work.records('out.csv')[CULPRIT - 1]).toMatchObject({
    id: `${CULPRIT}`,
    error_code: 'worker_crashed',
  });
  expect(service.calls(`row ${CULPRIT}`)).toBe(DEATHS);
});
