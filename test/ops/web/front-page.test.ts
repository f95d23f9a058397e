import { describe, expect, it } from 'vitest';
import { type RateWindow, ratesOf, sampled } from '../../../src/account/rate.js';
import { observedState, readRuns, readWorkers } from '../../../src/ops/heartbeat.js';
import { frontPageOf } from '../../../src/ops/web/front-page.js';
import type { View, WatchedRun } from '../../../src/ops/web/watch.js';
import { runBeat, workerBeat } from './beats.js';

const NOW = new Date('2026-11-21T02:30:00.000Z');

function seen(beat: ReturnType<typeof runBeat>, ageMs = 500, samples: RateWindow = []): WatchedRun {
  const [read] = readRuns([{ name: beat.run, text: JSON.stringify(beat), ageMs }]);
  if (read === undefined) throw new Error('the beat cannot be read');
  return { ...read, observed: observedState(read), samples };
}

const view = (runs: readonly WatchedRun[], change: Partial<View> = {}): View => ({
  runs,
  workers: [],
  silentMs: 100,
  ready: true,
  ...change,
});

const stateWith = (run: WatchedRun) => frontPageOf(view([run]), '1.2.3', NOW);

describe('what the page shows of a run that goes on', () => {
  it('is its progress, its speed and the time that is left', () => {
    const [card] = stateWith(seen(runBeat())).running;
    expect(card).toMatchObject({
      state: 'running',
      stateText: 'Running',
      note: null,
      done: 500,
      total: 1000,
      percentText: '50 %',
      progressText: '500 of 1,000 rows known, 480 of them written',
    });
    expect(Object.fromEntries(card?.figures ?? [])).toMatchObject({
      Speed: '21 rows/s',
      'Time left': '24 s',
      Tokens: '12,900',
      'Cost so far': '0.0198',
      'Rate limited': '7',
      'Latency p95': '480 ms',
    });
    // Of all rows of the input, so that the parts of the bar are as long as the progress.
    expect(card?.shares[0]).toEqual({ name: 'completed', count: '460', percent: '95.8 %', fraction: 0.46 });
  });

  it('is what it waits for, and no time left then', () => {
    const [card] = stateWith(seen(runBeat({ waiting: 'waiting for the quota' }))).running;
    expect(card).toMatchObject({ state: 'waiting', note: 'waiting for the quota' });
    expect(Object.fromEntries(card?.figures ?? [])['Time left']).toBe('–');
  });

  it('is that it was lost, and what to do', () => {
    const [card] = stateWith(seen(runBeat(), 120_000)).running;
    expect(card).toMatchObject({ state: 'lost', stateText: 'Lost' });
    expect(card?.note).toContain('No word from it for 2 min 0 s');
    expect(card?.note).toContain('The same command continues it.');
  });

  it('is 100 % only when every row is known, and also of an input without rows', () => {
    expect(stateWith(seen(runBeat({ known: 999 }))).running[0]?.percentText).toBe('99 %');
    const { input } = runBeat().summary;
    const empty = runBeat({ known: 0 }, { input: { ...input, rows: 0 } });
    expect(stateWith(seen(empty)).running[0]).toMatchObject({ percentText: '100 %', done: 0, total: 0 });
  });

  it('has nothing in it that turns text around or controls anything', () => {
    const [card] = stateWith(seen(runBeat({}, { job: 'a\u202eb\u0007' }))).running;
    expect(card?.job).toBe('a\\u{202e}b\\u{7}');
  });
});

describe('what the page shows of runs that ended', () => {
  it('is how: with failed rows, stopped and why', () => {
    const runs = [
      seen(runBeat({ state: 'finished' })),
      seen(
        runBeat(
          { state: 'finished' },
          { rows: { total: 1, completed: 1, filtered: 0, failed: 0, skipped: 0 } },
        ),
      ),
      seen(runBeat({ state: 'stopped' }, { stopped: 'deadline: over 8 h' })),
      seen(runBeat({ state: 'interrupted' })),
    ];
    const { past, running } = frontPageOf(view(runs), '1.2.3', NOW);
    expect(running).toEqual([]);
    expect(past.map(({ state, stateText, note }) => [state, stateText, note])).toEqual([
      ['failures', 'Finished, 3 failed', null],
      ['finished', 'Finished', null],
      ['stopped', 'Stopped', 'deadline: over 8 h'],
      ['interrupted', 'Interrupted', null],
    ]);
    expect(past[0]).toMatchObject({ rows: '480 of 1,000', duration: '25 s', cost: '0.0198' });
  });

  it('is also what it missed, and how many answers are invalid', () => {
    const missed = 'below_require: 90.2 % of 460 answers are valid';
    const run = seen(runBeat({ state: 'finished' }, { answers_invalid: 45, answers_refused: 5, missed }));
    expect(stateWith(run).past[0]).toMatchObject({
      state: 'failures',
      stateText: 'Finished, below what is asked',
      note: missed,
      sharesText: '460 completed, 5 filtered, 3 failed, 12 skipped, answers.invalid 45, answers.refused 5',
    });
  });

  it('is rejected where it took the place of no good output', () => {
    const missed = 'below_require: 10.0 % of 460 answers are valid';
    const run = seen(runBeat({ state: 'finished' }, { missed, rejected: { good_output: 'out/a.csv' } }));
    expect(stateWith(run).past[0]?.stateText).toBe('Rejected, below what is asked');
  });

  it.each([
    ['invalid', 'answers_invalid'],
    ['refused', 'answers_refused'],
  ])('is coloured by its answers: red where all are %s, yellow where some are', (name, counted) => {
    const rows = { total: 300, completed: 300, filtered: 0, failed: 0, skipped: 0 };
    const past = (invalid: number) =>
      stateWith(seen(runBeat({ state: 'finished' }, { rows, [counted]: invalid }))).past[0];
    expect(past(0)).toMatchObject({ state: 'finished', stateText: 'Finished' });
    expect(past(7)).toMatchObject({ state: 'invalid', stateText: 'Finished, 7 invalid' });
    expect(past(300)).toMatchObject({ state: 'failures', stateText: 'Finished, 300 invalid' });
    expect(past(300)?.shares.filter(({ fraction }) => fraction > 0)).toEqual([
      { name, count: '300', percent: '100.0 %', fraction: 1 },
    ]);
    expect(past(7)?.shares[0]).toMatchObject({ name: 'answered', count: '293' });
  });

  it('is how many answers are invalid while it goes on, where any are', () => {
    const figures = (invalid: number, refused: number) =>
      stateWith(seen(runBeat({}, { answers_invalid: invalid, answers_refused: refused }))).running[0]
        ?.figures;
    expect(figures(3, 4)).toEqual([...(figures(0, 0) ?? []), ['Invalid answers', '7']]);
  });
});

describe('what the page shows of a worker', () => {
  it('is what it may do, does, and waits for', () => {
    const [queue] = workerBeat().queues;
    const queues =
      queue === undefined ? [] : [queue, { ...queue, queue: 'another', waiting: 'for the quota' }];
    const beat = workerBeat({ queues, draining: true });
    const workers = readWorkers([{ name: beat.id, text: JSON.stringify(beat), ageMs: 0 }]);
    expect(frontPageOf(view([], { workers }), '1.2.3', NOW).workers).toEqual([
      {
        id: 'night1-4711-9f3a',
        name: 'night1, 4711',
        deployments: 'lm-35-turbo-instruct',
        concurrency: '16 of 50',
        inFlight: '12',
        speed: '19 rows/s',
        calls: '200: 470, 429: 7, timeout: 3',
        note: 'Draining: takes no more rows; for the quota',
      },
    ]);
  });
});

it('a store that is silent is told of', () => {
  const text = (change: Partial<View>) => frontPageOf(view([], change), '1.2.3', NOW).store;
  expect(text({})).toEqual({ ready: true, text: 'Live' });
  expect(text({ ready: false, silentMs: 20_000 })).toEqual({
    ready: false,
    text: 'The store has not answered for 20 s',
  });
  expect(text({ ready: false, silentMs: null }).text).toBe('The store does not answer');
});

describe('the throughput of the last minutes', () => {
  const samplesOf = (known: (second: number) => number, count: number): RateWindow =>
    Array.from({ length: count }, (_, i) => ({ at: i * 1000, done: known(i) })).reduce<RateWindow>(
      (window, sample) => sampled(window, sample, 300_000),
      [],
    );

  it('is bounded, however long it is watched and however often', () => {
    expect(samplesOf((second) => second, 3600).length).toBeLessThanOrEqual(63);
  });

  it('is rows a second', () => {
    const all = ratesOf(samplesOf((second) => 40 * second, 600));
    expect(all.length).toBeGreaterThan(50);
    expect(new Set(all)).toEqual(new Set([40]));
  });

  it('is 0 where a store lost what was known, and never less', () => {
    expect(Math.min(...ratesOf(samplesOf((second) => (second < 30 ? 1000 : 10), 60)))).toBe(0);
  });
});
