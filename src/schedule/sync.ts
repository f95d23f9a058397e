import { existsSync } from 'node:fs';
import { UsageError } from '../errors.js';
import { type Found, readSchedule, type ScheduledJob } from './scheduled-jobs.js';

/** What makes the schedulers match the job files. */
export interface SyncPlan {
  /** New ones, and those whose job file says something else now. */
  readonly put: readonly ScheduledJob[];
  readonly kept: readonly ScheduledJob[];
  /** Those whose job file is gone or has no schedule any more, of what was looked at. */
  readonly removed: readonly ScheduledJob[];
}

/**
 * Compares what is scheduled with the job files. One that is unchanged is left alone, because putting it again would drop
 * an iteration that is due: the one that catches up after downtime (fault 47).
 * @throws UsageError when a job file elsewhere has a schedule under the same name
 */
export function planSync(known: readonly ScheduledJob[], found: Found): SyncPlan {
  const before = new Map(known.map((job) => [job.name, job]));
  for (const job of found.jobs) assertOwn(job, before.get(job.name), found);
  const isKept = (job: ScheduledJob): boolean => {
    const old = before.get(job.name);
    return (
      old !== undefined && old.path === job.path && old.cron === job.cron && old.timezone === job.timezone
    );
  };
  const names = new Set(found.jobs.map(({ name }) => name));
  const broken = new Set(found.broken.map(({ path }) => path));
  return {
    put: found.jobs.filter((job) => !isKept(job)),
    kept: found.jobs.filter(isKept),
    removed: known.filter(({ name, path }) => found.covers(path) && !names.has(name) && !broken.has(path)),
  };
}

/** A file that was moved takes its schedule along; a second file of the same name does not take that of the first. */
function assertOwn(job: ScheduledJob, old: ScheduledJob | undefined, found: Found): void {
  if (old === undefined || old.path === job.path || found.covers(old.path) || !claims(old)) return;
  throw new UsageError(
    'job_name_twice',
    `${old.path} has a schedule under the name ${job.name} already, so that of ${job.path} cannot have it`,
    `Give one of them another name in the job file, or remove the first with: promptmill schedule remove ${job.name}`,
  );
}

function claims({ path, name }: ScheduledJob): boolean {
  if (!existsSync(path)) return false;
  try {
    return readSchedule(path)?.name === name;
  } catch {
    // What cannot be read now may be mended tomorrow.
    return true;
  }
}
