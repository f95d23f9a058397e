import { describe, expect, it } from 'vitest';
import type { OutageView } from '../../src/pace/outage.js';
import { type Crew, Vigil } from '../../src/run/vigil.js';

const HOUR = 3_600_000;
const OUTAGE: OutageView = {
  since: 1_000,
  until: 61_000,
  fault: { code: 'server_error', message: 'HTTP 503' },
  connected: true,
  rows: 10,
};

function watching(
  worker: { waitingMs?: number; inFlight?: number; outage?: OutageView | null } | null,
  crew: () => Crew | null = () => null,
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
  const options = { worker: watched, giveUpMs: HOUR, total: 100, queue: 'redis://queue', crew };
  const vigil = new Vigil(options, 0, 0);
  return { vigil, blamed: () => blamed };
}

describe('a run that gets on', () => {
  it('waits for nothing and is never given up', () => {
    const { vigil } = watching({ inFlight: 5 });
    for (let now = 0; now < 10 * HOUR; now += HOUR / 2) {
      vigil.looked(now / HOUR, now);
      expect(vigil.waiting(now)).toBeNull();
      expect(vigil.overdue(now)).toBeNull();
    }
  });
});

describe('a run that does not get on', () => {
  it('says since when the queue does not answer, and is given up', () => {
    const { vigil } = watching({ inFlight: 5 });
    expect(vigil.waiting(5_001)).toMatch(/^waiting since \d\d:\d\d:\d\d: redis:\/\/queue does not answer$/);
    expect(vigil.overdue(HOUR - 1)).toBeNull();
    expect(vigil.overdue(HOUR)).toEqual({
      code: 'queue_unavailable',
      message: 'nothing was answered for 1 h 0 min: redis://queue does not answer',
    });
  });

  it('says what an outage is and when the next call is due, and is given up', () => {
    // The worker finds its own pause in the queue.
    const { vigil } = watching({ outage: OUTAGE, waitingMs: 10_000 });
    vigil.looked(0, 2_000);
    expect(vigil.waiting(2_000)).toMatch(/^waiting since [\d:]+: HTTP 503; next call at [\d:]+$/);
    vigil.looked(0, 62_000);
    expect(vigil.waiting(62_000)).toMatch(/HTTP 503; one call tries it$/);
    vigil.looked(0, HOUR);
    expect(vigil.overdue(HOUR)).toEqual({
      code: 'service_unavailable',
      message: 'nothing was answered for 1 h 0 min: HTTP 503',
    });
  });

  it('lets the rows fail where hardly any others are left, and they reached the service', () => {
    const { vigil, blamed } = watching({ outage: OUTAGE });
    vigil.looked(80, 0);
    vigil.looked(80, HOUR / 4);
    expect(vigil.overdue(HOUR / 4 - 1)).toBeNull();
    expect(blamed(), 'ten minutes may well be an outage').toBe(0);
    expect(vigil.overdue(HOUR / 4)).toBeNull();
    expect(blamed()).toBe(1);
    const many = watching({ outage: OUTAGE });
    many.vigil.looked(69, 0);
    many.vigil.looked(69, HOUR);
    expect(many.vigil.overdue(HOUR)?.code).toBe('service_unavailable');
    expect(many.blamed()).toBe(0);
    const refused = watching({ outage: { ...OUTAGE, connected: false } });
    refused.vigil.looked(90, 0);
    refused.vigil.looked(90, HOUR);
    expect(refused.vigil.overdue(HOUR)?.code).toBe('service_unavailable');
  });

  it('is not given up while the service asks to wait', () => {
    const { vigil } = watching({ waitingMs: 10_000 });
    for (let now = 0; now <= 2 * HOUR; now += 60_000) {
      vigil.looked(0, now);
      expect(vigil.overdue(now)).toBeNull();
    }
    expect(vigil.waiting(2 * HOUR)).toMatch(/^the service asked to wait until/);
  });

  it('is given up when nothing moves and no call is under way', () => {
    const { vigil } = watching({});
    vigil.looked(0, HOUR);
    expect(vigil.overdue(HOUR), 'rows may be between two attempts').toBeNull();
    vigil.looked(0, HOUR + 60_000);
    expect(vigil.overdue(HOUR + 60_000)?.code).toBe('no_progress');
    const calling = watching({ inFlight: 1 });
    calling.vigil.looked(0, 2 * HOUR);
    expect(calling.vigil.overdue(2 * HOUR)).toBeNull();
  });

  it('waits for workers on other machines as long as it takes, and says so', () => {
    const { vigil } = watching(null);
    for (let now = 0; now <= 2 * HOUR; now += 60_000) {
      vigil.looked(0, now);
      expect(vigil.overdue(now)).toBeNull();
    }
    // Asking whether it is overdue, which a run does all the time, does not make the wait begin anew.
    expect(vigil.waiting(2 * HOUR)).toMatch(/^waiting since [\d:]+ for workers$/);
    vigil.looked(0, 2 * HOUR + 31_000);
    expect(vigil.waiting(2 * HOUR + 31_000)).toMatch(/^waiting since [\d:]+ for workers$/);
  });

  it('is given up by a queue that does not answer, and not for the time that it waited for workers before', () => {
    const { vigil } = watching(null);
    for (let now = 0; now <= 2 * HOUR; now += 1_000) {
      vigil.looked(0, now);
      vigil.overdue(now);
    }
    expect(vigil.overdue(2 * HOUR + 10_000)).toBeNull();
    expect(vigil.overdue(3 * HOUR)?.code).toBe('queue_unavailable');
  });

  it('says how to start a worker when none listens, and how many listen when they do nothing', () => {
    let crew: Crew | null = null;
    const { vigil } = watching(null, () => crew);
    const waitingAfter = (seconds: number): string | null => {
      vigil.looked(0, seconds * 1_000);
      // Asked in each pulse, and does not make the wait begin anew.
      vigil.overdue(seconds * 1_000);
      return vigil.waiting(seconds * 1_000);
    };
    expect(waitingAfter(6), 'nothing is known of them yet').toBeNull();
    crew = { workers: 0, waiting: null };
    expect(waitingAfter(5)).toBeNull();
    expect(waitingAfter(6)).toBe('no worker listens; start one with: promptmill work --queue redis://queue');
    crew = { workers: 1, waiting: null };
    expect(waitingAfter(29), 'a call may take this long').toBeNull();
    expect(waitingAfter(31)).toMatch(/^waiting since [\d:]+ for 1 worker$/);
    crew = { workers: 3, waiting: 'the service asked to wait until 10:42:05' };
    expect(waitingAfter(40)).toBe(crew.waiting);
    vigil.looked(1, 50_000);
    expect(vigil.waiting(50_000)).toBeNull();
    vigil.looked(100, 60_000);
    crew = { workers: 0, waiting: null };
    vigil.looked(100, 99_000);
    expect(vigil.waiting(99_000), 'every row is known').toBeNull();
  });
});
