import { describe, expect, it } from 'vitest';
import type { SeenRun } from '../../../src/ops/heartbeat.js';
import { listed, renderSchedule } from '../../../src/ops/schedule/schedule-list.js';
import type { JobState } from '../../../src/ops/schedule/serve-state.js';
import { runBeat } from '../samples.js';

const REVIEWS = {
  name: 'reviews',
  path: '/jobs/reviews.yaml',
  cron: '0 2 * * *',
  timezone: 'Europe/Berlin',
};
const NOW = new Date('2026-11-21T12:00:00Z');

const state = (change: Partial<JobState> = {}): JobState => ({
  v: 1,
  job: 'reviews',
  path: REVIEWS.path,
  entry: 'repeat:reviews:1',
  since: '2026-11-20T01:00:00.000Z',
  running: false,
  manifest: null,
  last: { ended_at: '2026-11-20T01:00:00.000Z', run: null, state: 'not started', result: 'no job file' },
  ...change,
});

/** A run of the board that ended on the 21st at three in Berlin. */
const ended: SeenRun = { beat: runBeat({ state: 'finished' }), ageMs: 3_600_000 };

describe('the list of the schedule', () => {
  it('has the next five times on the clock of the zone, and the run that ended last, by note or by board', () => {
    const entries = listed([REVIEWS], { states: [state()], runs: [ended] }, NOW);
    expect(renderSchedule(entries, NOW).split('\n')).toEqual([
      'reviews  0 2 * * *  Europe/Berlin',
      '  file  /jobs/reviews.yaml',
      '  next  Sun 2026-11-22 02:00 CET',
      '        Mon 2026-11-23 02:00 CET',
      '        Tue 2026-11-24 02:00 CET',
      '        Wed 2026-11-25 02:00 CET',
      '        Thu 2026-11-26 02:00 CET',
      '  last  Sat 2026-11-21 03:00 CET  finished: 40 of 100 rows = 38 completed + 0 filtered + 2 failed + 0 skipped',
      '',
    ]);
    const later = { run: null, state: 'not started', result: 'no job file' } as const;
    const noted = state({ last: { ...later, ended_at: '2026-11-21T11:00:00Z' } });
    const [entry] = listed([REVIEWS], { states: [noted], runs: [ended] }, NOW);
    expect(entry?.last?.result).toBe('no job file');
  });

  it('says what the answers of the last run missed', () => {
    const { beat } = ended;
    const missed = 'below_require: 78.9 % are valid';
    const summary = { ...beat.summary, answers_invalid: 8, answers_refused: 2, missed };
    const run = { ...ended, beat: { ...beat, summary } };
    const [entry] = listed([REVIEWS], { states: [], runs: [run] }, NOW);
    expect(entry?.last?.result).toMatch(
      / \+ 0 skipped; answers\.invalid 8; answers\.refused 2; below_require: 78\.9 % are valid$/,
    );
  });

  it('says that the output of the last run was rejected', () => {
    const { beat } = ended;
    const rejected = { good_output: null };
    const run = { ...ended, beat: { ...beat, summary: { ...beat.summary, rejected } } };
    const [entry] = listed([REVIEWS], { states: [], runs: [run] }, NOW);
    expect(entry?.last?.state).toBe('rejected');
  });

  it('shows seconds where the expression has them', () => {
    const entries = listed([{ ...REVIEWS, cron: '*/20 * * * * *' }], { states: [], runs: [] }, NOW);
    expect(renderSchedule(entries, NOW)).toContain('next  Sat 2026-11-21 13:00:20 CET');
  });

  it('says since when a run goes on, and takes neither a lost one nor a rehearsal nor another job for it', () => {
    const running = (change: Parameters<typeof runBeat>[0], ageMs: number, job = 'reviews'): SeenRun => ({
      beat: runBeat(change, job),
      ageMs,
    });
    const since = (run: SeenRun) => listed([REVIEWS], { states: [], runs: [run] }, NOW)[0]?.running_since;
    expect(since(running({}, 100))).toBe('2026-11-21T02:00:00Z');
    expect(since(running({}, 60_000))).toBeNull();
    expect(since(running({ emulated: true }, 100))).toBeNull();
    expect(since(running({}, 100, 'others'))).toBeNull();
    const emulated = { ...ended, beat: { ...ended.beat, emulated: true } };
    expect(listed([REVIEWS], { states: [], runs: [emulated] }, NOW)[0]?.last).toBeNull();
  });
});
