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
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it, vi } from 'vitest';
import type { Outcome } from '../../src/model.js';
import { sha256Of } from '../../src/output/own-file.js';
import { emptyTally, fold } from '../../src/account/tally.js';
import { mergeReview } from '../../src/score/merge-review.js';
import { NO_CALLS } from '../../src/store/counters.js';
import { completed } from '../output/records.js';
import { rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { disk } from '../support/crashing-disk.js';
import { leaveSummary } from '../support/written.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

/** A file system in memory, where there is one: a disk would take minutes for all that is synced here. */
const MEMORY = '/dev/shm';
const ROWS = 30;
const ANSWERED = Array.from({ length: ROWS }, (_, i) => i + 1).filter((row) => row % 3 === 0);
const JOB = { labels: ['yes', 'no'] };

const crash = fc.record({
  // One life takes some twenty operations.
  after: fc.nat(24),
  power: fc.boolean(),
  dice: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 8 }),
});

describe.each(['out.csv', 'out.jsonl', 'out.csv.gz'])(
  'a merge of answers into %s that dies at any point of its work on the disk',
  (name) => {
    const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'promptmill-crash-'));
    const output = join(folder, name);
    const summary = join(folder, 'out.summary.json');
    const review = join(folder, 'review.csv');
    const settings = settingsFor(output, { answer: JOB });
    const empty = (): void => {
      for (const file of readdirSync(folder)) unlinkSync(join(folder, file));
    };
    afterAll(() => {
      empty();
      rmdirSync(folder);
    });

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
    const textNow = (): string => {
      const bytes = readFileSync(output);
      return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString();
    };
    const live = () => mergeReview(output, review, settings, () => {});

    it('fault 42: leaves the old output or the new one, and ends with the same bytes and figures', {
      timeout: 120_000,
    }, async () => {
      const before = await saying(() => 'yes');
      const tally = fold(emptyTally(), before.records);
      const started_at = '2026-11-23T02:00:00.000Z';
      const manifest = { run: 'first', job: 'nightly', rows: ROWS, started_at, tally, calls: NO_CALLS };
      let told = '';
      const filled = `row,answer\n${ANSWERED.map((row) => `${row},no\n`).join('')}`;
      const begin = async (): Promise<void> => {
        empty();
        await disk.use(folder);
        writeFileSync(output, packed(before.text));
        leaveSummary(output, summaryOf({ manifest }, output));
        told = readFileSync(summary, 'utf8');
        writeFileSync(review, filled);
        for (const path of [output, summary, review, folder]) disk.synced(path);
      };
      await begin();
      await live();
      const whole = textNow();
      expect(whole.length).toBe(before.text.length - ANSWERED.length);
      let died = 0;
      let uncounted = 0;
      const property = fc.asyncProperty(fc.array(crash, { minLength: 1, maxLength: 4 }), async (crashes) => {
        await begin();
        for (const { after, power, dice } of crashes) {
          let throws = 0;
          disk.arm({ after, power, chance: () => dice[throws++ % dice.length] ?? 0 });
          const error = await live().catch((thrown: unknown) => thrown);
          if (error instanceof Error && !disk.dead) throw error;
          if (disk.dead) died++;
          await disk.reboot();
          expect([before.text, whole]).toContain(textNow());
          // The output has them, and the summary does not count them yet.
          if (textNow() === whole && readFileSync(summary, 'utf8').includes('"next"')) uncounted++;
        }
        await live();
        expect(textNow()).toBe(whole);
        const { merged_review, details, ...rest } = JSON.parse(readFileSync(summary, 'utf8'));
        const { details: _, ...others } = JSON.parse(told);
        expect(merged_review).toMatchObject({ rows: ANSWERED.length });
        expect(details.written.sha256).toBe(await sha256Of(output));
        expect(details.next).toBeUndefined();
        expect(rest).toEqual(others);
        expect(readdirSync(folder).sort()).toEqual([name, 'out.summary.json', 'review.csv'].sort());
      });
      await fc.assert(property, { seed: 42, numRuns: 100 });
      // Otherwise nothing was tried.
      expect(died).toBeGreaterThan(100);
      expect(uncounted).toBeGreaterThan(5);
    });
  },
);
