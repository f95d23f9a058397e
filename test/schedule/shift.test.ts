import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Fire, FireEnd } from '../../src/schedule/fires.js';
import { Marks } from '../../src/schedule/marks.js';
import { type NightEnd, type NightRun, Shift, type ShiftOptions } from '../../src/schedule/shift.js';

const FINISHED: NightEnd = { run: 'r', state: 'finished', result: '1 of 1 rows' };
const START = new Date('2026-11-21T02:00:00.000Z');
/** Due while the shift is at work. */
const now = (job: string, n = 1): Fire => fire(job, new Date(START.getTime() + n * 1000));

const fire = (job: string, due: Date): Fire => ({
  entry: `repeat:${job}:${due.getTime()}`,
  job,
  path: `/jobs/${job}.yaml`,
  due,
});

/** A run that a test ends when it likes. */
interface Begun extends NightRun {
  end(end?: NightEnd): void;
}

describe('a shift', () => {
  let folder: string;
  let runs: Begun[];
  let log: { level: number; msg: string; job?: string }[];
  /** Wakes who waits for a run to begin. */
  let onBegin: () => void;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-shift-'));
    [runs, log, onBegin] = [[], [], () => {}];
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const shift = (jobs = 2): Shift => new Shift(options(jobs));

  function options(jobs: number): ShiftOptions {
    return {
      marks: new Marks(folder),
      jobs,
      startedAt: START,
      follows: (path) => path.startsWith('/jobs/'),
      log: pino({ level: 'info', base: null }, { write: (line) => void log.push(JSON.parse(line)) }),
      run: (night) =>
        new Promise((resolve) => {
          runs.push({ ...night, end: (end = FINISHED) => resolve(end) });
          // As a run does that a signal halts.
          night.halt.onPull(() => resolve({ run: 'r', state: 'interrupted', result: '0 of 1 rows' }));
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
  async function idle(at: Shift): Promise<void> {
    await expect.poll(() => at.running, { timeout: 60_000, interval: 5 }).toEqual([]);
  }

  const said = (): string[] => log.map(({ msg }) => msg);

  it('skips what fires while its job runs, and runs the next', async () => {
    const at = shift();
    expect(await at.fired(now('a', 1))).toBe('taken');
    const first = await begun(1);
    expect(await at.fired(now('a', 2))).toBe('taken');
    expect(said()).toEqual([expect.stringMatching(/^skipped: still running since 20/)]);
    expect(runs).toHaveLength(1);
    first.end();
    await idle(at);
    expect(await at.fired(now('a', 3))).toBe('taken');
    expect((await begun(2)).job).toBe('a');
  });

  it('runs different jobs at the same time, as many as it may, and the others in their order', async () => {
    const at = shift(2);
    const [, , third, fourth] = [now('a'), now('b'), now('c'), now('d')].map((each) => at.fired(each));
    const [first] = [await begun(1), await begun(2)];
    expect(at.running).toEqual(['a', 'b']);
    expect(await at.fired(now('c', 2))).toBe('taken');
    expect(said()).toEqual(['skipped: still waits for its turn']);
    first.end();
    expect(await third).toBe('taken');
    (await begun(3)).end();
    expect(await fourth).toBe('taken');
    expect(runs.slice(2).map(({ job }) => job)).toEqual(['c', 'd']);
  });

  it('halts what runs when it leaves, gives back what waits, and completes both the next time', async () => {
    const at = shift(1);
    await at.fired(now('a'));
    await begun(1);
    const waits = at.fired(now('b'));
    await at.leave('SIGTERM');
    expect(await waits).toBe('left');
    expect(await at.fired(now('c'))).toBe('left');

    const next = shift(2);
    await next.resume();
    expect((await begun(2)).job).toBe('a');
    expect(said()).toContain('its run was interrupted, and goes on');
    expect(await next.fired(now('b'))).toBe('taken');
    await begun(3);
    for (const run of runs) run.end();
    await idle(next);
    expect(new Marks(folder).unfinished()).toEqual([]);
  });

  it('fault 47: catches up once, after the run that downtime interrupted', async () => {
    await shift().fired(now('a', 1));
    await begun(1);
    // Killed here: another process reads what is on disk.
    const at = shift();
    await at.resume();
    const resumed = await begun(2);
    // What is due now gives way, as it does to any run.
    expect(await at.fired(now('a', 2))).toBe('taken');
    const late = fire('a', new Date(START.getTime() - 30_000));
    const ends: FireEnd[] = [];
    const caughtUp = at.fired(late).then((end) => ends.push(end));
    expect(await at.fired(now('a', 3))).toBe('taken');
    expect(ends).toEqual([]);
    resumed.end();
    await caughtUp;
    (await begun(3)).end();
    await idle(at);
    expect(said().filter((line) => line.startsWith('catching up'))).toHaveLength(1);
    expect(said().filter((line) => line.startsWith('skipped'))).toHaveLength(2);
    expect(runs).toHaveLength(3);
  });

  it('takes a fire once, also when it comes back from a process that was killed', async () => {
    const first = shift();
    await first.fired(now('a'));
    (await begun(1)).end();
    await idle(first);
    const at = shift();
    await at.resume();
    expect(await at.fired(now('a'))).toBe('taken');
    expect(at.running).toEqual([]);
    expect(runs).toHaveLength(1);
  });

  it('keeps a fire that is handed out again while it waits for its turn', async () => {
    const at = shift(1);
    await at.fired(now('a'));
    const waiting = at.fired(now('b'));
    const again = at.fired(now('b'));
    await at.leave('SIGTERM');
    expect(await Promise.all([waiting, again])).toEqual(['left', 'left']);
    expect(runs).toHaveLength(1);
  });

  it('leaves a run alone whose job file it does not follow, and one that could not go on unfinished', async () => {
    const manifest = join(folder, 'out.csv.run.json');
    writeFileSync(manifest, '{}');
    await shift().fired(now('a'));
    await (await begun(1)).onBegun(manifest);
    const elsewhere = new Shift({ ...options(1), follows: () => false });
    await elsewhere.resume();
    expect(elsewhere.running).toEqual([]);
    const at = shift();
    await at.resume();
    (await begun(2)).end({ run: null, state: 'not started', result: 'its store is in use' });
    await idle(at);
    expect(new Marks(folder).unfinished()).toHaveLength(1);
  });

  it('does not begin a run again that had finished when the process was killed', async () => {
    const manifest = join(folder, 'out.csv.run.json');
    await shift().fired(now('a'));
    const killed = await begun(1);
    writeFileSync(manifest, '{}');
    await killed.onBegun(manifest);
    const resuming = shift();
    await resuming.resume();
    await begun(2);

    rmSync(manifest);
    const at = shift();
    await at.resume();
    expect(at.running).toEqual([]);
    expect(said()).toContain('its run had finished when the last serve ended');
    expect(runs).toHaveLength(2);
    expect(new Marks(folder).unfinished()).toEqual([]);
  });

  it('fault 58: refuses a job file that it was not told to follow', async () => {
    const at = shift();
    expect(await at.fired({ ...now('a'), path: '/tmp/uploads/a.yaml' })).toBe('taken');
    expect(at.running).toEqual([]);
    expect(said()).toEqual(['refused: this serve was not told to follow that job file']);
  });

  it('keeps how the last run ended', async () => {
    const at = shift();
    await at.fired(now('a'));
    (await begun(1)).end({ run: null, state: 'not started', result: 'no job file' });
    await idle(at);
    expect(new Marks(folder).get('a')).toMatchObject({
      running: false,
      last: { state: 'not started', result: 'no job file', run: null },
    });
  });
});
