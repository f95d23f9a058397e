import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Schedule } from '../../src/ops/schedule/schedule.js';
import { describeEachStore } from '../support/stores.js';
import { hear } from '../support/ticks.js';

/** Ticks that go by while nothing serves. */
const MISSED = 6;

describeEachStore('a schedule', (store) => {
  it('fault 47: down for six ticks, it fires once for all of them, also after another sync, and then goes on', async () => {
    const open = await store().open();
    const schedule = new Schedule(open, false);
    const tick = { name: 'tick', path: '/jobs/tick.yaml', cron: '* * * * * *', timezone: 'UTC' };
    const found = { jobs: [tick], broken: [], covers: () => true };
    await schedule.sync(found);
    const [before] = await hear(open, 1, async () => 'taken');
    const downSince = Date.now();
    // There is nothing to wait for but the clock.
    while (Date.now() < downSince + MISSED * 1000) await sleep(100);
    const startedAt = new Date();
    await schedule.sync(found);
    const [caughtUp, ...later] = await hear(open, 3, async () => 'taken');
    expect(caughtUp).toMatchObject({ job: 'tick', path: tick.path });
    expect(caughtUp?.due.getTime()).toBeLessThan(startedAt.getTime() - 1000);
    expect(caughtUp?.entry).not.toBe(before?.entry);
    expect(later.filter(({ due }) => due < startedAt)).toEqual([]);
    await schedule.close();
  });
});
