import { writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { readSummary } from '../../src/account/read-summary.js';
import type { StoredSummary } from '../../src/account/summary.js';
import { emptyTally, fold } from '../../src/account/tally.js';
import { summaryWith } from '../../src/amend/amended-summary.js';
import { chooseRows } from '../../src/amend/chosen-rows.js';
import { initialTally } from '../../src/amend/new-tally.js';
import { readSelection } from '../../src/amend/selection.js';
import { NO_CALLS } from '../../src/core/counters.js';
import type { Outcome } from '../../src/core/model.js';
import { outputBytes } from '../../src/output/output-bytes.js';
import { sha256Of } from '../../src/output/plain-file.js';
import { merged } from '../../src/output/rewrite.js';
import { findTarget } from '../../src/resume/output-target.js';
import { WholeOutput } from '../../src/resume/whole-output.js';
import { completed, failed } from '../output/records.js';
import {
  commitAll,
  finish,
  openCommitter,
  type Rows,
  rowsOf,
  settingsFor,
  summaryOf,
} from '../resume/run-files.js';
import { CrashFolder, crashWithin } from '../support/crashing-disk.js';
import { leaveSummary } from '../support/written.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

const ROWS = 30;
const fails = (row: number): boolean => row % 3 === 0;
const ALIVE = new AbortController().signal;
const NOW = new Date(2026, 10, 23, 2, 0);

// One life takes some 60 operations.
const crash = crashWithin(80);

describe('a retry that dies at any point of its work on the disk', () => {
  const folder = new CrashFolder();
  const output = folder.at('out.csv');
  const settings = settingsFor(output, {}, { retry: '--status failed' });

  const outcomesOf = (outcome: (row: number) => Outcome) =>
    Array.from({ length: ROWS }, (_, i) => ({ note: `note ${i + 1}`, outcome: outcome(i + 1) }));

  /** One process: begins or continues the retry, commits some rows at a time, and puts them in their places. */
  async function live(rows: Rows, rowsInCommit: number): Promise<void> {
    const found = await findTarget(settings, NOW);
    const before = found.unfinished?.retry?.before ?? readSummary(found.files.summary);
    const { format } = rows;
    const chosen = found.renamed ? null : await chooseRows(settings, readSelection({}), format, ALIVE);
    const rest = { settings, before, format, scored: true, answer: settings.answer };
    const tally = chosen && (await initialTally({ ...rest, chosen }));
    const begun = tally && {
      replaces: await sha256Of(output),
      retry: { asked: '--status failed', before, rest: tally, tally },
    };
    const target = { ...found, ...(begun && { retry: begun }) };
    const { committer } = await openCommitter(settings, rows, rows.records.length, target);
    await commitAll(committer, rows, rowsInCommit);
    const whole = new WholeOutput(committer);
    const written = whole.part();
    if (written !== null && chosen !== null) {
      const { format } = settings.output;
      await whole.rewrite(merged(outputBytes(output), format, chosen.numbers, written()));
    }
    const { manifest } = committer;
    const own = {
      ...summaryOf(committer, output),
      tally: manifest.tally,
      stopped: null,
      missed: null,
      prices: null,
    };
    await finish(committer, summaryWith(own, manifest, settings, true), { whole });
  }

  /** The summary of the run whose rows are called again. */
  function summaryBefore({ records }: Rows): StoredSummary {
    const tally = fold(emptyTally(), records);
    const started_at = NOW.toISOString();
    return summaryOf(
      { manifest: { run: 'first', job: 'nightly', rows: ROWS, started_at, tally, calls: NO_CALLS } },
      output,
    );
  }

  it('fault 45: and that is to end while it looks for its rows in a long output does not read on', async () => {
    const first = await rowsOf(
      settings,
      outcomesOf(() => completed),
    );
    writeFileSync(output, first.text);
    const over = AbortSignal.abort(new Error('interrupted'));
    const chosen = chooseRows(settings, readSelection({}), first.format, over);
    await expect(chosen).rejects.toThrow('interrupted');
  });

  it('fault 42: leaves the old output or the new one, and ends with the same bytes and figures', async () => {
    const first = await rowsOf(
      settings,
      outcomesOf((row) => (fails(row) ? failed : completed)),
    );
    const then = await rowsOf(
      settings,
      outcomesOf(() => ({ ...completed, attempts: 1 })),
    );
    const mended = { ...first, records: then.records.filter((_, i) => fails(i + 1)) };
    const after = first.records.map(({ text }, i) => (fails(i + 1) ? then.records[i]?.text : text));
    const whole = first.header + after.join('');
    let redone = 0;
    const property = fc.asyncProperty(
      fc.integer({ min: 2, max: 10 }),
      fc.array(crash, { minLength: 1, maxLength: 6 }),
      async (rowsInCommit, crashes) => {
        await folder.begin({ 'out.csv': first.text });
        leaveSummary(output, summaryBefore(first));
        folder.synced();
        await folder.outlived(
          crashes,
          () => live(mended, rowsInCommit),
          () => folder.isFinished('out.csv') && folder.text('out.csv') === whole,
          () => {
            if (folder.has('out.csv.part.tmp')) redone++;
            expect([first.text, whole]).toContain(folder.text('out.csv'));
          },
        );
        expect(folder.text('out.csv')).toBe(whole);
        expect(JSON.parse(folder.text('out.summary.json'))).toMatchObject({
          run: 'first',
          rows: { total: ROWS, completed: ROWS, failed: 0 },
          errors: {},
          usage: { prompt_tokens: 5 * ROWS },
          retried: { rows: ROWS / 3 },
        });
        expect(folder.names).toEqual(['out.csv', 'out.summary.json']);
      },
    );
    await folder.holds(property, { numRuns: 150 });
    expect(redone).toBeGreaterThan(10);
  });
});
