import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readSummary } from '../../src/account/read-summary.js';
import { emptyTally, fold } from '../../src/account/tally.js';
import { chooseRows } from '../../src/amend/chosen-rows.js';
import { initialTally } from '../../src/amend/new-tally.js';
import { readSelection } from '../../src/amend/selection.js';
import { NO_CALLS } from '../../src/core/counters.js';
import { sha256Of } from '../../src/output/plain-file.js';
import { findTarget } from '../../src/resume/output-target.js';
import { completed, failed } from '../output/records.js';
import { commitTo, openCommitter, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { leaveSummary } from '../support/written.js';

describe('a retry whose part file was cut', () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-cut-retry-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('fault 50: counts the rows that are left once, and what was paid for them', async () => {
    const output = join(folder, 'out.csv');
    const settings = settingsFor(output, {}, { retry: '--status failed' });
    const first = await rowsOf(
      settings,
      [completed, failed, failed].map((outcome) => ({ note: 'n', outcome })),
    );
    writeFileSync(output, first.text);
    const tally = fold(emptyTally(), first.records);
    const started_at = '2026-11-21T02:00:00.000Z';
    const manifest = { run: 'first', job: 'nightly', rows: 3, started_at, tally, calls: NO_CALLS };
    leaveSummary(output, summaryOf({ manifest }, output));

    const { format } = first;
    const before = readSummary(join(folder, 'out.summary.json'));
    const signal = new AbortController().signal;
    const chosen = await chooseRows(settings, readSelection({}), format, signal);
    const { answer } = settings;
    const rest = await initialTally({ settings, before, chosen, format, scored: true, answer });
    expect(rest.rows).toMatchObject({ total: 1, completed: 1, failed: 0 });
    const retry = { asked: '--status failed', before, rest, tally: rest };
    const target = {
      ...(await findTarget(settings, new Date())),
      retry: { replaces: await sha256Of(output), retry },
    };
    const then = await rowsOf(
      settings,
      [completed, completed].map((outcome) => ({ note: 'n', outcome })),
    );
    const { committer } = await openCommitter(settings, then, 2, target);
    await commitTo(committer, then, 2);
    expect(committer.manifest.retry?.tally.rows.completed).toBe(3);
    await committer.pause();
    const part = readFileSync(`${output}.part`);
    writeFileSync(`${output}.part`, part.subarray(0, -1));

    const { committer: again } = await openCommitter(settings, then);
    expect(again.manifest.retry?.tally.rows.completed).toBe(2);
    await commitTo(again, then, 2);
    expect(again.manifest.retry?.tally).toMatchObject({
      rows: { total: 3, completed: 3, failed: 0 },
      errors: {},
      usage: { prompt_tokens: 15 },
    });
    await again.pause();
  });
});
