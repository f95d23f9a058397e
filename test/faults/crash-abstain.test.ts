import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Outcome } from '../../src/core/model.js';
import { abstainStep } from '../../src/run/abstain.js';
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
import { CrashFolder, crashWithin } from '../support/crashing-disk.js';
import { sureOf } from '../support/scripted-service.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);

const JOB = { labels: ['yes', 'no'], confidence: 'logprobs', gold: 'note' };

/** The right answer, what the model says, and how sure it is of that. */
const ROWS: readonly (readonly [gold: string, text: string, confidence: number])[] = [
  ...Array.from({ length: 32 }, () => ['yes', ' yes', 0.9] as const),
  ...Array.from({ length: 5 }, () => ['no', ' yes', 0.6] as const),
  ['', ' no', 0.55],
];
const ABSTAINING = 6;

// One life takes some 70 operations.
const crash = crashWithin(90);

describe.each([
  ['out.csv', 150],
  ['out.csv.gz', 40],
])('a run to %s that dies at any point of its work on the disk, with labels to leave out', (name, runs) => {
  const folder = new CrashFolder();
  const output = folder.at(name);
  const isFinished = () => folder.isFinished(name);
  const settings = settingsFor(output, { answer: { ...JOB, abstain: { accuracy: 0.95 } } });
  /** With the threshold that will be found: what it writes is what must be there in the end. */
  const known = settingsFor(output, { answer: { ...JOB, abstain_below: 0.9 } });

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
    await finish(committer, summaryOf(committer, output), {
      format: rows.format,
      summary: () => summaryOf(committer, output),
      settings: { ...settings, report: false },
      steps: [abstainStep],
      review: { columns: rows.format.reviewed, replace: false },
      say: (line) => expect.fail(line),
    });
  }

  it('fault 42: ends with the same bytes and figures, and the final name is absent or complete', async () => {
    let redone = 0;
    const property = fc.asyncProperty(
      fc.integer({ min: 12, max: 40 }),
      fc.array(crash, { minLength: 1, maxLength: 6 }),
      async (rowsInCommit, crashes) => {
        await folder.begin();
        written = [];
        const one = async (latency: number): Promise<void> =>
          live(
            await rowsOf(settings, outcomes(latency)),
            await rowsOf(known, outcomes(latency)),
            rowsInCommit,
          );
        const { header } = await rowsOf(known, []);
        await folder.outlived(crashes, one, isFinished, () => {
          if (folder.has(`${name}.part.tmp`)) redone++;
          if (folder.has(name)) expect(folder.text(name)).toBe(header + written.join(''));
        });
        expect(folder.text(name)).toBe(header + written.join(''));
        expect(JSON.parse(folder.text('out.summary.json'))).toMatchObject({
          rows: { total: ROWS.length },
          answers: { yes: 32, '(abstained)': ABSTAINING },
          answers_abstained: ABSTAINING,
        });
        const shown = folder.text('out.review.csv').trimEnd().split('\n');
        expect(shown).toHaveLength(1 + ABSTAINING);
        expect(folder.names).toEqual([name, 'out.review.csv', 'out.summary.json']);
      },
    );
    await folder.holds(property, { numRuns: runs });
    expect(redone).toBeGreaterThan(10);
  });
});
