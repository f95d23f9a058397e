import { Queue } from 'bullmq';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Found, ScheduledJob } from '../../../src/ops/schedule/job-files.js';
import type { TickEnd } from '../../../src/ops/schedule/schedule.js';
import { Schedule, scheduleQueue } from '../../../src/ops/schedule/schedule.js';
import type { Store } from '../../../src/store/store.js';
import { describeEachStore } from '../../support/stores.js';
import { hear } from '../../support/ticks.js';

const NIGHT: ScheduledJob = {
  name: 'night',
  path: '/jobs/night.yaml',
  cron: '0 2 * * *',
  timezone: 'Europe/Berlin',
};
const NOON: ScheduledJob = { name: 'noon', path: '/jobs/noon.yaml', cron: '0 12 * * *', timezone: 'UTC' };
/** Fires at every second. */
const TICK: ScheduledJob = { name: 'tick', path: '/jobs/tick.yaml', cron: '* * * * * *', timezone: 'UTC' };

/** The job files of the folder `/jobs`. */
const files = (...jobs: ScheduledJob[]): Found => ({
  jobs,
  broken: [],
  covers: (path) => path.startsWith('/jobs/'),
});

const names = (jobs: readonly ScheduledJob[]): string[] => jobs.map(({ name }) => name);

describeEachStore('a schedule', (store) => {
  let open: Store;
  let schedule: Schedule;
  beforeEach(async () => {
    open = await store().open();
    schedule = new Schedule(open, false);
  });
  afterEach(async () => {
    await schedule.sync(files());
    await schedule.close();
    await open.close();
  });

  it('is what the job files say after a sync, and the same again changes nothing', async () => {
    const first = await schedule.sync(files(NIGHT, NOON));
    expect(names(first.put)).toEqual(['night', 'noon']);
    expect(await schedule.jobs()).toEqual([NIGHT, NOON]);
    const again = await schedule.sync(files(NIGHT, NOON));
    expect([names(again.put), names(again.kept), names(again.removed)]).toEqual([[], ['night', 'noon'], []]);

    const later = { ...NIGHT, cron: '30 3 * * *' };
    expect(names((await schedule.sync(files(later, NOON))).put)).toEqual(['night']);
    expect(await schedule.jobs()).toEqual([later, NOON]);
    expect(names((await schedule.sync(files(NOON))).removed)).toEqual(['night']);
    expect(await schedule.jobs()).toEqual([NOON]);
  });

  it('leaves alone what other folders have scheduled, until it is removed by name', async () => {
    const elsewhere = { ...NOON, name: 'elsewhere', path: '/other/elsewhere.yaml' };
    await schedule.sync({ ...files(elsewhere), covers: (path) => path === elsewhere.path });
    await schedule.sync(files(NIGHT));
    expect(names(await schedule.jobs())).toEqual(['elsewhere', 'night']);
    expect(await schedule.remove('elsewhere')).toBe(true);
    expect(await schedule.remove('elsewhere')).toBe(false);
    expect(names(await schedule.jobs())).toEqual(['night']);
  });

  it('of a rehearsal is another one', async () => {
    await schedule.sync(files(NIGHT));
    const rehearsal = new Schedule(open, true);
    expect(await rehearsal.jobs()).toEqual([]);
    await rehearsal.close();
  });

  it('is removed with a tick that is due and that nobody has', async () => {
    await schedule.sync(files(NIGHT, TICK));
    await hear(open, 1, async () => 'left');
    expect(await schedule.remove('tick')).toBe(true);
    const queue = new Queue(scheduleQueue(false), { connection: open.connection }, open.backendFactory);
    const left = await queue.getJobs(['waiting', 'prioritized', 'delayed', 'active']);
    expect(left.map(({ repeatJobKey }) => repeatJobKey)).toEqual(['night']);
    await queue.close();
  });

  it('has a tick back that was left, and goes on when it is taken', async () => {
    await schedule.sync(files(TICK));
    const ends: TickEnd[] = ['left', 'taken', 'taken'];
    const ticks = await hear(open, 3, async () => ends.shift() ?? 'taken');
    const [first, ...others] = ticks;
    // The next may be due before it is back.
    expect(others).toContainEqual(first);
    expect(others.some(({ due }) => due > (first?.due ?? 0))).toBe(true);
  });
});
