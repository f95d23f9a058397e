import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NO_CALLS } from '../../src/core/counters.js';
import type { Outcome } from '../../src/core/model.js';
import { RESULTS } from '../../src/output/result-columns.js';
import { findTarget } from '../../src/resume/output-target.js';
import { blockedPrompt, completed, failed } from '../output/records.js';
import {
  commitTo,
  finish,
  openCommitter,
  type Rows,
  rowsOf,
  settingsFor,
  summaryOf,
} from '../resume/run-files.js';

const labels = { labels: ['good', 'bad'] };
const filters = {
  prompt: { hate: { filtered: false, severity: 'safe' } },
  completion: { violence: { filtered: true, severity: 'high' } },
};
const blockedText: Outcome = {
  ...{ status: 'filtered', attempts: 1, latency_ms: 70, filters },
  completion: { ...completed.completion, text: '=cut', finish_reason: 'content_filter' },
  error: { code: 'content_filter', message: 'The "completion" was blocked,\nand cut.' },
};
const silent: Outcome = {
  ...completed,
  completion: { ...completed.completion, text: null, usage: null },
  filters: { prompt: null, completion: null },
};
/** A file system in memory, where there is one: thousands of files are synced here, for which a disk takes minutes. */
const MEMORY = '/dev/shm';

const madeFolder = (): string => mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'promptmill-cut-'));

/** Every way in which a row can end, with cells that hold what ends cells and records. */
const OUTCOMES: { note: string; outcome: Outcome }[] = [
  { note: 'plain', outcome: { ...completed, filters } },
  { note: 'two\nlines, "quoted"', outcome: blockedText },
  { note: 'ünï\u2028cödé 🙂\r\n', outcome: silent },
  { note: '""\n""', outcome: failed },
  { note: '', outcome: { status: 'skipped' } },
  { note: '=1+1', outcome: blockedPrompt },
  { note: 'last', outcome: { ...completed, filters, latency_ms: 90 } },
];
/** Rows that were committed when the file was cut; the rest was still to come. */
const COMMITTED = OUTCOMES.length - 1;

describe('fault 50: a part file that was cut', () => {
  let folder = '';
  beforeEach(() => {
    folder = madeFolder();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Leaves an unfinished run, with half a record behind the last commit. */
  async function leave(settings: ReturnType<typeof settingsFor>, rows: Rows): Promise<Buffer> {
    const { committer } = await openCommitter(settings, rows);
    await commitTo(committer, rows, 2);
    committer.count({ ...NO_CALLS, sent: 6 });
    await commitTo(committer, rows, COMMITTED);
    await committer.pause();
    const part = `${settings.output.path}.part`;
    writeFileSync(part, '7,half a rec', { flag: 'a' });
    return readFileSync(part);
  }

  /** There are some 1,800 cuts of each format, and each takes a run to its end. Beside each other: most of that is to wait for files. */
  const QUARTERS = ['csv', 'jsonl'].flatMap((format) =>
    [0, 1, 2, 3].map((first) => [format, first] as const),
  );
  it.concurrent.for(QUARTERS)(
    'at any byte of a %s gives the same output and the same summary (each fourth, from %i)',
    // Each takes as long as all of them do.
    { timeout: 1_200_000 },
    async ([format, first], { onTestFinished }) => {
      const own = madeFolder();
      onTestFinished(() => rmSync(own, { recursive: true, force: true }));
      const path = join(own, `out.${format}`);
      const settings = settingsFor(path, { answer: labels });
      const rows = await rowsOf(settings, OUTCOMES);
      const part = await leave(settings, rows);
      const manifest = readFileSync(`${path}.run.json`);
      const committed =
        rows.header +
        rows.records
          .slice(0, COMMITTED)
          .map(({ text }) => text)
          .join('');
      const marked = Buffer.byteLength(committed);
      const ends = rows.records.map((_, i) =>
        Buffer.byteLength(
          rows.header +
            rows.records
              .slice(0, i + 1)
              .map(({ text }) => text)
              .join(''),
        ),
      );

      for (let cut = first; cut <= part.length; cut += 4) {
        writeFileSync(`${path}.part`, part.subarray(0, cut));
        writeFileSync(`${path}.run.json`, manifest);

        const { target, committer } = await openCommitter(settings, rows);

        const kept = ends.filter((end) => end <= Math.min(cut, marked)).length;
        expect(committer.manifest.rows, `cut at ${cut}`).toBe(kept);
        const damaged = cut < marked;
        expect(target.warning === null, `cut at ${cut}`).toBe(!damaged);
        // Under its own name the ledger would refuse the outcomes of rows that it has seen committed.
        expect(target.discarded === null, `cut at ${cut}`).toBe(!damaged);
        expect(committer.manifest.run !== target.discarded?.run).toBe(true);
        const lost = OUTCOMES.slice(kept, COMMITTED).filter(({ outcome }) =>
          ['completed', 'filtered'].includes(outcome.status),
        );
        expect(committer.manifest.calls, `cut at ${cut}`).toMatchObject({ sent: 6, repeated: lost.length });

        await commitTo(committer, rows, OUTCOMES.length);
        const summary = summaryOf(committer, path);
        await finish(committer, summary);

        expect(readFileSync(path, 'utf8'), `cut at ${cut}`).toBe(rows.text);
        expect(summary, `cut at ${cut}`).toMatchObject({
          rows: { total: 7, completed: 3, filtered: 2, failed: 1, skipped: 1 },
          answers: { good: 2, '(none)': 2 },
          finish_reasons: { stop: 3, content_filter: 1 },
          usage: { prompt_tokens: 15, completion_tokens: 9, total_tokens: 24 },
          errors: { content_filter: 2, answer_not_a_label: 1, ragged_record: 1 },
          filters: {
            prompt: { hate: { safe: 3, filtered: 0 } },
            completion: { violence: { high: 3, filtered: 3 } },
          },
          latency_ms: { max: 90 },
        });
        rmSync(path);
      }
    },
  );

  it.each(['csv', 'jsonl'])(
    'of a %s with gold gives the same scores, where the output has the gold',
    async (format) => {
      const answer = { ...labels, gold: 'note' };
      const notes = ['good', 'bad', '', 'Good', 'bad', 'good'];
      const ended = OUTCOMES.filter(({ outcome }) => outcome !== failed);
      /** A run that loses the last byte of its last record. */
      const cut = async (settings: ReturnType<typeof settingsFor>) => {
        const rows = await rowsOf(
          settings,
          ended.map(({ outcome }, i) => ({ outcome, note: notes[i] ?? '' })),
        );
        const { committer } = await openCommitter(settings, rows);
        await commitTo(committer, rows, ended.length);
        await committer.pause();
        const part = `${settings.output.path}.part`;
        writeFileSync(part, readFileSync(part).subarray(0, -1));
        return { rows, gold: committer.manifest.tally.gold };
      };

      const settings = settingsFor(join(folder, `out.${format}`), { answer });
      const { rows, gold } = await cut(settings);
      expect(gold).toMatchObject({ rows: 2, unanswered: 3 });
      const { committer } = await openCommitter(settings, rows);
      expect(committer.manifest.rows).toBe(ended.length - 1);
      await commitTo(committer, rows, ended.length);
      expect(committer.manifest.tally.gold).toEqual(gold);
      await committer.pause();

      const columns = ['id', 'status', 'answer', ...RESULTS.map(({ name }) => name)];
      const without = settingsFor(join(folder, `without.${format}`), { answer, output: { columns } });
      await cut(without);
      await expect(findTarget(without, new Date())).rejects.toMatchObject({ code: 'part_damaged' });
    },
  );

  it.each(['csv', 'jsonl'])(
    'of a %s with answers that were asked again gives the same counts, where the output says where they come from',
    async (format) => {
      const answer = {
        json: { type: 'object' },
        on_invalid: { repair: true, ask_again: 1, deployment: 'e' },
      };
      const said = (text: string, more: object = {}): Outcome => ({
        ...{ ...completed, ...more },
        completion: { ...completed.completion, text },
      });
      const outcomes = [
        said('{"a":1}'),
        said("{'a':1}"),
        said('{"a":1}', { answer_source: 'asked_again', asked: 2 }),
        said('so-so', { answer_source: 'escalated', asked: 3 }),
        said('{"a":1}', { answer_source: 'escalated', asked: 3 }),
        said('{"a":1'),
      ];
      /** A run that loses the last byte of its last record. */
      const cut = async (settings: ReturnType<typeof settingsFor>) => {
        const rows = await rowsOf(
          settings,
          outcomes.map((outcome) => ({ outcome, note: 'n' })),
        );
        const { committer } = await openCommitter(settings, rows);
        await commitTo(committer, rows, outcomes.length);
        await committer.pause();
        const part = `${settings.output.path}.part`;
        writeFileSync(part, readFileSync(part).subarray(0, -1));
        return rows;
      };

      const path = join(folder, `out.${format}`);
      const settings = settingsFor(path, { answer });
      const rows = await cut(settings);
      const { committer } = await openCommitter(settings, rows);
      expect(committer.manifest.rows).toBe(outcomes.length - 1);
      await commitTo(committer, rows, outcomes.length);
      const summary = summaryOf(committer, path);
      await finish(committer, summary);
      expect(readFileSync(path, 'utf8')).toBe(rows.text);
      expect([summary.answers_invalid, summary.answer_sources]).toEqual([
        2,
        { read: 1, repaired: 1, asked_again: 1, voted: 0, escalated: 1 },
      ]);

      const columns = ['id', 'status', 'answer', ...RESULTS.map(({ name }) => name)];
      const without = settingsFor(join(folder, `without.${format}`), { answer, output: { columns } });
      await cut(without);
      await expect(findTarget(without, new Date())).rejects.toMatchObject({ code: 'part_damaged' });
    },
  );

  it('counts rows that were taken over from a sample as such, and not as called again', async () => {
    const free = { attempts: 0, latency_ms: null };
    const taken: Outcome = {
      ...{ ...completed, ...free, origin: { carried_from: 'a-sample' } },
      completion: { ...completed.completion, usage: null },
    };
    const outcomes = [taken, completed, taken, taken, completed].map((outcome) => ({ outcome, note: 'n' }));
    const settings = settingsFor(join(folder, 'out.csv'));
    const rows = await rowsOf(settings, outcomes);
    const { committer } = await openCommitter(settings, rows);
    await commitTo(committer, rows, outcomes.length);
    await committer.pause();
    const part = `${settings.output.path}.part`;
    writeFileSync(part, readFileSync(part).subarray(0, -1));
    const { unfinished } = await findTarget(settings, new Date());
    expect(unfinished).toMatchObject({
      rows: 4,
      tally: { reused: { carried: 3, copied: 0 } },
      calls: { repeated: 1 },
    });
  });

  it('is refused where the output lacks the columns that the summary is made of', async () => {
    const path = join(folder, 'out.csv');
    const settings = settingsFor(path, { output: { columns: ['id', 'status', 'answer'] } });
    const rows = await rowsOf(settings, OUTCOMES);
    await leave(settings, rows);
    truncateSync(`${path}.part`, rows.header.length + Number(rows.records[0]?.text.length));
    await expect(findTarget(settings, new Date())).rejects.toMatchObject({
      code: 'part_damaged',
      exit: 2,
      hint: expect.stringContaining('--restart'),
    });
  });

  it('is refused when it is gone, but for a run that had no rows in it yet', async () => {
    const path = join(folder, 'out.csv');
    const settings = settingsFor(path);
    const rows = await rowsOf(settings, OUTCOMES);
    await leave(settings, rows);
    rmSync(`${path}.part`);
    await expect(findTarget(settings, new Date())).rejects.toThrow('out.csv.part has no bytes where');

    const other = settingsFor(join(folder, 'other.csv'));
    const { committer } = await openCommitter(other, rows);
    await committer.pause();
    rmSync(join(folder, 'other.csv.part'));
    const { target, committer: again } = await openCommitter(other, rows);
    expect([target.unfinished?.run, target.warning]).toEqual([committer.manifest.run, null]);
    await commitTo(again, rows, OUTCOMES.length);
    await finish(again, summaryOf(again, 'other.csv'));
    expect(readFileSync(join(folder, 'other.csv'), 'utf8')).toBe(rows.text);
  });
});
