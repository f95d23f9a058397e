import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
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

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

// One life takes some 40 operations.
const crash = crashWithin(60);

describe.each(['out.jsonl', 'out.jsonl.gz'])(
  'a run to %s with output.format: batch that dies at any point',
  (name) => {
    const folder = new CrashFolder();
    const settings = settingsFor(folder.at(name), {
      report: false,
      output: { path: folder.at(name), format: 'batch' },
    });
    const isFinished = () => folder.isFinished(name);

    async function live(rows: Rows): Promise<void> {
      const { committer } = await openCommitter(settings, rows);
      await commitAll(committer, rows, 3);
      await finish(committer, summaryOf(committer, folder.at(name)), { settings });
    }

    it('fault 42: ends with the errors of its own rows, never with those of an output before', async () => {
      const property = fc.asyncProperty(
        fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        fc.array(crash, { maxLength: 6 }),
        async (fails, isOld, crashes) => {
          const outcomes = fails.map((isFailed, i) => ({
            note: `${i}`,
            outcome: isFailed ? failed : completed,
          }));
          const rows = await rowsOf(settings, outcomes);
          const old = (await rowsOf(settings, [{ note: 'old', outcome: failed }])).text;
          await folder.begin(isOld ? { 'out.errors.jsonl': old } : {});
          const errors = rows.records
            .filter((_, i) => fails[i])
            .map(({ text }) => text)
            .join('');
          await folder.outlived(
            crashes,
            () => live(rows),
            isFinished,
            () => {
              if (folder.has('out.errors.jsonl'))
                expect([errors, old]).toContain(folder.text('out.errors.jsonl'));
            },
          );
          expect(folder.text(name)).toBe(rows.text);
          expect(folder.has('out.errors.jsonl') ? folder.text('out.errors.jsonl') : '').toBe(errors);
          expect(folder.names).toEqual([
            ...(errors === '' ? [] : ['out.errors.jsonl']),
            name,
            'out.summary.json',
          ]);
        },
      );
      await folder.holds(property, { numRuns: 80 });
    });
  },
);
