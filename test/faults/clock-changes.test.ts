import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Halt } from '../../src/core/halt.js';
import { serve } from '../../src/ops/schedule/serve.js';
import { readJobStates, serveFolder } from '../../src/ops/schedule/serve-state.js';
import { Workplace } from '../support/promptmill.js';
import { ShiftedClock } from '../support/shifted-clock.js';
import { describeEachStore, type StoreUnderTest } from '../support/stores.js';

/** A machine that takes longer than this to begin to serve is no machine. */
const BEFORE_MS = 20 * 60_000;

/** Serves jobs whose runs end at once, with the clock of a test. */
class Night {
  readonly clock = new ShiftedClock();
  readonly work = new Workplace();
  readonly stateDir = mkdtempSync(join(tmpdir(), 'promptmill-clock-'));
  readonly #halt = new Halt();
  #runs: string[] = [];
  #onRun: () => void = () => {};
  #serving: Promise<void> = Promise.resolve();

  /**
   * Serves from some time before, and sets the clock once the jobs are scheduled.
   * @param crons name → cron expression, on the clock of Berlin
   */
  async begin(queue: string, time: string, crons: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, cron] of Object.entries(crons)) {
      const schedule = { cron, timezone: 'Europe/Berlin' };
      this.work.job({ name, input: { path: 'a.csv' }, schedule }, `jobs/${name}.yaml`);
    }
    this.clock.set(new Date(Date.parse(time) - BEFORE_MS).toISOString());
    await new Promise<void>((resolve, reject) => {
      const onLog = (line: string): void => {
        if (line.includes('"serving the schedule"')) resolve();
      };
      this.#serving = serve({
        paths: [this.work.path('jobs')],
        queue,
        stateDir: this.stateDir,
        emulated: false,
        jobs: 5,
        run: async ({ job }) => {
          this.#runs.push(job);
          this.#onRun();
          return { run: job, state: 'finished', result: '' };
        },
        log: pino({ level: 'info' }, { write: onLog }),
        dashboard: null,
        halt: this.#halt,
        onLookNow: () => {},
      });
      this.#serving.catch(reject);
    });
    this.clock.set(time);
  }

  /** What ran, sorted, once a job has run so often and its run is over: what fires before that is skipped. */
  async ran(job: string, times = 1): Promise<string[]> {
    while (this.#runs.filter((name) => name === job).length < times) {
      const more = new Promise<void>((resolve) => {
        this.#onRun = resolve;
      });
      await Promise.race([more, this.#serving.then(() => Promise.reject(new Error('serve has ended')))]);
    }
    const isRunning = (): boolean => readJobStates(serveFolder(this.stateDir)).some(({ running }) => running);
    await expect.poll(isRunning, { timeout: 60_000, interval: 20 }).toBe(false);
    return [...this.#runs].sort();
  }

  async end(): Promise<void> {
    this.#halt.request({ kind: 'signal', signal: 'SIGTERM' });
    await this.#serving;
    this.clock.restore();
    this.work.remove();
    rmSync(this.stateDir, { recursive: true, force: true });
  }
}

describeEachStore('the schedule', clockChanges);

function clockChanges(under: () => StoreUnderTest): void {
  let night: Night;
  beforeEach(() => {
    night = new Night();
  });
  afterEach(() => night.end());

  it('fault 90: with the clock set back by an hour, runs no job a second time', async () => {
    await night.begin(under().target, '2026-11-21T01:29:57Z', {
      back: '0 30 2 * * *',
      later: '0 35 2 * * *',
    });
    expect(await night.ran('back')).toEqual(['back']);
    night.clock.set('2026-11-21T00:30:02Z');
    // An hour goes by; the same time comes a second time.
    night.clock.set('2026-11-21T01:29:57Z');
    while (Date.now() < Date.parse('2026-11-21T01:30:02Z')) await sleep(100);
    night.clock.set('2026-11-21T01:34:57Z');
    expect(await night.ran('later')).toEqual(['back', 'later']);
  });

  it('fault 90: with the clock set forward by a day, catches up once, and then follows the new time', async () => {
    await night.begin(under().target, '2026-11-21T01:29:57Z', {
      forward: '0 0 * * * *',
      first: '0 30 2 * * *',
    });
    expect(await night.ran('first')).toEqual(['first']);
    night.clock.set('2026-11-22T01:40:00Z');
    await night.ran('forward');
    expect(await night.ran('first', 2)).toEqual(['first', 'first', 'forward']);
    night.clock.set('2026-11-22T01:59:57Z');
    expect(await night.ran('forward', 2)).toEqual(['first', 'first', 'forward', 'forward']);
  });

  it('fault 90: in the nights of both clock changes, runs a job of half past two once', async () => {
    await night.begin(under().target, '2026-10-25T00:29:57Z', {
      autumn: '0 30 2 * * *',
      hourly: '5 30 * * * *',
    });
    expect(await night.ran('hourly')).toEqual(['autumn', 'hourly']);
    // Berlin has half past two once more.
    night.clock.set('2026-10-25T01:29:57Z');
    expect(await night.ran('hourly', 2)).toEqual(['autumn', 'hourly', 'hourly']);
    await night.end();

    night = new Night();
    await night.begin(under().target, '2026-03-29T00:59:57Z', {
      spring: '0 30 2 * * *',
      hour: '5 30 * * * *',
      three: '0 0 3 * * *',
    });
    expect(await night.ran('three')).toEqual(['three']);
    // Berlin has no half past two; at half past three the job runs.
    night.clock.set('2026-03-29T01:29:57Z');
    expect(await night.ran('hour')).toEqual(['hour', 'spring', 'three']);
  });
}
