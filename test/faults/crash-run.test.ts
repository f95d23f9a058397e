import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { completed } from '../output/records.js';
import {
  commitTo,
  finish,
  openCommitter,
  type Rows,
  rowsOf,
  settingsFor,
  summaryOf,
} from '../resume/run-files.js';
import { CrashFolder, crashWithin, disk } from '../support/crashing-disk.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

const notes = fc.array(fc.string({ unit: fc.constantFrom('a', '"', '\n', 'ü', '🙂', ',') }), {
  minLength: 1,
  maxLength: 8,
});
// One life with a commit takes some 30 operations.
const crash = crashWithin(60);

describe.each([
  ['out.csv', 400, 120],
  ['out.csv.gz', 60, 60],
])('a run to %s that dies at any point of its work on the disk', (name, runs, limitedRuns) => {
  const folder = new CrashFolder();
  const output = folder.at(name);
  const settings = settingsFor(output);
  const isFinished = () => folder.isFinished(name);

  /** What the ledger was told to forget; it must be on disk whatever comes. */
  let forgotten = 0;
  /** The record of each row as the last process wrote it that came so far. */
  let written: string[] = [];

  /** One process: continues the run and commits some rows at a time. */
  async function live(rows: Rows, rowsInCommit: number, limit?: number): Promise<void> {
    const total = Math.min(limit ?? rows.records.length, rows.records.length);
    const flags = limit === undefined ? settings : settingsFor(output, {}, { limit });
    const { target, committer } = await openCommitter(flags, rows, total);
    expect(target.warning).toBeNull();
    expect(committer.manifest.rows).toBeGreaterThanOrEqual(forgotten);
    while (committer.manifest.rows < total) {
      const done = committer.manifest.rows;
      const last = Math.min(total, done + rowsInCommit);
      const next = rows.records.slice(done, last).map(({ text }) => text);
      written.splice(done, next.length, ...next);
      await commitTo(committer, rows, last);
      // A folder that cannot be synced is no error, so a process that died there has to be stopped here.
      await disk.step(async () => {
        forgotten = committer.manifest.rows;
      });
    }
    const beyond = rows.records.length - total;
    await finish(committer, { ...summaryOf(committer, output), ...(beyond > 0 && { beyond }) });
  }

  it('fault 42: by kill -9 or without power, ends with the same bytes, and the final name is absent or complete', async () => {
    const property = fc.asyncProperty(
      notes,
      fc.integer({ min: 1, max: 4 }),
      fc.array(crash, { maxLength: 6 }),
      async (texts, rowsInCommit, crashes) => {
        await folder.begin();
        forgotten = 0;
        written = [];
        const rowsWith = (latency_ms: number): Promise<Rows> =>
          rowsOf(
            settings,
            texts.map((note) => ({ note, outcome: { ...completed, latency_ms } })),
          );
        const { header } = await rowsWith(0);
        const one = async (latency: number) => live(await rowsWith(latency), rowsInCommit);
        await folder.outlived(crashes, one, isFinished, () => {
          if (folder.has(name)) expect(folder.text(name)).toBe(header + written.join(''));
        });
        expect(folder.text(name)).toBe(header + written.join(''));
        expect(JSON.parse(folder.text('out.summary.json'))).toMatchObject({
          rows: { total: texts.length },
          usage: { total_tokens: 8 * texts.length },
        });
        expect(folder.names).toEqual([name, 'out.summary.json']);
      },
    );
    await folder.holds(property, { numRuns: runs });
  });

  it('fault 42: over its first rows, and later over all of them, has either the first or all under the final name', async () => {
    let wentOn = 0;
    const property = fc.asyncProperty(
      fc.tuple(notes, notes),
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.tuple(crash, fc.boolean()), { maxLength: 8 }),
      async ([first, others], rowsInCommit, crashes) => {
        await folder.begin();
        forgotten = 0;
        written = [];
        const texts = [...first, ...others];
        const rowsWith = (latency_ms: number): Promise<Rows> =>
          rowsOf(
            settings,
            texts.map((note) => ({ note, outcome: { ...completed, latency_ms } })),
          );
        const { header } = await rowsWith(0);
        let beginning = '';
        for (const [crash, goesOn] of crashes) {
          const rows = await rowsWith(crash.latency);
          // More than the first are written, or they are under the final name: nothing is left to do under the limit.
          const limit = goesOn || beginning !== '' || forgotten > first.length ? undefined : first.length;
          let isRefused = false;
          await folder.lives(crash, () =>
            live(rows, rowsInCommit, limit).catch((error: unknown) => {
              isRefused = `${error}`.includes('more than --limit');
              if (!isRefused) throw error;
            }),
          );
          if (isRefused) continue;
          const found = folder.has(name) ? folder.text(name) : '';
          if (found !== '' && beginning === '') {
            const upTo = header + written.slice(0, first.length).join('');
            if (found === upTo) beginning = found;
          }
          if (found !== '') expect([beginning, header + written.join('')]).toContain(found);
          if (hasAllRows()) break;
        }
        if (!hasAllRows()) {
          if (beginning !== '') wentOn++;
          await live(await rowsWith(20), rowsInCommit);
        }
        expect(folder.text(name)).toBe(header + written.join(''));
        expect(JSON.parse(folder.text('out.summary.json'))).toMatchObject({
          rows: { total: texts.length },
          usage: { total_tokens: 8 * texts.length },
        });
        expect(folder.names).toEqual([name, 'out.summary.json']);
      },
    );
    await folder.holds(property, { seed: 7, numRuns: limitedRuns });
    expect(wentOn).toBeGreaterThan(limitedRuns / 12);
  });

  const hasAllRows = (): boolean =>
    isFinished() && JSON.parse(folder.text('out.summary.json')).beyond === undefined;
});
