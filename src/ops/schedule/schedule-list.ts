import { nextTimes, type Timetable } from '../../config/cron.js';
import { observedState, type SeenRun } from '../heartbeat.js';
import type { ScheduledJob } from './job-files.js';
import { type JobState, type LastRun, resultOf } from './serve-state.js';

const TIMES = 5;

interface History {
  /** From `serve` on this machine; includes runs that did not start. */
  readonly states: readonly JobState[];
  /** Last beats of the queue's runs. */
  readonly runs: readonly SeenRun[];
}

export function listed(jobs: readonly ScheduledJob[], { states, runs }: History, now: Date) {
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

type ListedJob = ReturnType<typeof listed>[number];

/** By heartbeat: includes runs on other machines and runs started by hand. */
function lastBeat(job: string, runs: readonly SeenRun[]): LastRun | null {
  const ends = runs.flatMap((seen): LastRun[] => {
    const { state, summary, emulated } = seen.beat;
    if (summary.job !== job || emulated || state === 'running') return [];
    const ended = { ended_at: summary.finished_at, run: summary.run, result: resultOf(summary) };
    return [{ ...ended, state: summary.rejected ? 'rejected' : state }];
  });
  return ends.reduce(latest, null);
}

/** By heartbeat; null when no run of the job is going on. */
function runningSince(job: string, runs: readonly SeenRun[]): string | null {
  const going = runs.find(
    (seen) => seen.beat.summary.job === job && !seen.beat.emulated && observedState(seen) === 'running',
  );
  return going?.beat.summary.started_at ?? null;
}

const latest = (a: LastRun | null, b: LastRun | null): LastRun | null =>
  a === null || (b !== null && Date.parse(b.ended_at) > Date.parse(a.ended_at)) ? b : a;

/** Times are in the job's time zone. */
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

/** The next times in the job's time zone: `Sun 2026-11-22 02:00 GMT+1`. */
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
