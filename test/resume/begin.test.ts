import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readEnvironment } from '../../src/config/environment.js';
import { jobSchema } from '../../src/config/job-schema.js';
import { type RunFlags, settle } from '../../src/config/settings.js';
import { findTarget } from '../../src/resume/output-target.js';
import { beginManifest } from '../../src/resume/resume.js';

const NOW = new Date(2026, 10, 21, 2, 0);

describe('where a run begins', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-begin-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function settings(path: string, flags: RunFlags = {}, name = 'nightly') {
    const job = jobSchema.parse({
      service: { deployment: 'd' },
      input: { path: 'in.csv' },
      output: { path: join(folder, path) },
    });
    return settle({ ...job, name }, readEnvironment({}, join(folder, 'no-file')), flags);
  }

  /** Leaves an unfinished run of a job behind. */
  function leave(output: string, job = 'nightly'): string {
    const path = join(folder, output);
    mkdirSync(dirname(path), { recursive: true });
    const manifest = beginManifest(null, settings(output, {}, job), {}, NOW);
    writeFileSync(`${path}.part`, '');
    writeFileSync(`${path}.run.json`, JSON.stringify(manifest));
    return manifest.run;
  }

  it('fills the date and the run into the name of the output', async () => {
    const target = await findTarget(settings('{{date}}/out-{{ run }}.csv'), NOW);
    expect(target?.files.output).toBe(join(folder, '2026-11-21', `out-${target?.run}.csv`));
    expect(target?.unfinished).toBeNull();
  });

  it('continues a run that began before midnight, in a file or a folder with the date in its name', async () => {
    const file = leave('out-2026-11-20.csv');
    expect((await findTarget(settings('out-{{date}}.csv'), NOW))?.unfinished?.run).toBe(file);
    const inFolder = leave('2026-11-20/r.csv');
    const target = await findTarget(settings('{{date}}/r.csv'), NOW);
    expect(target?.unfinished?.run).toBe(inFolder);
    expect(target?.files.output).toBe(join(folder, '2026-11-20/r.csv'));
  });

  it.each([
    ['this job has finished already', { output: 'out.csv', job: 'nightly' }],
    ['it is the output of the job weekly', { output: 'elsewhere/out.csv', job: 'weekly' }],
    ['it is the output of the job \uFFFD[2Jweekly', { output: 'out.csv', job: '\u001B[2Jweekly' }],
    ["it may be anybody's, because no summary of a run is beside it", null],
  ])('refuses an output that is there, and says whose it is: %s', async (whose, summary) => {
    writeFileSync(join(folder, 'out.csv'), 'id\n');
    if (summary !== null) writeFileSync(join(folder, 'out.summary.json'), JSON.stringify(summary));
    await expect(findTarget(settings('out.csv'), NOW)).rejects.toMatchObject({
      code: 'output_exists',
      message: `${join(folder, 'out.csv')} exists: ${whose}`,
    });
  });

  it('leaves alone what only looks like its own: another name, another job', async () => {
    leave('out-de-2.csv');
    leave('out-2026-11-19.csv', 'another-job');
    const target = await findTarget(settings('out-{{date}}.csv', { restart: true }), NOW);
    expect(target).toMatchObject({ unfinished: null, discarded: null });
    expect(target?.files.output).toBe(join(folder, 'out-2026-11-21.csv'));
  });

  it('with --restart gives up an unfinished run, also one whose manifest is damaged', async () => {
    const run = leave('out.csv');
    expect((await findTarget(settings('out.csv', { restart: true }), NOW))?.discarded?.run).toBe(run);
    writeFileSync(join(folder, 'out.csv.run.json'), '{"v": 1');
    await expect(findTarget(settings('out.csv'), NOW)).rejects.toThrow(
      'is not as a run wrote it, so the run cannot be continued',
    );
    expect(await findTarget(settings('out.csv', { restart: true }), NOW)).toMatchObject({ discarded: null });
    writeFileSync(join(folder, 'out.csv.run.json'), '{"v": 2}');
    await expect(findTarget(settings('out.csv'), NOW)).rejects.toThrow('by another version of Promptmill');
    expect(await findTarget(settings('out.csv', { restart: true }), NOW)).toMatchObject({ discarded: null });
  });
});
