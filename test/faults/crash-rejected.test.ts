import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { completed } from '../output/records.js';
import { commitAll, finish, openCommitter, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { CrashFolder, crashWithin } from '../support/crashing-disk.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

const ROWS = 12;
const WHY = { code: 'below_require', message: 'none is valid' };

const crash = crashWithin(70);

describe.each([
  ['csv', 150],
  ['csv.gz', 40],
])(
  'a scheduled run to out.%s that is rejected and dies at any point of its work on the disk',
  (ending, runs) => {
    const folder = new CrashFolder();
    const output = folder.at(`out.${ending}`);
    const rejected = `out.rejected.${ending}`;
    const settings = settingsFor(output, {}, { overwrite: true, scheduled: true });
    const good: Record<string, string> = {
      [`out.${ending}`]: 'the good one',
      'out.summary.json': JSON.stringify({ output: `out.${ending}`, job: settings.job }),
    };
    const isFinished = (): boolean => folder.has(rejected) && !folder.has(`out.${ending}.run.json`);

    it('faults 42 and 105: leaves the good output alone, and the rejected name is absent or complete', async () => {
      const rows = await rowsOf(
        settings,
        Array.from({ length: ROWS }, (_, i) => ({ note: `note ${i}`, outcome: completed })),
      );
      const live = async (rowsInCommit: number): Promise<void> => {
        const { committer } = await openCommitter(settings, rows);
        await commitAll(committer, rows, rowsInCommit);
        await committer.note({ require: WHY });
        await finish(committer, summaryOf(committer, committer.files?.output ?? ''));
      };
      const property = fc.asyncProperty(
        fc.integer({ min: 4, max: 12 }),
        fc.array(crash, { minLength: 1, maxLength: 6 }),
        async (rowsInCommit, crashes) => {
          await folder.begin(good);
          await folder.outlived(
            crashes,
            () => live(rowsInCommit),
            isFinished,
            () => {
              for (const [name, text] of Object.entries(good))
                expect(readFileSync(folder.at(name), 'utf8')).toBe(text);
              if (folder.has(rejected)) expect(folder.text(rejected)).toBe(rows.text);
            },
          );
          expect(folder.text(rejected)).toBe(rows.text);
          expect(folder.names).toEqual([...Object.keys(good), rejected, 'out.rejected.summary.json'].sort());
        },
      );
      await folder.holds(property, { seed: 105, numRuns: runs });
    });
  },
);
