import { CronExpressionParser } from 'cron-parser';
import { errorText } from '../errors.js';
import { nearest } from '../nearest.js';

/** A time when a job is to run, again and again. */
export interface Timetable {
  /** Five fields, or six with the seconds first. */
  readonly cron: string;
  /** IANA name, such as `Europe/Berlin`. */
  readonly timezone: string;
}

/** What is wrong with a cron expression, in words that go after its name; null for one that will fire. */
export function cronProblem(cron: string): string | null {
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6) {
    return `needs five fields (minute, hour, day of the month, month, day of the week), or six with the seconds first; it has ${fields.length}`;
  }
  // The parser takes H for a value by chance, another one at each look, so the job would run at other times than shown.
  if (/H/i.test(cron.replace(/THU/gi, ''))) return 'H is not supported';
  try {
    nextTimes({ cron, timezone: 'UTC' }, new Date(), 1);
    return null;
  } catch (error) {
    const reason = errorText(error);
    return `is no cron expression that ever fires: ${reason}`;
  }
}

/** What is wrong with the name of a time zone; null for one that this machine knows. */
export function timezoneProblem(timezone: string): string | null {
  // Offsets are not: they know of no summer time, and some versions of Node.js take them and others do not.
  if (!/^[+-]|\d:/.test(timezone) && isKnown(timezone)) return null;
  const near = nearest(timezone, Intl.supportedValuesOf('timeZone'));
  return `is no IANA time zone, such as Europe/Berlin${near === null ? '' : `; did you mean ${near}?`}`;
}

function isKnown(timezone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone });
    return true;
  } catch {
    return false;
  }
}

/** The time zone of this machine. */
export const machineTimezone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone;

/**
 * The next times after a moment, by the same parser that BullMQ asks. A time that a clock change leaves out comes an hour
 * later on the clock; one that a clock change repeats comes once, the first time. Both hold where the hour is
 * fixed; with `*` as the hour it fires at every such moment that there is.
 * @throws Error for an expression or a zone that is not valid
 */
export function nextTimes({ cron, timezone }: Timetable, after: Date, count: number): Date[] {
  const times = CronExpressionParser.parse(cron, { tz: timezone, currentDate: after });
  return Array.from({ length: count }, () => times.next().toDate());
}
