import { errorText } from '../core/errors.js';
import { loadPackage } from '../core/load-package.js';
import { nearest } from '../core/nearest.js';

export interface Timetable {
  /** Five fields, or six with the seconds first. */
  readonly cron: string;
  /** IANA name, such as `Europe/Berlin`. */
  readonly timezone: string;
}

/** Text that follows the name of the expression; null for an expression that will fire. */
export function cronProblem(cron: string): string | null {
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6) {
    return `needs five fields (minute, hour, day of the month, month, day of the week), or six with the seconds first; it has ${fields.length}`;
  }
  // The parser replaces H by a new random value at each call, so the job would not run at the times shown.
  if (/H/i.test(cron.replace(/THU/gi, ''))) return 'H is not supported';
  try {
    nextTimes({ cron, timezone: 'UTC' }, new Date(), 1);
    return null;
  } catch (error) {
    const reason = errorText(error);
    return `is no cron expression that ever fires: ${reason}`;
  }
}

/** Text that follows the name of the zone; null for a zone that this machine knows. */
export function timezoneProblem(timezone: string): string | null {
  // No offsets: they have no summer time, and only some versions of Node.js accept them.
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

export const machineTimezone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone;

/**
 * Uses BullMQ's parser. A time skipped by a clock change comes an hour later on the clock; a repeated one
 * comes once, the first time. Both need a fixed hour; with `*` as the hour it fires at every such moment.
 * @throws Error for an invalid expression or zone
 */
export function nextTimes({ cron, timezone }: Timetable, after: Date, count: number): Date[] {
  const { CronExpressionParser }: typeof import('cron-parser') = loadPackage('cron-parser');
  const times = CronExpressionParser.parse(cron, { tz: timezone, currentDate: after });
  return Array.from({ length: count }, () => times.next().toDate());
}
