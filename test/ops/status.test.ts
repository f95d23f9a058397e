import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { thisProcess } from '../../src/core/lock.js';
import { RUN_LOST_MS, readWorkers } from '../../src/ops/heartbeat.js';
import { type Status, statusOf } from '../../src/ops/status.js';
import { statusDocument } from '../../src/ops/status-document.js';
import { renderTerminal } from '../../src/render/terminal.js';
import { runBeat, workerBeat } from './samples.js';

const shown = (status: Status): string =>
  renderTerminal(statusDocument(status, 'redis://queue'), { width: 80, color: false });
const at = <T>(beat: T, ageMs = 0) => ({ beat, ageMs });
const lost = at(runBeat({ run: 'killed' }), RUN_LOST_MS + 5_000);

describe('the status', () => {
  it('has running runs first, then lost ones, then the last few that ended', () => {
    const ended = Array.from({ length: 8 }, (_, i) =>
      at(runBeat({ run: `e${i}`, state: 'finished' }), i * 1_000),
    );
    const { runs } = statusOf([...ended.toReversed(), lost, at(runBeat())], [], null);
    expect(runs.map(({ run, state }) => `${run} ${state}`)).toEqual([
      `${runBeat().run} running`,
      'killed lost',
      ...['e0', 'e1', 'e2', 'e3', 'e4'].map((run) => `${run} finished`),
    ]);
  });

  it('has progress, rate and time left of a running run, and none of a lost one', () => {
    const { runs } = statusOf([at(runBeat()), lost], [], null);
    expect(runs[0]).toMatchObject({
      rows: { total: 100, known: 50, completed: 38, failed: 2 },
      rows_per_second: 10,
      eta_s: 5,
    });
    expect(runs[1]).toMatchObject({ rows_per_second: null, eta_s: null, seen_s: 20 });
    const [waiting] = statusOf([at(runBeat({ waiting: 'the service is down' }))], [], null).runs;
    expect(waiting).toMatchObject({ eta_s: null, waiting: 'the service is down' });
  });

  it('knows at once that a process of this machine has ended', () => {
    const here = thisProcess();
    const ended = { ...here, pid: spawnSync(process.execPath, ['--version']).pid };
    const elsewhere = { ...ended, space: 'another boot' };
    const stateOf = (mark: typeof here) => statusOf([at(runBeat(mark))], [], null).runs[0]?.state;
    expect([here, ended, elsewhere].map(stateOf)).toEqual(['running', 'lost', 'running']);
    const workers = [here, ended, elsewhere].map((mark, i) => {
      const beat = workerBeat({ ...mark, id: `worker-${i}` });
      return { name: beat.id, text: JSON.stringify(beat), ageMs: 0 };
    });
    expect(readWorkers(workers).map(({ beat }) => beat.id)).toEqual(['worker-0', 'worker-2']);
  });

  it('of one job has its runs, and the workers of their queues', () => {
    const idle = at(workerBeat({ id: 'idle', queues: [] }));
    const other = at(runBeat({ run: 'other', queue: 'elsewhere' }, 'other'));
    const found = statusOf([at(runBeat()), other], [at(workerBeat()), idle], 'reviews');
    expect(found.runs.map(({ job }) => job)).toEqual(['reviews']);
    expect(found.workers.map(({ id }) => id)).toEqual([workerBeat().id]);
    expect(statusOf([], [at(workerBeat()), idle], null).workers).toHaveLength(2);
  });
});

describe('the status as text', () => {
  it('is a line for each run and worker, and what a line has no room for below it', () => {
    const runs = [
      at(runBeat()),
      lost,
      at(runBeat({ run: 'done', state: 'finished', known: 100 })),
      at(runBeat({ run: 'first-rows', state: 'finished', known: 100, beyond: 23 })),
      at(
        runBeat({
          run: 'below',
          state: 'finished',
          known: 100,
          beyond: 23,
          summary: { ...runBeat().summary, answers_invalid: 8, missed: 'below_require: 78.9 % are valid.' },
        }),
      ),
      at(
        runBeat({
          run: 'bad',
          state: 'stopped',
          summary: { ...runBeat().summary, stopped: 'unauthorized: the service refuses every key' },
        }),
      ),
    ];
    const worker = workerBeat({ draining: true });
    expect(shown(statusOf(runs, [at(worker), at(workerBeat({ id: 'b', pid: 9, queues: [] }))], null))).toBe(
      [
        'runs',
        'job      run                                       known  rows/s  left',
        'reviews  20261121-020000-4f9c1a  █████░░░░░  50 %     50      10   5 s',
        '  2 failed',
        'reviews  killed                  █████░░░░░  50 %     50',
        '  2 failed; lost: resume with the same command (process 4711 on web1, silent for',
        '  20 s)',
        'reviews  done                    ██████████ 100 %    100',
        '  finished; 2 failed',
        'reviews  first-rows              ██████████ 100 %    100',
        '  finished; 2 failed; 23 rows left out',
        'reviews  below                   ██████████ 100 %    100',
        '  finished; 2 failed; answers.invalid 8; below_require: 78.9 % are valid; 23',
        '  rows left out',
        'reviews  bad                     █████░░░░░  50 %     50',
        '  2 failed; stopped, unauthorized: the service refuses every key',
        '',
        'workers',
        'host   pid  calls  now  most  rows/s   rows',
        'web1     9      0    0    50      62  1,234',
        '  no run needs it',
        'web1  4711     12   16    50      62  1,234',
        '  finishing its last calls',
        '',
      ].join('\n'),
    );
  });

  it('says so where nobody is', () => {
    expect(shown({ runs: [], workers: [] })).toBe('no runs at redis://queue\n\nno workers\n');
  });
});
