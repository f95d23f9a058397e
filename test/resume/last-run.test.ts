import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type StoredSummary, type SummaryParts, summarise } from '../../src/account/summary.js';
import { emptyTally } from '../../src/account/tally.js';
import { NO_CALLS } from '../../src/core/counters.js';
import { lastRunOf, recordedLastRun } from '../../src/resume/last-run.js';
import { outputFiles } from '../../src/resume/output-files.js';
import { DETAILS } from '../account/summary-parts.js';
import { settingsFor } from './run-files.js';

describe('the last run of a job', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-last-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** A finished run that has left its output, or only its summary. */
  function leave(name: string, run: string, { job = 'nightly', output = true, summary = true } = {}): string {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    if (output) writeFileSync(path, 'status\n');
    if (summary) writeFileSync(outputFiles(path).summary, JSON.stringify(summaryOf(run, job, path)));
    return path;
  }

  const summaryOf = (run: string, job: string, output: string): StoredSummary =>
    summarise(partsOf(run, job, output));

  const partsOf = (run: string, job: string, output: string): SummaryParts => ({
    ...{
      run,
      job,
      deployment: 'd',
      api_version: 'v',
      emulated: false,
      input: { path: 'in.csv', sha256: 's', rows: 0 },
    },
    ...{ output, started_at: '2026-11-21T02:00:00Z', finished_at: '2026-11-21T02:00:00Z', duration_s: 1 },
    ...{ stopped: null, missed: null, tally: emptyTally(), calls: NO_CALLS, prices: null },
    details: DETAILS,
  });

  const last = (path: string, run = 'r9'): string | null =>
    lastRunOf(settingsFor(join(folder, path)), run)?.summary.run ?? null;

  it('is that of the file which this one replaces', () => {
    leave('out.csv', 'r1');
    expect(last('out.csv')).toBe('r1');
    expect(lastRunOf(settingsFor(join(folder, 'out.csv')), 'r9')?.output).toBe(join(folder, 'out.csv'));
  });

  it('is none where nothing has finished, and for standard output', () => {
    expect(last('out.csv')).toBeNull();
    expect(last('none/{{date}}.csv')).toBeNull();
    expect(lastRunOf(settingsFor('out.csv', {}, { output: '-' }), 'r9')).toBeNull();
  });

  it('is the newest by its date, of the same day the one that is there', () => {
    for (const day of ['19', '21', '20']) leave(`nights/2026-11-${day}.csv`, `r${day}`);
    leave('nights/2026-11-22-copy.csv', 'r22');
    expect(last('nights/{{date}}.csv')).toBe('r21');
    leave('2026-11-20/20261120-020000-aaaaaa.csv', 'rA');
    leave('2026-11-21/20261121-020000-bbbbbb.csv', 'rB');
    expect(last('{{ date }}/{{ run }}.csv')).toBe('rB');
  });

  it('is not the run itself', () => {
    leave('2026-11-20.csv', 'r1');
    leave('2026-11-21.csv', 'r9');
    expect(last('{{date}}.csv')).toBe('r1');
  });

  it('is not one of another job, one that has lost its output or its summary, nor one of another file', () => {
    leave('2026-11-18.csv', 'r1');
    leave('2026-11-19.csv', 'r2', { job: 'other' });
    leave('2026-11-20.csv', 'r3', { output: false });
    leave('2026-11-21.csv', 'r4', { summary: false });
    writeFileSync(
      outputFiles(leave('2026-11-22.csv', 'r5')).summary,
      JSON.stringify(summaryOf('r5', 'nightly', '2026-11-22.jsonl')),
    );
    writeFileSync(outputFiles(leave('2026-11-23.csv', 'r6')).summary, '{"run":"r6"}');
    expect(last('{{date}}.csv')).toBe('r1');
  });

  it('is told by the summary of the run itself, where an execution was killed behind it', () => {
    const path = leave('out.csv', 'r2');
    const { summary } = outputFiles(path);
    const last = lastRunOf(settingsFor(path), 'r9');
    const told = summarise({ ...partsOf('r3', 'nightly', path), lastRun: last });
    writeFileSync(summary, JSON.stringify(told));
    expect(lastRunOf(settingsFor(path), 'r3')).toBeNull();
    expect(recordedLastRun(summary, 'r3')).toMatchObject({ run: 'r2' });
    expect(recordedLastRun(summary, 'r4')).toBeUndefined();
  });

  it('is not one over the first rows, also where its manifest is replaced', () => {
    const path = leave('out.csv', 'r2');
    writeFileSync(
      outputFiles(path).summary,
      JSON.stringify({ ...summaryOf('r2', 'nightly', path), beyond: 5 }),
    );
    expect(last('out.csv')).toBeNull();
  });

  it('is not one over the first rows, or one that writes there now; the manifest of this one is no hindrance', () => {
    leave('2026-11-20.csv', 'r1');
    const { manifest } = outputFiles(leave('2026-11-21.csv', 'r2'));
    writeFileSync(manifest, '{"run":"r2"}');
    expect(last('{{date}}.csv')).toBe('r1');
    writeFileSync(manifest, '{"run":"r9"}');
    expect(last('{{date}}.csv')).toBe('r2');
    writeFileSync(manifest, '{"run":"r9","since":{}}');
    expect(last('{{date}}.csv'), 'the first rows of this one').toBe('r1');
  });
});
