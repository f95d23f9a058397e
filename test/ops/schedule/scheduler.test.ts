import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Tick, TickEnd } from '../../../src/ops/schedule/schedule.js';
import {
  type ScheduledRun,
  type ScheduledRunEnd,
  Scheduler,
  type SchedulerOptions,
} from '../../../src/ops/schedule/scheduler.js';
import { JobStates } from '../../../src/ops/schedule/serve-state.js';

const FINISHED: ScheduledRunEnd = { run: 'r', state: 'finished', result: '1 of 1 rows' };
const START = new Date('2026-11-21T02:00:00.000Z');
/** Due while the scheduler is at work. */
const now = (job: string, n = 1): Tick => tick(job, new Date(START.getTime() + n * 1000));

const tick = (job: string, due: Date): Tick => ({
  entry: `repeat:${job}:${due.getTime()}`,
  job,
  path: `/jobs/${job}.yaml`,
  due,
});

/** A run that a test ends when it likes. */
interface Begun extends ScheduledRun {
  end(end?: ScheduledRunEnd): void;
}

describe('a scheduler', () => {
  let folder: string;
  let runs: Begun[];
  let log: { level: number; msg: string; job?: string }[];
  /** Wakes who waits for a run to begin. */
  let onBegin: () => void;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-scheduler-'));
    [runs, log, onBegin] = [[], [], () => {}];
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const scheduler = (jobs = 2): Scheduler => new Scheduler(options(jobs));

  function options(jobs: number): SchedulerOptions {
    return {
      states: new JobStates(folder),
      jobs,
      startedAt: START,
      follows: (path) => path.startsWith('/jobs/'),
      log: pino({ level: 'info', base: null }, { write: (line) => void log.push(JSON.parse(line)) }),
      run: (night) =>
        new Promise((resolve) => {
          runs.push({ ...night, end: (end = FINISHED) => resolve(end) });
          // As a run does that a signal halts.
          void night.halt.requested.then(() =>
            resolve({ run: 'r', state: 'interrupted', result: '0 of 1 rows' }),
          );
          onBegin();
        }),
    };
  }

  /** The run with this number, from 1, as soon as it has begun. */
  async function begun(number: number): Promise<Begun> {
    for (;;) {
      const run = runs[number - 1];
      if (run !== undefined) return run;
      await new Promise<void>((resolve) => {
        onBegin = resolve;
      });
    }
  }

  /** The end of a run is on disk before its job counts as idle. */
  async function idle(at: Scheduler): Promise<void> {
    await expect.poll(() => at.running, { timeout: 60_000, interval: 5 }).toEqual([]);
  }

  const said = (): string[] => log.map(({ msg }) => msg);

  it('skips a tick that comes while its job runs, and runs the next', async () => {
    const at = scheduler();
    expect(await at.ticked(now('a', 1))).toBe('taken');
    const first = await begun(1);
    expect(await at.ticked(now('a', 2))).toBe('taken');
    expect(said()).toEqual([expect.stringMatching(/^skipped: still running since 20/)]);
    expect(runs).toHaveLength(1);
    first.end();
    await idle(at);
    expect(await at.ticked(now('a', 3))).toBe('taken');
    expect((await begun(2)).job).toBe('a');
  });

  it('runs different jobs at the same time, as many as it may, and the others in their order', async () => {
    const at = scheduler(2);
    const [, , third, fourth] = [now('a'), now('b'), now('c'), now('d')].map((each) => at.ticked(each));
    const [first] = [await begun(1), await begun(2)];
    expect(at.running).toEqual(['a', 'b']);
    expect(await at.ticked(now('c', 2))).toBe('taken');
    expect(said()).toEqual(['skipped: still waits for its turn']);
    first.end();
    expect(await third).toBe('taken');
    (await begun(3)).end();
    expect(await fourth).toBe('taken');
    expect(runs.slice(2).map(({ job }) => job)).toEqual(['c', 'd']);
  });

  it('halts what runs when it leaves, gives back what waits, and completes both the next time', async () => {
    const at = scheduler(1);
    await at.ticked(now('a'));
    await begun(1);
    const waits = at.ticked(now('b'));
    await at.leave('SIGTERM');
    expect(await waits).toBe('left');
    expect(await at.ticked(now('c'))).toBe('left');

    const next = scheduler(2);
    await next.resume();
    expect((await begun(2)).job).toBe('a');
    expect(said()).toContain('its run was interrupted, and goes on');
    expect(await next.ticked(now('b'))).toBe('taken');
    await begun(3);
    for (const run of runs) run.end();
    await idle(next);
    expect(new JobStates(folder).unfinished()).toEqual([]);
  });

  it('fault 47: catches up once, after the run that downtime interrupted', async () => {
    await scheduler().ticked(now('a', 1));
    await begun(1);
    // Killed here: another process reads what is on disk.
    const at = scheduler();
    await at.resume();
    const resumed = await begun(2);
    // What is due now gives way, as it does to any run.
    expect(await at.ticked(now('a', 2))).toBe('taken');
    const late = tick('a', new Date(START.getTime() - 30_000));
    const ends: TickEnd[] = [];
    const caughtUp = at.ticked(late).then((end) => ends.push(end));
    expect(await at.ticked(now('a', 3))).toBe('taken');
    expect(ends).toEqual([]);
    resumed.end();
    await caughtUp;
    (await begun(3)).end();
    await idle(at);
    expect(said().filter((line) => line.startsWith('catching up'))).toHaveLength(1);
    expect(said().filter((line) => line.startsWith('skipped'))).toHaveLength(2);
    expect(runs).toHaveLength(3);
  });

  it('takes a tick once, also when it comes back from a process that was killed', async () => {
    const first = scheduler();
    await first.ticked(now('a'));
    (await begun(1)).end();
    await idle(first);
    const at = scheduler();
    await at.resume();
    expect(await at.ticked(now('a'))).toBe('taken');
    expect(at.running).toEqual([]);
    expect(runs).toHaveLength(1);
  });

  it('keeps a tick that is handed out again while it waits for its turn', async () => {
    const at = scheduler(1);
    await at.ticked(now('a'));
    const waiting = at.ticked(now('b'));
    const again = at.ticked(now('b'));
    await at.leave('SIGTERM');
    expect(await Promise.all([waiting, again])).toEqual(['left', 'left']);
    expect(runs).toHaveLength(1);
  });

  it('leaves a run alone whose job file it does not follow, and one that could not go on unfinished', async () => {
    const manifest = join(folder, 'out.csv.run.json');
    writeFileSync(manifest, '{}');
    await scheduler().ticked(now('a'));
    await (await begun(1)).onBegun(manifest);
    const elsewhere = new Scheduler({ ...options(1), follows: () => false });
    await elsewhere.resume();
    expect(elsewhere.running).toEqual([]);
    const at = scheduler();
    await at.resume();
    (await begun(2)).end({ run: null, state: 'not started', result: 'its store is in use' });
    await idle(at);
    expect(new JobStates(folder).unfinished()).toHaveLength(1);
  });

  it('does not begin a run again that had finished when the process was killed', async () => {
    const manifest = join(folder, 'out.csv.run.json');
    await scheduler().ticked(now('a'));
    const killed = await begun(1);
    writeFileSync(manifest, '{}');
    await killed.onBegun(manifest);
    const resuming = scheduler();
    await resuming.resume();
    await begun(2);

    rmSync(manifest);
    const at = scheduler();
    await at.resume();
    expect(at.running).toEqual([]);
    expect(said()).toContain('its run had finished when the last serve ended');
    expect(runs).toHaveLength(2);
    expect(new JobStates(folder).unfinished()).toEqual([]);
  });

  it('fault 58: refuses a job file that it was not told to follow', async () => {
    const at = scheduler();
    expect(await at.ticked({ ...now('a'), path: '/tmp/uploads/a.yaml' })).toBe('taken');
    expect(at.running).toEqual([]);
    expect(said()).toEqual(['refused: this serve was not told to follow that job file']);
  });

  it('completes a run that a serve before it has noted, and refuses what another version has noted', async () => {
    mkdirSync(join(folder, 'jobs'));
    const noted =
      '{"v":1,"job":"a","path":"/jobs/a.yaml","entry":"repeat:a:1795226400000","since":"2026-11-21T02:00:00.000Z",' +
      '"running":true,"manifest":null,"last":{"ended_at":"2026-11-20T02:09:00.000Z","run":"r","state":"finished",' +
      '"result":"1 of 1 rows"}}\n';
    writeFileSync(join(folder, 'jobs', 'a.json'), noted);
    const at = scheduler();
    await at.resume();
    expect(await begun(1)).toMatchObject({ job: 'a', path: '/jobs/a.yaml' });
    runs[0]?.end();
    await idle(at);
    expect(new JobStates(folder).get('a')).toMatchObject({ running: false, last: { state: 'finished' } });
    writeFileSync(join(folder, 'jobs', 'a.json'), noted.replace('"v":1', '"v":2'));
    const message = `${join(folder, 'jobs', 'a.json')} is of another version of Promptmill`;
    expect(() => new JobStates(folder)).toThrow(
      expect.objectContaining({ ...{ exit: 2, message }, hint: expect.stringContaining('remove the file') }),
    );
  });

  it('keeps how the last run ended', async () => {
    const at = scheduler();
    await at.ticked(now('a'));
    (await begun(1)).end({ run: null, state: 'not started', result: 'no job file' });
    await idle(at);
    expect(new JobStates(folder).get('a')).toMatchObject({
      running: false,
      last: { state: 'not started', result: 'no job file', run: null },
    });
  });
});
