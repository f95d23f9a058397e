import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { completed } from '../output/records.js';
import { commitTo, finish, openCommitter, rowsOf, settingsFor, summaryOf } from '../resume/run-files.js';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.js';

describeWithSmallDisk('a disk that fills up while an output is packed', () => {
  const ROWS = 400;
  let disk: SmallDisk;
  beforeEach(() => {
    disk = mountSmallDisk(256);
  });
  afterEach(() => disk.remove());

  it('fault 49: stops the run with every row written; once there is space the same command does only that', async () => {
    const output = join(disk.path, 'out.csv.gz');
    const settings = settingsFor(output);
    // Nothing in these notes repeats, so that they hardly become smaller.
    const noteOf = (i: number): string => ((i + 1) * Math.SQRT2).toString(36);
    const outcomes = Array.from({ length: ROWS }, (_, i) => ({ note: noteOf(i), outcome: completed }));
    const rows = await rowsOf(settings, outcomes);
    const stopped = await openCommitter(settings, rows);
    await commitTo(stopped.committer, rows, ROWS);
    disk.fill();
    await expect(finish(stopped.committer, summaryOf(stopped.committer, output))).rejects.toMatchObject({
      exit: 3,
      code: 'output_not_written',
      message: expect.stringContaining(`cannot write ${output}.part.tmp: no space left on device`),
    });
    disk.free();
    expect(readdirSync(disk.path).sort()).toEqual(['out.csv.gz.part', 'out.csv.gz.run.json']);

    const { committer } = await openCommitter(settings, rows);
    expect(committer.manifest.rows).toBe(ROWS);
    await finish(committer, summaryOf(committer, output));
    expect(gunzipSync(readFileSync(output)).toString()).toBe(rows.text);
    expect(readdirSync(disk.path).sort()).toEqual(['out.csv.gz', 'out.summary.json']);
  });
});
