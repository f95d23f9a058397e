import { describe, expect, it } from 'vitest';
import { readRuns, readWorkers } from '../../src/ops/heartbeat.js';
import { type Status, statusOf } from '../../src/ops/status.js';
import { statusDocument } from '../../src/ops/status-document.js';
import { renderTerminal } from '../../src/render/terminal.js';
import { cells } from '../../src/render/terminal-text.js';
import { oddBeats } from './odd-beats.js';
import { runBeat, workerBeat } from './samples.js';

const shown = (status: Status): string =>
  renderTerminal(statusDocument(status, 'redis://queue'), { width: 80, color: false });
const listed = (name: string, beat: unknown) => ({ name, text: JSON.stringify(beat), ageMs: 0 });

describe('a beat that is odd', () => {
  it.each(oddBeats().map(({ id, text }) => [id, text]))('%s: leaves the others as they are', (id, text) => {
    const sound = listed(runBeat().run, runBeat());
    const runs = readRuns([{ name: id, text, ageMs: 0 }, sound]);
    const workers = readWorkers([{ name: id, text, ageMs: 0 }, listed(workerBeat().id, workerBeat())]);
    expect(runs.at(-1)?.beat).toEqual(runBeat());
    expect(workers.at(-1)?.beat).toEqual(workerBeat());
    const lines = shown(statusOf(runs, workers, null)).split('\n');
    expect(lines.filter((line) => line.includes('20261121-020000-4f9c1a'))).toHaveLength(1);
    expect(lines.filter((line) => line.includes('4711     12   16    50'))).toHaveLength(1);
    for (const line of lines) expect(cells(line), line).toBeLessThanOrEqual(80);
    expect(lines.length).toBeLessThan(40);
  });

  it('is read with numbers that can be shown and texts that are cut', () => {
    const summary = { ...runBeat().summary, duration_s: -3_600, job: 'j'.repeat(1_000_000) };
    const [seen] = readRuns([
      listed('odd', runBeat({ run: 'odd', known: -5, summary: { ...summary, cost: 1e300 } })),
    ]);
    expect(seen?.beat).toMatchObject({
      known: 0,
      summary: { duration_s: 0, job: `${'j'.repeat(4_095)}…`, cost: Number.MAX_SAFE_INTEGER },
    });
  });

  it('is one of thousands: the first of them are shown, and how many more there are', () => {
    const runs = readRuns(
      Array.from({ length: 5_000 }, (_, i) => listed(`r${i}`, runBeat({ run: `r${i}` }))),
    );
    const lines = shown(statusOf(runs, [], null)).split('\n');
    expect(lines.filter((line) => line.startsWith('reviews'))).toHaveLength(200);
    expect(lines).toContain('and 4,800 more, in --json');
  });
});
