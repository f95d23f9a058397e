import { existsSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { completed } from '../output/records.js';
import { commitTo, openCommitter, type Rows, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { disk } from '../support/crashing-disk.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

/** A file system in memory, where there is one: a disk would take minutes for all that is synced here. */
const MEMORY = '/dev/shm';

const notes = fc.array(fc.string({ unit: fc.constantFrom('a', '"', '\n', 'ü', '🙂', ',') }), {
  minLength: 1,
  maxLength: 8,
});
const crash = fc.record({
  // One life with a commit takes some 30 operations, so that most crashes come true.
  after: fc.nat(60),
  power: fc.boolean(),
  // A record that is written again can be shorter than the one that a crash left behind the mark.
  latency: fc.constantFrom(1, 1_000_000),
  dice: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 8 }),
});

describe.each([
  ['out.csv', 400, 120],
  ['out.csv.gz', 60, 60],
])(
  'a run to %s that dies at any point of its work on the disk',
  { timeout: 120_000 },
  (name, runs, limitedRuns) => {
    const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'promptmill-crash-'));
    const output = join(folder, name);
    const settings = settingsFor(output);
    const empty = (): void => {
      for (const name of readdirSync(folder)) unlinkSync(join(folder, name));
    };
    afterAll(() => {
      empty();
      rmdirSync(folder);
    });

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
      await committer.finish(summaryOf(committer, output), { more: total < rows.records.length });
    }

    it('fault 42: by kill -9 or without power, ends with the same bytes, and the final name is absent or complete', async () => {
      let died = 0;
      const property = fc.asyncProperty(
        notes,
        fc.integer({ min: 1, max: 4 }),
        fc.array(crash, { maxLength: 6 }),
        async (texts, rowsInCommit, crashes) => {
          empty();
          await disk.use(folder);
          forgotten = 0;
          written = [];
          const rowsWith = (latency_ms: number): Promise<Rows> =>
            rowsOf(
              settings,
              texts.map((note) => ({ note, outcome: { ...completed, latency_ms } })),
            );
          const { header } = await rowsWith(0);
          for (const { after, power, latency, dice } of crashes) {
            const rows = await rowsWith(latency);
            let throws = 0;
            disk.arm({ after, power, chance: () => dice[throws++ % dice.length] ?? 0 });
            const error = await live(rows, rowsInCommit).catch((thrown: unknown) => thrown);
            if (error !== undefined && !disk.dead) throw error;
            if (disk.dead) died++;
            await disk.reboot();
            if (existsSync(output)) expect(textOf(output)).toBe(header + written.join(''));
            if (error === undefined || isFinished()) break;
          }
          if (!isFinished()) await live(await rowsWith(20), rowsInCommit);
          expect(textOf(output)).toBe(header + written.join(''));
          expect(JSON.parse(readFileSync(join(folder, 'out.summary.json'), 'utf8'))).toMatchObject({
            rows: { total: texts.length },
            usage: { total_tokens: 8 * texts.length },
          });
          expect(readdirSync(folder).sort()).toEqual([name, 'out.summary.json']);
        },
      );
      await fc.assert(property, { seed: 42, numRuns: runs });
      // Otherwise nothing was tried.
      expect(died).toBeGreaterThan(runs);
    });

    it('fault 42: over its first rows, and later over all of them, has either the first or all under the final name', async () => {
      let died = 0;
      let wentOn = 0;
      const property = fc.asyncProperty(
        fc.tuple(notes, notes),
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.tuple(crash, fc.boolean()), { maxLength: 8 }),
        async ([first, others], rowsInCommit, crashes) => {
          empty();
          await disk.use(folder);
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
          for (const [{ after, power, latency, dice }, goesOn] of crashes) {
            const rows = await rowsWith(latency);
            let throws = 0;
            // More than the first are written, or they are under the final name: nothing is left to do under the limit.
            const limit = goesOn || beginning !== '' || forgotten > first.length ? undefined : first.length;
            disk.arm({ after, power, chance: () => dice[throws++ % dice.length] ?? 0 });
            const error = await live(rows, rowsInCommit, limit).catch((thrown: unknown) => thrown);
            if (disk.dead) died++;
            await disk.reboot();
            if (error !== undefined && `${error}`.includes('more than --limit')) continue;
            const found = existsSync(output) ? textOf(output) : '';
            if (found !== '' && beginning === '') {
              const upTo = header + written.slice(0, first.length).join('');
              if (found === upTo) beginning = found;
            }
            if (found !== '') expect([beginning, header + written.join('')]).toContain(found);
            if (isFinished()) break;
          }
          if (!isFinished()) {
            if (beginning !== '') wentOn++;
            await live(await rowsWith(20), rowsInCommit);
          }
          expect(textOf(output)).toBe(header + written.join(''));
          expect(JSON.parse(readFileSync(join(folder, 'out.summary.json'), 'utf8'))).toMatchObject({
            rows: { total: texts.length },
            usage: { total_tokens: 8 * texts.length },
          });
          expect(readdirSync(folder).sort()).toEqual([name, 'out.summary.json']);
        },
      );
      await fc.assert(property, { seed: 7, numRuns: limitedRuns });
      expect(died).toBeGreaterThan(limitedRuns);
      expect(wentOn).toBeGreaterThan(limitedRuns / 12);
    });

    /** True when the run has nothing left to do: then a process says that the output exists. */
    const isFinished = (): boolean => existsSync(output) && !existsSync(`${output}.run.json`);
  },
);

/** The records of an output. */
const textOf = (output: string): string => {
  const bytes = readFileSync(output);
  return (output.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString();
};
