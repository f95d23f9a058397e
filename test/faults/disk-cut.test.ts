import { readFileSync, statSync, truncateSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';

const ROWS = 80;
const ids = Array.from({ length: ROWS }, (_, i) => String(i + 1));
/** What may differ from an undisturbed run. */
const VOLATILE = /(,2023-11-14T22:13:20Z,\d+),\d+,/g;

describeOn('embedded', 'a part file that was cut by hand', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  /** Rows up to this one are answered; the next one stops the run. */
  let answered = ROWS;
  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(({ prompt }) =>
      Number(prompt.slice(4)) > answered
        ? { status: 403, json: { error: { code: '403', message: 'blocked' } } }
        : { json: completionBody({ text: `"${prompt}"\nand more` }) },
    );
  });
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('fault 50: is continued with the records that are left, and says how many rows are called again', async () => {
    const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
    const limits = { concurrency: 4, chunk_size: 5 };
    const input = { path: work.rows(ROWS) };
    const job = work.job({ input, limits, output: { path: 'out.csv' } });
    const part = work.path('out.csv.part');
    const committed = (): number => Number(work.json('out.csv.run.json')['rows']);
    let lost = 0;

    answered = 40;
    const stopped = await work.call(['run', job], env);
    expect(stopped.code, stopped.stderr).toBe(3);
    const before = committed();
    expect(before).toBeGreaterThan(0);
    truncateSync(part, Math.floor(statSync(part).size * 0.6));

    answered = 60;
    const mended = await work.call(['run', job], env);
    expect(mended.code, mended.stderr).toBe(3);
    const said =
      /warning: out\.csv\.part has \d+ bytes where out\.csv\.run\.json counts \d+: the last (\d+) of/;
    lost += Number(said.exec(mended.stderr)?.[1]);
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThan(before);
    lost += committed();
    truncateSync(part, 10);

    answered = ROWS;
    const finished = await work.call(['run', job], env);
    expect(finished.code, finished.stderr).toBe(0);

    expect(work.records('out.csv').map((record) => record['id'])).toEqual(ids);
    const { calls, rows } = JSON.parse(work.read('out.summary.json'));
    expect(rows).toMatchObject({ total: ROWS, completed: ROWS });
    expect(calls.repeated).toBeGreaterThanOrEqual(lost);
    const undisturbed = work.job({ input, limits, output: { path: 'calm.csv' } }, 'calm.yaml');
    const calm = await work.call(['run', undisturbed], env);
    expect(calm.code, calm.stderr).toBe(0);
    const stable = (name: string): string =>
      readFileSync(work.path(name), 'utf8').replaceAll(VOLATILE, '$1,');
    expect(stable('out.csv')).toBe(stable('calm.csv'));
  });
});
