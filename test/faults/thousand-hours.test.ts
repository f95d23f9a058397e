import { expect, it } from 'vitest';
import { Quota } from '../../src/emulator/quota.js';
import { refuse } from '../../src/pace/refusal.js';
import { NOTHING, needsPermits, newPace, takePermits } from '../../src/pace/shared-pace.js';
import { callBusyServer } from '../pace/busy-server.js';
import { seeded } from '../support/seeded.js';
import './figures.js';

const HOUR = 3_600_000;
const HOURS = 1_000;
/** In ms: when the simulation begins, and how long a call takes. */
const T = 1_700_000_000_000;
const LATENCY = 1_000;

it('fault 112: a thousand hours of a server with 4 slots: they stay full, and no call is cut', () => {
  const minutes = callBusyServer(
    {
      ...{ slots: 4, serviceMs: (random) => 60_000 * (0.5 + random()), concurrency: 100, untilAnswered: 20 },
      ...{ timeoutMs: HOUR, lastMs: HOURS * HOUR },
    },
    seeded(1),
  );
  expect(minutes.reduce((sum, { cut }) => sum + cut, 0)).toBe(0);
  const atOnce = minutes.slice(120).map((minute) => minute.atOnce);
  expect(atOnce.filter((calls) => calls > 20).length / atOnce.length).toBeLessThan(0.1);
  for (let hour = 0; hour < HOURS; hour++) {
    const answered = minutes
      .slice(hour * 60, hour * 60 + 60)
      .reduce((sum, minute) => sum + minute.answered, 0);
    expect(answered / 240, `hour ${hour}`).toBeGreaterThan(0.8);
  }
});

it.each([
  [240, 'a second', 1],
  [120, 'ten seconds', 10],
  [120, 'a minute', 60],
])(
  'fault 18: a third of a thousand hours of %d calls a minute, which nobody told, counted over %s; halved and doubled on the way',
  (most, _, requestWindowSeconds) => {
    const last = HOURS / 3;
    const perMinuteIn = (hour: number): number =>
      hour > last / 3 && hour < (2 * last) / 3 ? most / 2 : most;
    const random = seeded(2);
    const hours: { admitted: number; refused: number }[] = [];
    let pace = newPace();
    let now = T;
    let report = { admitted: 0, since: T, tokens: 0, advertised: NOTHING };
    for (let hour = 0; hour < last; hour++) {
      const perMinute = perMinuteIn(hour);
      const quota = new Quota({
        requestsPerMinute: perMinute,
        requestWindowSeconds,
        tokensPerMinute: null,
        estimate: 'full',
      });
      const counts = { admitted: 0, refused: 0 };
      hours.push(counts);
      while (now < T + (hour + 1) * HOUR) {
        now = Math.max(now, pace.waitUntil);
        if (needsPermits(pace, NOTHING)) {
          const given = takePermits(pace, [1], NOTHING, now);
          pace = given.pace;
          now += given.waits[0] ?? given.again;
          if (given.waits.length === 0) continue;
        } else now += LATENCY / 20;
        // Permits are taken a little ahead, and a call is a little late.
        const at = now + 5 * random();
        const answer = quota.admit(1, at - T);
        if (answer.admitted) {
          counts.admitted++;
          report =
            report.admitted === 0
              ? { ...report, admitted: 1, since: at }
              : { ...report, admitted: report.admitted + 1 };
          continue;
        }
        counts.refused++;
        const wait = Math.max(1_000, Math.ceil(answer.retryAfterMs / 1_000) * 1_000);
        pace = refuse(pace, { startedAt: at, wait }, report, NOTHING, at + 5);
        report = { ...report, admitted: 0, since: at + 5 };
      }
    }
    const poor = hours
      .map(({ admitted, refused }, hour) => {
        const used = admitted / (perMinuteIn(hour) * 60);
        return used < 0.8 || refused > 0.05 * admitted
          ? `hour ${hour}: ${used.toFixed(2)} used, ${refused} refused`
          : '';
      })
      .filter((line) => line !== '');
    expect(poor).toEqual([]);
  },
);
