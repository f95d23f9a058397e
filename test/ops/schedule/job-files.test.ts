import { rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { machineTimezone } from '../../../src/config/cron.js';
import { findScheduledJobs } from '../../../src/ops/schedule/job-files.js';
import { planSync } from '../../../src/ops/schedule/schedule.js';
import { Workplace } from '../../support/promptmill.js';

const SCHEDULE = { cron: '0 2 * * *', timezone: 'Europe/Berlin' };

describe('job files with a schedule', () => {
  let work: Workplace;
  beforeEach(() => {
    work = new Workplace();
  });
  afterEach(() => work.remove());

  const job = (name: string, rest: object = { schedule: SCHEDULE }): string =>
    work.path(work.job({ input: { path: 'rows.csv' }, ...rest }, name));

  it('are found in folders and one by one, and those without a schedule are left out', () => {
    const night = job('jobs/night.yaml');
    const noon = job('jobs/noon.yml', { schedule: { cron: '0 12 * * *' } });
    job('jobs/by-hand.yaml', {});
    job('jobs/deeper/other.yaml');
    work.write('jobs/notes.txt', 'no job');
    const { jobs, broken, covers } = findScheduledJobs([work.path('jobs'), night]);
    const follows = ['jobs/new.yaml', 'jobs/deeper/other.yaml', 'jobs/../other.yaml', 'jobs/notes.txt'];
    expect(follows.filter((name) => covers(`${work.folder}/${name}`))).toEqual(['jobs/new.yaml']);
    expect(broken).toEqual([]);
    expect([...jobs].sort((a, b) => a.name.localeCompare(b.name))).toEqual([
      { name: 'night', path: night, ...SCHEDULE, output: expect.any(String) },
      {
        name: 'noon',
        path: noon,
        cron: '0 12 * * *',
        timezone: machineTimezone(),
        output: expect.any(String),
      },
    ]);
  });

  it('that cannot be read are told, and hold no other up', () => {
    job('jobs/night.yaml');
    job('jobs/bad.yaml', { schedule: { cron: 'now' } });
    job('jobs/piped.yaml', { schedule: SCHEDULE, input: { path: '-' } });
    const { jobs, broken } = findScheduledJobs([work.path('jobs')]);
    expect(jobs.map(({ name }) => name)).toEqual(['night']);
    expect(broken.map(({ error }) => error.message).sort()).toEqual([
      expect.stringContaining('schedule.cron needs five fields'),
      expect.stringContaining('input.path of a job with a schedule must be a file, got -'),
    ]);
  });

  it('have names that differ: the first keeps its name, and the other is told', () => {
    job('jobs/a.yaml', { name: 'same', schedule: SCHEDULE });
    job('jobs/b.yaml', { name: 'same', schedule: SCHEDULE });
    const { jobs, broken } = findScheduledJobs([work.path('jobs')]);
    expect(jobs.map(({ path }) => path)).toEqual([work.path('jobs/a.yaml')]);
    expect(broken.map(({ error }) => error.message)).toEqual([
      expect.stringContaining('are both named same'),
    ]);
    expect(() => findScheduledJobs([work.path('nowhere')])).toThrow('no job file or folder');
  });

  it('fault 108: have outputs that differ: the first keeps its output, and the other is told', () => {
    const output = (path: string) => ({ schedule: SCHEDULE, output: { path } });
    job('jobs/a.yaml', output('out/{{date}}.csv'));
    job('jobs/b.yaml', output('./out/{{ date }}.jsonl'));
    job('jobs/c.yaml', output('out/{{run}}.csv'));
    job('jobs/d.yaml', output('out/{{run}}.csv'));
    job('jobs/e.yaml', output('out/f.csv'));
    job('jobs/f.yaml');
    const { jobs, broken } = findScheduledJobs([work.path('jobs')]);
    expect(jobs.map(({ name }) => name)).toEqual(['a', 'c', 'd', 'e']);
    expect(broken.map(({ path, error }) => [path, error.code])).toEqual([
      [work.path('jobs/b.yaml'), 'job_output_twice'],
      [work.path('jobs/f.yaml'), 'job_output_twice'],
    ]);
    expect(broken[1]?.error.message).toMatch(/f\.yaml would write .*f\.csv, as .*e\.yaml does/);
  });

  describe('compared with what is scheduled', () => {
    it('are put when they are new or changed, and left alone otherwise', () => {
      job('jobs/a.yaml');
      const { jobs } = findScheduledJobs([work.path('jobs')]);
      job('jobs/b.yaml');
      const found = findScheduledJobs([work.path('jobs')]);
      const names = (plan: ReturnType<typeof planSync>) =>
        [plan.put, plan.kept, plan.removed].map((list) => list.map(({ name }) => name));
      expect(names(planSync(jobs, found))).toEqual([['b'], ['a'], []]);
      expect(names(planSync(found.jobs, found))).toEqual([[], ['a', 'b'], []]);
      job('jobs/a.yaml', { schedule: { ...SCHEDULE, cron: '0 3 * * *' } });
      expect(names(planSync(found.jobs, findScheduledJobs([work.path('jobs')])))).toEqual([['a'], ['b'], []]);
    });

    it('are removed when their file is gone or has no schedule any more, but not while it is broken', () => {
      const gone = job('jobs/gone.yaml');
      job('jobs/bare.yaml');
      job('jobs/broken.yaml');
      const elsewhere = job('other/elsewhere.yaml');
      const known = [...findScheduledJobs([work.path('jobs'), elsewhere]).jobs];
      rmSync(gone);
      job('jobs/bare.yaml', {});
      work.write('jobs/broken.yaml', 'name: [');
      const plan = planSync(known, findScheduledJobs([work.path('jobs')]));
      expect(plan.removed.map(({ name }) => name).sort()).toEqual(['bare', 'gone']);
      rmSync(elsewhere);
      const later = planSync(known, findScheduledJobs([elsewhere]));
      expect(later.removed.map(({ name }) => name)).toEqual(['elsewhere']);
    });

    it('take their schedule along when they are moved, and leave one that another file has', () => {
      const old = job('jobs/a.yaml');
      const known = findScheduledJobs([work.path('jobs')]).jobs;
      job('moved/a.yaml');
      expect(() => planSync(known, findScheduledJobs([work.path('moved')]))).toThrow(
        'has a schedule under the name a already',
      );
      rmSync(old);
      const plan = planSync(known, findScheduledJobs([work.path('moved')]));
      expect(plan.put).toEqual([expect.objectContaining({ name: 'a', path: work.path('moved/a.yaml') })]);
      expect(plan.removed).toEqual([]);
    });
  });
});
