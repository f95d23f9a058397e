import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { emptyTally } from '../../src/account/tally.js';
import { mergeReview } from '../../src/amend/merge-review.js';
import { NO_CALLS } from '../../src/core/counters.js';
import { completed } from '../output/records.js';
import { commitTo, finish, openCommitter, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.js';
import { describeOn } from '../support/stores.js';
import { leaveSummary } from '../support/written.js';

const ROWS = 1_000;
/** In KiB: a quarter of what the records of a thousand rows take. */
const SMALL = 64;
const ENOUGH = 1_024;
/** Calls that are answered before the first commit. */
const FIRST = 50;

describeWithSmallDisk('a disk that is full', () => {
  let work: Workplace;
  let service: ScriptedService;
  let disk: SmallDisk;
  let onCall: () => Promise<void> = async () => {};
  beforeEach(async () => {
    work = new Workplace();
    onCall = async () => {};
    service = await startScriptedService(async () => {
      await onCall();
      return {};
    });
    disk = mountSmallDisk(SMALL);
    symlinkSync(disk.path, work.path('disk'));
  });
  afterEach(async () => {
    await service.close();
    disk.remove();
    work.remove();
  });

  describeOn('embedded', 'a disk that fills up while a run writes to it', (store) => {
    it('fault 49: stops the run; once there is space the same command completes it and calls no row again', async () => {
      const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
      const job = work.job({
        input: { path: work.rows(ROWS) },
        output: { path: 'disk/out.csv' },
        limits: { concurrency: 8, chunk_size: 10 },
      });

      // The first commit has room, however many rows a fast run would have for it.
      const written = async (): Promise<void> => {
        const isWritten = () => Number(work.json('disk/out.csv.run.json')['rows']) > 0;
        await expect.poll(isWritten).toBe(true);
      };
      let firstCommit: Promise<void> | null = null;
      onCall = async () => {
        if (service.requests.length <= FIRST) return;
        firstCommit ??= written();
        await firstCommit;
      };
      const stopped = await work.call(['run', job], env);

      expect(stopped.code, stopped.stderr).toBe(3);
      const said = stopped.stderr.replaceAll(/\s+/g, ' ');
      expect(said).toMatch(
        /cannot write disk\/out\.csv\.(part|run\.json): no space left on device \(ENOSPC\)\. Free some space/,
      );
      expect(said).toContain('Resume with: promptmill run job.yaml');
      const { rows } = work.json('disk/out.csv.run.json');
      expect(rows).toBeGreaterThan(0);
      expect(rows).toBeLessThan(ROWS);

      disk.grow(ENOUGH);
      const finished = await work.call(['run', job], env);

      expect(finished.code, finished.stderr).toBe(0);
      const ids = Array.from({ length: ROWS }, (_, i) => String(i + 1));
      expect(work.records('disk/out.csv').map((record) => record['id'])).toEqual(ids);
      expect(ids.filter((id) => service.calls(`row ${id}`) !== 1)).toEqual([]);
      expect(work.json('disk/out.summary.json')).toMatchObject({
        rows: { total: ROWS, completed: ROWS },
        calls: { sent: ROWS, retried: 0, repeated: 0 },
        usage: { total_tokens: 12 * ROWS },
      });
    });
  });

  it('fault 49: has no room for the header: nothing is sent, and later the same command runs', async () => {
    const env = { PROMPTMILL_BASE_URL: service.url };
    const job = work.job({ input: { path: work.rows(3) }, output: { path: 'disk/out.csv' } });
    disk.fill();

    const refused = await work.call(['run', job], env);

    expect(refused.code, refused.stderr).toBe(2);
    expect(refused.stderr).toMatch(/cannot write disk\/out\.csv: ENOSPC: no space left .*\nFree some space/);
    expect(service.requests.length).toBe(0);
    disk.free();
    const finished = await work.call(['run', job], env);
    expect(finished.code, finished.stderr).toBe(0);
    expect(service.requests.length).toBe(3);
  });

  describe('for the committer of a run', () => {
    const path = () => join(disk.path, 'out.csv');
    const outcomes = Array.from({ length: 4 }, () => ({ note: 'note', outcome: completed }));

    it('fault 49: has no room for the first manifest, and none is left half written', async () => {
      const settings = settingsFor(path());
      const rows = await rowsOf(settings, outcomes);
      disk.fill(1);
      await expect(openCommitter(settings, rows)).rejects.toMatchObject({
        exit: 2,
        message: `cannot write ${path()}.run.json: no space left on device (ENOSPC).`,
      });
      disk.free();
      expect(readdirSync(disk.path)).toEqual(['out.csv.part']);
      const { committer } = await openCommitter(settings, rows);
      await commitTo(committer, rows, 4);
      await finish(committer, summaryOf(committer, path()));
      expect(readFileSync(path(), 'utf8')).toBe(rows.text);
    });

    it('fault 49: has no room for a merge of answers, and the output stands as it is until there is', async () => {
      const settings = settingsFor(path(), { answer: { labels: ['yes', 'no'] } });
      const said = { ...completed, completion: { ...completed.completion, text: 'yes' } };
      const { text } = await rowsOf(settings, [{ note: 'note', outcome: said }]);
      const review = join(disk.path, 'review.csv');
      writeFileSync(path(), text);
      const tally = emptyTally();
      const manifest = {
        run: 'r',
        job: 'j',
        rows: 1,
        started_at: '2026-11-21T02:00:00.000Z',
        tally,
        calls: NO_CALLS,
      };
      leaveSummary(path(), summaryOf({ manifest }, path()));
      writeFileSync(review, 'row,answer\n1,no\n');
      const merge = () => mergeReview(path(), review, settings, () => {});
      disk.fill();
      await expect(merge()).rejects.toMatchObject({ path: path(), full: true });
      expect(readFileSync(path(), 'utf8')).toBe(text);
      disk.free();
      expect(readdirSync(disk.path).sort()).toEqual(['out.csv', 'out.summary.json', 'review.csv']);
      expect(await merge()).toEqual({ merged: 1, already: 0, empty: 0 });
    });

    it('fault 49: has no room for a later manifest, and the one before stands', async () => {
      const settings = settingsFor(path());
      const rows = await rowsOf(settings, outcomes);
      const { committer } = await openCommitter(settings, rows);
      await commitTo(committer, rows, 1);
      disk.fill();
      await expect(commitTo(committer, rows, 2)).rejects.toMatchObject({
        exit: 3,
        message: `cannot write ${path()}.run.json: no space left on device (ENOSPC).`,
      });
      await committer.pause();
      disk.free();
      const { committer: resumed } = await openCommitter(settings, rows);
      expect(resumed.manifest.rows).toBe(1);
      await commitTo(resumed, rows, 4);
      await finish(resumed, summaryOf(resumed, path()));
      expect(readFileSync(path(), 'utf8')).toBe(rows.text);
    });

    it('fault 49: has no room for the summary, and the output gets its name when there is', async () => {
      const settings = settingsFor(path());
      const rows = await rowsOf(settings, outcomes);
      const { committer } = await openCommitter(settings, rows);
      await commitTo(committer, rows, 4);
      disk.fill();
      await expect(finish(committer, summaryOf(committer, path()))).rejects.toMatchObject({
        exit: 3,
        message: `cannot write ${join(disk.path, 'out.summary.json')}: no space left on device (ENOSPC).`,
      });
      disk.free();
      expect(readdirSync(disk.path).sort()).toEqual(['out.csv.part', 'out.csv.run.json']);
      const { committer: resumed } = await openCommitter(settings, rows);
      expect(resumed.manifest.rows).toBe(4);
      await finish(resumed, summaryOf(resumed, path()));
      expect(readFileSync(path(), 'utf8')).toBe(rows.text);
      expect(readdirSync(disk.path).sort()).toEqual(['out.csv', 'out.summary.json']);
    });
  });
});
