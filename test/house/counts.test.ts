import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';

/**
 * What a run asks of the machine, in counts that hardly depend on how fast it is. The service answers as many calls at
 * once as are made at once, and not before they are all there: so the rows of such a wave can share their round trips,
 * and whoever adds one for each row adds ROWS, which is more than the limits leave room for.
 */
const ROWS = 400;
const CONCURRENCY = 10;
const CHUNK = 50;
const COUNTER = join(import.meta.dirname, '../../bench/counter.js');

/** Round trips to the store: what goes by the clock (the collector's looks, heartbeats) is allowed for each second. */
const TRIPS = { perRun: 120, perWave: 6, perSecond: 20 };
const FSYNCS = { perRun: 20, perChunk: 4 };
/** Files of code that a run loads, its report included. */
const MODULES = 150;

describeEachStore('the counts of a run', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('stay within their limits', async () => {
    const calledAt: number[] = [];
    const wave: (() => void)[] = [];
    work = new Workplace();
    service = await startScriptedService(async () => {
      calledAt.push(performance.now());
      await new Promise<void>((resolve) => {
        wave.push(resolve);
        if (wave.length === CONCURRENCY) for (const answer of wave.splice(0)) answer();
      });
      return {};
    });
    const job = work.job({
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      limits: { concurrency: CONCURRENCY, chunk_size: CHUNK },
    });
    const { kind, target, stateDir } = store();
    const ended = await work.run(['run', job, '--quiet'], {
      PROMPTMILL_BASE_URL: service.url,
      PROMPTMILL_QUEUE: target,
      PROMPTMILL_STATE_DIR: stateDir,
      NODE_OPTIONS: `--import ${pathToFileURL(COUNTER)}`,
      BENCH_COUNTS: work.path('counts.json'),
    });
    expect(ended).toMatchObject({ code: 0 });
    expect(calledAt).toHaveLength(ROWS);

    const { writes, changes, fsyncs, modules } = JSON.parse(readFileSync(work.path('counts.json'), 'utf8'));
    const trips = kind === 'embedded' ? changes : writes[new URL(target).port];
    const seconds = ((calledAt.at(-1) ?? 0) - (calledAt[0] ?? 0)) / 1000;
    const limits = {
      trips: Math.round(TRIPS.perRun + TRIPS.perWave * (ROWS / CONCURRENCY) + TRIPS.perSecond * seconds),
      fsyncs: FSYNCS.perRun + FSYNCS.perChunk * (ROWS / CHUNK),
      modules: MODULES,
    };
    console.log(`${kind}, ${ROWS} rows:`, { trips, fsyncs, modules }, 'limits:', limits);
    // With fewer, the counter would not see the reservation of each wave, or not the commits.
    expect(trips).toBeGreaterThanOrEqual(ROWS / CONCURRENCY);
    expect(fsyncs).toBeGreaterThanOrEqual(ROWS / CHUNK);
    expect(trips).toBeLessThanOrEqual(limits.trips);
    expect(fsyncs).toBeLessThanOrEqual(limits.fsyncs);
    expect(modules).toBeLessThanOrEqual(limits.modules);
  });
});
