import { describe, expect, it } from 'vitest';
import type { OutageView } from '../../src/pace/pauses.js';
import { type Fleet, Watchdog } from '../../src/run/watchdog.js';

const HOUR = 3_600_000;
const OUTAGE: OutageView = {
  since: 1_000,
  until: 61_000,
  problem: { code: 'server_error', message: 'HTTP 503' },
  connected: true,
  rows: 10,
};

function watching(
  worker: {
    waitingMs?: number;
    inFlight?: number;
    outage?: OutageView | null;
    otherWait?: () => string | null;
    capacityWait?: () => string | null;
  } | null,
  fleet: () => Fleet | null = () => null,
  unreadSince: () => number | null = () => null,
) {
  let blamed = 0;
  const watched = worker && {
    waitingMs: 0,
    inFlight: 0,
    outage: null,
    ...worker,
    blameRows: () => {
      blamed++;
    },
  };
  const options = {
    worker: watched,
    giveUpMs: HOUR,
    timeoutMs: 120_000,
    total: 100,
    queue: 'redis://queue',
    fleet,
    unreadSince,
  };
  const watchdog = new Watchdog(options, 0, 0);
  return { watchdog, blamed: () => blamed };
}

describe('a run that gets on', () => {
  it('waits for nothing and is never given up', () => {
    const { watchdog } = watching({ inFlight: 5 });
    for (let now = 0; now < 10 * HOUR; now += HOUR / 2) {
      watchdog.looked(now / HOUR, now);
      expect(watchdog.waiting(now)).toBeNull();
      expect(watchdog.overdue(now)).toBeNull();
    }
  });
});

describe('a run that does not get on', () => {
  it('says since when the queue does not answer, and is given up', () => {
    const { watchdog } = watching({ inFlight: 5 });
    expect(watchdog.waiting(5_001)).toMatch(
      /^waiting since \d\d:\d\d:\d\d: redis:\/\/queue does not answer$/,
    );
    expect(watchdog.overdue(HOUR - 1)).toBeNull();
    expect(watchdog.overdue(HOUR)).toEqual({
      code: 'queue_unavailable',
      message: 'nothing was answered for 1 h 0 min: redis://queue does not answer',
    });
  });

  it('says what rows wait for that another deployment is asked for, once nothing else moves', () => {
    const { watchdog } = watching({ otherWait: () => 'second: the service asked to wait until 10:42:05' });
    watchdog.looked(1, 1_000);
    watchdog.looked(1, 6_000);
    expect(watchdog.waiting(6_000)).toBeNull();
    watchdog.looked(1, 6_001);
    expect(watchdog.waiting(6_001)).toBe('second: the service asked to wait until 10:42:05');
  });

  it('says that it waits for capacity, and is given up where none comes', () => {
    const said = 'waiting for flex capacity; next call at 10:42:05';
    const { watchdog } = watching({ capacityWait: () => said });
    watchdog.looked(1, 1_000);
    expect(watchdog.waiting(1_001)).toBe(said);
    watchdog.looked(1, HOUR + 120_000);
    expect(watchdog.overdue(HOUR + 120_000)).toEqual({
      code: 'no_progress',
      message: 'no row became known for 1 h 0 min, and the flex tier has no capacity',
    });
  });

  it('says what an outage is and when the next call is due, and is given up', () => {
    // The worker finds its own pause in the queue.
    const { watchdog } = watching({ outage: OUTAGE, waitingMs: 10_000 });
    watchdog.looked(0, 2_000);
    expect(watchdog.waiting(2_000)).toMatch(/^waiting since [\d:]+: HTTP 503; next call at [\d:]+$/);
    watchdog.looked(0, 62_000);
    expect(watchdog.waiting(62_000)).toMatch(/HTTP 503; one call tries it$/);
    watchdog.looked(0, HOUR);
    expect(watchdog.overdue(HOUR)).toEqual({
      code: 'service_unavailable',
      message: 'nothing was answered for 1 h 0 min: HTTP 503',
    });
  });

  it('says that calls wait for a service that answers nothing, before they time out', () => {
    const { watchdog } = watching({ inFlight: 8 });
    watchdog.looked(3, 1_000);
    watchdog.looked(3, 31_000);
    expect(watchdog.waiting(31_000), 'a call may take this long').toBeNull();
    watchdog.looked(3, 31_001);
    expect(watchdog.waiting(31_001)).toMatch(
      /^no answer since [\d:]+: waiting for the service with 8 calls in flight, time-out after 120 s \(limits\.timeout_seconds\)$/,
    );
    watchdog.looked(4, 32_000);
    expect(watchdog.waiting(32_000)).toBeNull();
    const between = watching({ inFlight: 0 });
    between.watchdog.looked(3, 60_000);
    expect(between.watchdog.waiting(60_000)).toBeNull();
  });

  it('lets the rows fail where hardly any others are left, and they reached the service', () => {
    const { watchdog, blamed } = watching({ outage: OUTAGE });
    watchdog.looked(80, 0);
    watchdog.looked(80, HOUR / 4);
    expect(watchdog.overdue(HOUR / 4 - 1)).toBeNull();
    expect(blamed(), 'ten minutes may well be an outage').toBe(0);
    expect(watchdog.overdue(HOUR / 4)).toBeNull();
    expect(blamed()).toBe(1);
    const many = watching({ outage: OUTAGE });
    many.watchdog.looked(69, 0);
    many.watchdog.looked(69, HOUR);
    expect(many.watchdog.overdue(HOUR)?.code).toBe('service_unavailable');
    expect(many.blamed()).toBe(0);
    const refused = watching({ outage: { ...OUTAGE, connected: false } });
    refused.watchdog.looked(90, 0);
    refused.watchdog.looked(90, HOUR);
    expect(refused.watchdog.overdue(HOUR)?.code).toBe('service_unavailable');
  });

  it('is not given up while the service asks to wait', () => {
    const { watchdog } = watching({ waitingMs: 10_000 });
    for (let now = 0; now <= 2 * HOUR; now += 60_000) {
      watchdog.looked(0, now);
      expect(watchdog.overdue(now)).toBeNull();
    }
    expect(watchdog.waiting(2 * HOUR)).toMatch(/^the service asked to wait until/);
  });

  it('waits for whoever reads its rows as long as it takes, and says so', () => {
    let unread: number | null = 1_000;
    const { watchdog } = watching({ inFlight: 5 }, undefined, () => unread);
    watchdog.looked(10, 1_000);
    expect(watchdog.waiting(6_000)).toBeNull();
    for (let now = 0; now <= 2 * HOUR; now += 60_000) expect(watchdog.overdue(now)).toBeNull();
    expect(watchdog.waiting(2 * HOUR)).toMatch(/^waiting since [\d:]+ for whoever reads the rows/);
    unread = null;
    expect(watchdog.waiting(2 * HOUR), 'the ledger is looked at next').toBeNull();
    expect(watchdog.overdue(3 * HOUR - 60_000)).toBeNull();
    expect(watchdog.overdue(3 * HOUR)?.code).toBe('queue_unavailable');
  });

  it('is given up when nothing moves and no call is under way', () => {
    const { watchdog } = watching({});
    watchdog.looked(0, HOUR);
    expect(watchdog.overdue(HOUR), 'rows may be between two attempts').toBeNull();
    watchdog.looked(0, HOUR + 60_000);
    expect(watchdog.overdue(HOUR + 60_000)?.code).toBe('no_progress');
    const calling = watching({ inFlight: 1 });
    calling.watchdog.looked(0, 2 * HOUR);
    expect(calling.watchdog.overdue(2 * HOUR)).toBeNull();
  });

  it('waits for workers on other machines as long as it takes, and says so', () => {
    const { watchdog } = watching(null);
    for (let now = 0; now <= 2 * HOUR; now += 60_000) {
      watchdog.looked(0, now);
      expect(watchdog.overdue(now)).toBeNull();
    }
    // Asking whether it is overdue, which a run does all the time, does not make the wait begin anew.
    expect(watchdog.waiting(2 * HOUR)).toMatch(/^waiting since [\d:]+ for workers$/);
    watchdog.looked(0, 2 * HOUR + 31_000);
    expect(watchdog.waiting(2 * HOUR + 31_000)).toMatch(/^waiting since [\d:]+ for workers$/);
  });

  it('is given up by a queue that does not answer, and not for the time that it waited for workers before', () => {
    const { watchdog } = watching(null);
    for (let now = 0; now <= 2 * HOUR; now += 1_000) {
      watchdog.looked(0, now);
      watchdog.overdue(now);
    }
    expect(watchdog.overdue(2 * HOUR + 10_000)).toBeNull();
    expect(watchdog.overdue(3 * HOUR)?.code).toBe('queue_unavailable');
  });

  it('says how to start a worker when none listens, and how many listen when they do nothing', () => {
    let fleet: Fleet | null = null;
    const { watchdog } = watching(null, () => fleet);
    const waitingAfter = (seconds: number): string | null => {
      watchdog.looked(0, seconds * 1_000);
      // Asked in each pulse, and does not make the wait begin anew.
      watchdog.overdue(seconds * 1_000);
      return watchdog.waiting(seconds * 1_000);
    };
    expect(waitingAfter(6), 'nothing is known of them yet').toBeNull();
    fleet = { workers: 0, waiting: null };
    expect(waitingAfter(5)).toBeNull();
    expect(waitingAfter(6)).toBe('no worker listens; start one with: promptmill work --queue redis://queue');
    fleet = { workers: 1, waiting: null };
    expect(waitingAfter(29), 'a call may take this long').toBeNull();
    expect(waitingAfter(31)).toMatch(/^waiting since [\d:]+ for 1 worker$/);
    fleet = { workers: 3, waiting: 'the service asked to wait until 10:42:05' };
    expect(waitingAfter(40)).toBe(fleet.waiting);
    watchdog.looked(1, 50_000);
    expect(watchdog.waiting(50_000)).toBeNull();
    watchdog.looked(100, 60_000);
    fleet = { workers: 0, waiting: null };
    watchdog.looked(100, 99_000);
    expect(watchdog.waiting(99_000), 'every row is known').toBeNull();
  });
});
