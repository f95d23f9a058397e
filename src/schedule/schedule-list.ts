import { nextTimes, type Timetable } from '../config/cron.js';
import { type SeenRun, standingOf } from '../fleet/beats.js';
import type { ScheduledJob } from './job-files.js';
import { type JobState, type LastRun, resultOf } from './serve-state.js';

/** Times of each job that are shown. */
const TIMES = 5;

/** One job of `promptmill schedule list --json`. */
interface ListedJob {
  readonly job: string;
  readonly path: string;
  readonly cron: string;
  readonly timezone: string;
  /** ISO 8601. */
  readonly next: readonly string[];
  /** ISO 8601; null when it does not run now. */
  readonly running_since: string | null;
  readonly last: LastRun | null;
}

/** What is known of the runs of jobs. */
interface History {
  /** What `serve` has noted on this machine: also runs that did not start. */
  readonly states: readonly JobState[];
  /** The last beats of the runs of the queue. */
  readonly runs: readonly SeenRun[];
}

/** What is scheduled, with the times that follow and what is known of the runs. */
export function listed(jobs: readonly ScheduledJob[], { states, runs }: History, now: Date): ListedJob[] {
  return jobs.map(({ name, path, cron, timezone }) => ({
    job: name,
    path,
    cron,
    timezone,
    next: nextTimes({ cron, timezone }, now, TIMES).map((time) => time.toISOString()),
    running_since: runningSince(name, runs),
    last: latest(states.find(({ job }) => job === name)?.last ?? null, lastBeat(name, runs)),
  }));
}

/** The last run of a job that has ended, as its heartbeat said: also those of other machines, and those by hand. */
function lastBeat(job: string, runs: readonly SeenRun[]): LastRun | null {
  const ends = runs.flatMap((seen): LastRun[] => {
    const { state, summary, emulated } = seen.beat;
    if (summary.job !== job || emulated || state === 'running') return [];
    const ended = { ended_at: summary.finished_at, run: summary.run, result: resultOf(summary) };
    return [{ ...ended, state: summary.rejected ? 'rejected' : state }];
  });
  return ends.reduce(latest, null);
}

/** Since when a run of a job goes on, by its heartbeat; null when none does. */
function runningSince(job: string, runs: readonly SeenRun[]): string | null {
  const going = runs.find(
    (seen) => seen.beat.summary.job === job && !seen.beat.emulated && standingOf(seen) === 'running',
  );
  return going?.beat.summary.started_at ?? null;
}

/** The one of the two that ended later. */
const latest = (a: LastRun | null, b: LastRun | null): LastRun | null =>
  a === null || (b !== null && Date.parse(b.ended_at) > Date.parse(a.ended_at)) ? b : a;

/** The list as a person reads it: times on the clock of the job's time zone. */
export function renderSchedule(entries: readonly ListedJob[], now: Date): string {
  return entries
    .map((entry) => {
      const lines = [`${entry.job}  ${entry.cron}  ${entry.timezone}`, `  file  ${entry.path}`];
      timesOf(entry, now, TIMES).forEach((time, i) => {
        lines.push(`${i === 0 ? '  next  ' : '        '}${time}`);
      });
      if (entry.running_since !== null)
        lines.push(`  runs  since ${clock(entry, new Date(entry.running_since))}`);
      const last = entry.last;
      lines.push(
        last === null
          ? '  last  no run yet'
          : `  last  ${clock(entry, new Date(last.ended_at))}  ${last.state}: ${last.result}`,
      );
      return `${lines.join('\n')}\n`;
    })
    .join('\n');
}

/** The next times, on the clock of the time zone: `Sun 2026-11-22 02:00 GMT+1`. */
export const timesOf = (timetable: Timetable, after: Date, count: number): string[] =>
  nextTimes(timetable, after, count).map((time) => clock(timetable, time));

function clock({ cron, timezone }: Timetable, time: Date): string {
  const hasSeconds = cron.trim().split(/\s+/).length === 6;
  const parts = new Intl.DateTimeFormat('en-GB', {
    hourCycle: 'h23',
    timeZone: timezone,
    weekday: 'short',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    ...(hasSeconds && { second: '2-digit' }),
    timeZoneName: 'short',
  }).formatToParts(time);
  const part = (type: Intl.DateTimeFormatPartTypes): string =>
    parts.find((found) => found.type === type)?.value ?? '';
  const seconds = hasSeconds ? `:${part('second')}` : '';
  const date = `${part('year')}-${part('month')}-${part('day')}`;
  return `${part('weekday')} ${date} ${part('hour')}:${part('minute')}${seconds} ${part('timeZoneName')}`;
}
