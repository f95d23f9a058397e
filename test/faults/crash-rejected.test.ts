import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { completed } from '../output/records.js';
import { commitTo, openCommitter, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { disk } from '../support/crashing-disk.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

/** A file system in memory, where there is one: a disk would take minutes for all that is synced here. */
const MEMORY = '/dev/shm';
const ROWS = 12;
const WHY = { code: 'below_require', message: 'none is valid' };

const crash = fc.record({
  after: fc.nat(70),
  power: fc.boolean(),
  dice: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 8 }),
});

describe.each([
  ['csv', 150],
  ['csv.gz', 40],
])(
  'a scheduled run to out.%s that is rejected and dies at any point of its work on the disk',
  (ending, runs) => {
    const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'promptmill-crash-'));
    const output = join(folder, `out.${ending}`);
    const rejected = join(folder, `out.rejected.${ending}`);
    const settings = settingsFor(output, {}, { overwrite: true, scheduled: true });
    const good: Record<string, string> = {
      [`out.${ending}`]: 'the good one',
      'out.summary.json': JSON.stringify({ output: `out.${ending}`, job: settings.job }),
    };
    const empty = (): void => {
      for (const name of readdirSync(folder)) unlinkSync(join(folder, name));
    };
    afterAll(() => {
      empty();
      rmdirSync(folder);
    });
    const textOf = (path: string): string => {
      const bytes = readFileSync(path);
      return (ending.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString();
    };
    const isFinished = (): boolean => existsSync(rejected) && !existsSync(`${output}.run.json`);

    it('faults 42 and 105: leaves the good output alone, and the rejected name is absent or complete', {
      timeout: 120_000,
    }, async () => {
      const rows = await rowsOf(
        settings,
        Array.from({ length: ROWS }, (_, i) => ({ note: `note ${i}`, outcome: completed })),
      );
      const live = async (rowsInCommit: number): Promise<void> => {
        const { committer } = await openCommitter(settings, rows);
        while (committer.manifest.rows < ROWS)
          await commitTo(committer, rows, Math.min(ROWS, committer.manifest.rows + rowsInCommit));
        await committer.reject(WHY);
        await committer.finish(summaryOf(committer, committer.files?.output ?? ''));
      };
      let died = 0;
      const property = fc.asyncProperty(
        fc.integer({ min: 4, max: 12 }),
        fc.array(crash, { minLength: 1, maxLength: 6 }),
        async (rowsInCommit, crashes) => {
          empty();
          await disk.use(folder);
          for (const [name, text] of Object.entries(good)) writeFileSync(join(folder, name), text);
          for (const name of Object.keys(good)) disk.synced(join(folder, name));
          disk.synced(folder);
          for (const { after, power, dice } of crashes) {
            let throws = 0;
            disk.arm({ after, power, chance: () => dice[throws++ % dice.length] ?? 0 });
            const error = await live(rowsInCommit).catch((thrown: unknown) => thrown);
            if (error !== undefined && !disk.dead) throw error;
            if (disk.dead) died++;
            await disk.reboot();
            for (const [name, text] of Object.entries(good))
              expect(readFileSync(join(folder, name), 'utf8')).toBe(text);
            if (existsSync(rejected)) expect(textOf(rejected)).toBe(rows.text);
            if (error === undefined || isFinished()) break;
          }
          if (!isFinished()) await live(ROWS);
          expect(textOf(rejected)).toBe(rows.text);
          expect(readdirSync(folder).sort()).toEqual(
            [...Object.keys(good), `out.rejected.${ending}`, 'out.rejected.summary.json'].sort(),
          );
        },
      );
      await fc.assert(property, { seed: 105, numRuns: runs });
      expect(died).toBeGreaterThan(runs);
    });
  },
);
