import { existsSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it, vi } from 'vitest';
import type { Outcome } from '../../src/model.js';
import { review } from '../../src/output/review.js';
import { abstain } from '../../src/run/abstain.js';
import { completed } from '../output/records.js';
import { commitTo, openCommitter, type Rows, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { disk } from '../support/crashing-disk.js';
import { sureOf } from '../support/scripted-service.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

/** A file system in memory, where there is one: a disk would take minutes for all that is synced here. */
const MEMORY = '/dev/shm';

const JOB = { labels: ['yes', 'no'], confidence: 'logprobs', gold: 'note' };

/** The right answer, what the model says, and how sure it is of that. */
const ROWS: readonly (readonly [gold: string, text: string, confidence: number])[] = [
  ...Array.from({ length: 32 }, () => ['yes', ' yes', 0.9] as const),
  ...Array.from({ length: 5 }, () => ['no', ' yes', 0.6] as const),
  ['', ' no', 0.55],
];
const ABSTAINING = 6;

const crash = fc.record({
  // One life takes some 70 operations, so that most crashes come true.
  after: fc.nat(90),
  power: fc.boolean(),
  latency: fc.constantFrom(1, 1_000_000),
  dice: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 8 }),
});

describe.each([
  ['out.csv', 150],
  ['out.csv.gz', 40],
])('a run to %s that dies at any point of its work on the disk, with labels to leave out', (name, runs) => {
  const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'promptmill-crash-'));
  const output = join(folder, name);
  const settings = settingsFor(output, { answer: { ...JOB, abstain: { accuracy: 0.95 } } });
  /** With the threshold that will be found: what it writes is what must be there in the end. */
  const known = settingsFor(output, { answer: { ...JOB, abstain_below: 0.9 } });
  const empty = (): void => {
    for (const name of readdirSync(folder)) unlinkSync(join(folder, name));
  };
  afterAll(() => {
    empty();
    rmdirSync(folder);
  });

  const outcomes = (latency_ms: number) =>
    ROWS.map(([note, text, confidence]) => {
      const logprobs = sureOf(text, confidence);
      const outcome: Outcome = {
        ...completed,
        latency_ms,
        completion: { ...completed.completion, text, logprobs },
      };
      return { note, outcome };
    });

  /** The record of each row as it will be in the end, by the process that wrote it. */
  let written: string[] = [];
  /** One process: continues the run, commits some rows at a time, and finishes. */
  async function live(rows: Rows, inTheEnd: Rows, rowsInCommit: number): Promise<void> {
    const { committer } = await openCommitter(settings, rows);
    while (committer.manifest.rows < ROWS.length) {
      const done = committer.manifest.rows;
      const last = Math.min(ROWS.length, done + rowsInCommit);
      const next = inTheEnd.records.slice(done, last).map(({ text }) => text);
      written.splice(done, next.length, ...next);
      await commitTo(committer, rows, last);
    }
    await abstain(committer, settings, rows.format);
    const { format, formulas } = settings.output;
    await committer.finish(summaryOf(committer, output), {
      review: {
        of: (bytes) => review({ name: output, format, bytes: () => bytes }, rows.format.reviewed, formulas),
        onUnread: (reason) => expect.fail(reason),
      },
    });
  }

  it('fault 42: ends with the same bytes and figures, and the final name is absent or complete', {
    timeout: 120_000,
  }, async () => {
    let died = 0;
    let redone = 0;
    const property = fc.asyncProperty(
      fc.integer({ min: 12, max: 40 }),
      fc.array(crash, { minLength: 1, maxLength: 6 }),
      async (rowsInCommit, crashes) => {
        empty();
        await disk.use(folder);
        written = [];
        const one = async (latency: number): Promise<void> =>
          live(
            await rowsOf(settings, outcomes(latency)),
            await rowsOf(known, outcomes(latency)),
            rowsInCommit,
          );
        const { header } = await rowsOf(known, []);
        for (const { after, power, latency, dice } of crashes) {
          let throws = 0;
          disk.arm({ after, power, chance: () => dice[throws++ % dice.length] ?? 0 });
          const error = await one(latency).catch((thrown: unknown) => thrown);
          if (error !== undefined && !disk.dead) throw error;
          if (disk.dead) died++;
          await disk.reboot();
          if (existsSync(`${output}.part.tmp`)) redone++;
          if (existsSync(output)) expect(textOf(output)).toBe(header + written.join(''));
          if (error === undefined || isFinished()) break;
        }
        if (!isFinished()) await one(20);
        expect(textOf(output)).toBe(header + written.join(''));
        expect(JSON.parse(readFileSync(join(folder, 'out.summary.json'), 'utf8'))).toMatchObject({
          rows: { total: ROWS.length },
          answers: { yes: 32, '(abstained)': ABSTAINING },
          answers_abstained: ABSTAINING,
        });
        const shown = readFileSync(join(folder, 'out.review.csv'), 'utf8').trimEnd().split('\n');
        expect(shown).toHaveLength(1 + ABSTAINING);
        expect(readdirSync(folder).sort()).toEqual([name, 'out.review.csv', 'out.summary.json']);
      },
    );
    await fc.assert(property, { seed: 42, numRuns: runs });
    // Otherwise nothing was tried.
    expect(died).toBeGreaterThan(runs);
    expect(redone).toBeGreaterThan(10);
  });

  /** True when the run has nothing left to do: then a process says that the output exists. */
  const isFinished = (): boolean => existsSync(output) && !existsSync(`${output}.run.json`);
});

/** The records of an output. */
const textOf = (output: string): string => {
  const bytes = readFileSync(output);
  return (output.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString();
};
