import { afterEach, beforeEach, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';
import './figures.js';

const ROWS = 1_000;
const CONCURRENCY = 8;
/** Calls after which the run is killed, one after the other. */
const KILLS = [40, 300, 500, 820];

describeEachStore('a run that is killed with SIGKILL', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  let onCall: (calls: number) => void = () => {};

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(() => {
      onCall(service.requests.length);
      return {};
    });
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 40: is completed by the same command; nothing is missing or doubled, and few calls are repeated', async ({
    task,
  }) => {
    const env = {
      PROMPTMILL_BASE_URL: service.url,
      PROMPTMILL_QUEUE: store().target,
      PROMPTMILL_STATE_DIR: store().stateDir,
    };
    const job = work.job({
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, chunk_size: 10 },
    });

    for (const calls of KILLS) {
      const running = work.start(['run', job], env);
      onCall = (made) => {
        if (made >= calls) running.process.kill('SIGKILL');
      };
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(null);
    }
    onCall = () => {};
    const finished = await work.run(['run', job], env);

    expect(finished.code, finished.stderr).toBe(0);
    const records = work.records('out.csv');
    expect(records.map((record) => record['id'])).toEqual(
      Array.from({ length: ROWS }, (_, i) => String(i + 1)),
    );
    expect(records.every((record) => record['status'] === 'completed')).toBe(true);
    expect(records[6]?.['note']).toBe('note 7, with a "quote"');
    // At each kill, the calls in flight are made again, and those that were answered and on their way into the
    // ledger: against a service that answers at once some 10 calls in all, where 8 are in flight.
    const mostRepeated = KILLS.length * 3 * CONCURRENCY;
    expect(service.requests.length).toBeLessThanOrEqual(ROWS + mostRepeated);
    const summary = JSON.parse(work.read('out.summary.json'));
    expect(summary).toMatchObject({
      rows: { total: ROWS, completed: ROWS, filtered: 0, failed: 0, skipped: 0 },
    });
    task.meta.fault = { rows: ROWS, calls: service.requests.length, repeated: summary.calls.repeated };
  });
});
