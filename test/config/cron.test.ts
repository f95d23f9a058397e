import { describe, expect, it } from 'vitest';
import { cronProblem, nextTimes, timezoneProblem } from '../../src/config/cron.js';

const berlin = (cron: string, after: string, count: number): string[] =>
  nextTimes({ cron, timezone: 'Europe/Berlin' }, new Date(after), count).map((time) =>
    time.toISOString().slice(5, 16),
  );

describe('a cron expression', () => {
  it.each(['0 2 * * *', '*/2 * * * * *', '0 2 * * MON-FRI', '30 6 L * *', '0 9 * * THU', '  5  4 1 1 * '])(
    '%j fires',
    (cron) => expect(cronProblem(cron)).toBeNull(),
  );

  it.each([
    ['0 2 * *', 'it has 4'],
    ['0 0 0 1 1 * 2026', 'it has 7'],
    ['@daily', 'it has 1'],
    ['60 2 * * *', 'got value 60'],
    ['0 2 30 2 *', 'ever fires'],
    ['0 2 * * someday', 'ever fires'],
    ['H 2 * * *', 'H is not supported'],
  ])('%j is refused: %s', (cron, problem) => {
    expect(cronProblem(cron)).toContain(problem);
  });
});

describe('a time zone', () => {
  it.each(['Europe/Berlin', 'UTC', 'America/Argentina/Buenos_Aires'])('%s is known', (zone) => {
    expect(timezoneProblem(zone)).toBeNull();
  });

  it.each(['+02:00', 'UTC+2', 'Mars/Olympus', '-0800'])('%s is refused', (zone) => {
    expect(timezoneProblem(zone)).toContain('is no IANA time zone');
  });

  it('that is misspelt is told with the nearest one', () => {
    expect(timezoneProblem('Europe/Berlinn')).toContain('did you mean Europe/Berlin?');
  });
});

describe('the next times', () => {
  it('follow the clock of the zone', () => {
    expect(berlin('0 2 * * *', '2026-11-21T12:00Z', 2)).toEqual(['11-22T01:00', '11-23T01:00']);
    const seconds = nextTimes(
      { cron: '*/2 * * * * *', timezone: 'UTC' },
      new Date('2026-11-21T12:00:01Z'),
      2,
    );
    expect(seconds.map((time) => time.getUTCSeconds())).toEqual([2, 4]);
  });

  // On 29 March 2026 the clocks of Berlin go from 02:00 to 03:00, which is 01:00 UTC.
  it('fault 90: have a time that is left out in spring an hour later, on that day only', () => {
    expect(berlin('30 2 * * *', '2026-03-28T12:00Z', 2)).toEqual(['03-29T01:30', '03-30T00:30']);
    expect(berlin('*/30 * * * *', '2026-03-29T00:15Z', 3)).toEqual([
      '03-29T00:30',
      '03-29T01:00',
      '03-29T01:30',
    ]);
  });

  // On 25 October 2026 they go from 03:00 back to 02:00, which is 01:00 UTC.
  it('fault 90: have a time that comes twice in autumn once, the first time', () => {
    expect(berlin('30 2 * * *', '2026-10-24T12:00Z', 2)).toEqual(['10-25T00:30', '10-26T01:30']);
    expect(berlin('0 * * * *', '2026-10-24T23:30Z', 3)).toEqual([
      '10-25T00:00',
      '10-25T01:00',
      '10-25T02:00',
    ]);
  });
});
