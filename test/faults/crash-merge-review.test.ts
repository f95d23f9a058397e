import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { emptyTally, fold } from '../../src/account/tally.js';
import { mergeReview } from '../../src/amend/merge-review.js';
import { NO_CALLS } from '../../src/core/counters.js';
import type { Outcome } from '../../src/core/model.js';
import { sha256Of } from '../../src/output/plain-file.js';
import { completed } from '../output/records.js';
import { rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { CrashFolder, crashWithin } from '../support/crashing-disk.js';
import { leaveSummary } from '../support/written.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

const ROWS = 30;
const ANSWERED = Array.from({ length: ROWS }, (_, i) => i + 1).filter((row) => row % 3 === 0);
const JOB = { labels: ['yes', 'no'] };

// One life takes some twenty operations.
const crash = crashWithin(24);

describe.each([
  ['out.csv', 100],
  ['out.jsonl', 40],
  ['out.csv.gz', 40],
])('a merge of answers into %s that dies at any point of its work on the disk', (name, runs) => {
  const folder = new CrashFolder();
  const output = folder.at(name);
  const summary = 'out.summary.json';
  const review = folder.at('review.csv');
  const settings = settingsFor(output, { answer: JOB });

  const saying = (text: (row: number) => string) =>
    rowsOf(
      settings,
      Array.from({ length: ROWS }, (_, i) => {
        const outcome: Outcome = {
          ...completed,
          completion: { ...completed.completion, text: text(i + 1) },
        };
        return { note: `note ${i + 1}`, outcome };
      }),
    );
  const packed = (text: string): Buffer => (name.endsWith('.gz') ? gzipSync(text) : Buffer.from(text));
  const live = () => mergeReview(output, review, settings, () => {});

  it('fault 42: leaves the old output or the new one, and ends with the same bytes and figures', async () => {
    const before = await saying(() => 'yes');
    const tally = fold(emptyTally(), before.records);
    const started_at = '2026-11-23T02:00:00.000Z';
    const manifest = { run: 'first', job: 'nightly', rows: ROWS, started_at, tally, calls: NO_CALLS };
    let told = '';
    const filled = `row,answer\n${ANSWERED.map((row) => `${row},no\n`).join('')}`;
    const begin = async (): Promise<void> => {
      await folder.begin({ [name]: packed(before.text), 'review.csv': filled });
      leaveSummary(output, summaryOf({ manifest }, output));
      told = folder.text(summary);
      folder.synced();
    };
    await begin();
    await live();
    const whole = folder.text(name);
    expect(whole.length).toBe(before.text.length - ANSWERED.length);
    let uncounted = 0;
    const property = fc.asyncProperty(fc.array(crash, { minLength: 1, maxLength: 4 }), async (crashes) => {
      await begin();
      for (const crash of crashes) {
        await folder.lives(crash, live);
        expect([before.text, whole]).toContain(folder.text(name));
        // The output has them, and the summary does not count them yet.
        if (folder.text(name) === whole && folder.text(summary).includes('"next"')) uncounted++;
      }
      await live();
      expect(folder.text(name)).toBe(whole);
      const { merged_review, details, ...rest } = JSON.parse(folder.text(summary));
      const { details: _, ...others } = JSON.parse(told);
      expect(merged_review).toMatchObject({ rows: ANSWERED.length });
      expect(details.written.sha256).toBe(await sha256Of(output));
      expect(details.next).toBeUndefined();
      expect(rest).toEqual(others);
      expect(folder.names).toEqual([name, 'out.summary.json', 'review.csv'].sort());
    });
    await folder.holds(property, { numRuns: runs });
    expect(uncounted).toBeGreaterThan(runs / 20);
  });
});
