import { lstatSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, extname, join, resolve } from 'node:path';
import { machineTimezone, type Timetable } from '../../config/cron.js';
import { readJobFile } from '../../config/job-file.js';
import { defaultOutput } from '../../config/settings.js';
import { errorText, UsageError } from '../../core/errors.js';
import { stemOf } from '../../output/output-name.js';

export interface ScheduledJob extends Timetable {
  readonly name: string;
  /** Absolute path of the job file. */
  readonly path: string;
}

/** With the absolute path of its output, placeholders in one form. */
interface FoundJob extends ScheduledJob {
  readonly output: string;
}

/** Names become parts of keys and of file names. */
export const JOB_NAME = /^[\w.-]+$/;

export interface Found {
  readonly jobs: readonly ScheduledJob[];
  /** Unreadable, or with the name of another: their known schedules stand until that is repaired. */
  readonly broken: readonly { readonly path: string; readonly error: UsageError }[];
  /** Whether a job file belongs to what was looked at, even one that is gone. */
  readonly covers: (path: string) => boolean;
}

/** Does not look into subfolders. @throws UsageError for a missing path */
export function findScheduledJobs(paths: readonly string[]): Found {
  const folders: string[] = [];
  const files: string[] = [];
  for (const path of paths) {
    const there = statSync(path, { throwIfNoEntry: false });
    if (there === undefined && !isJobFile(path)) {
      throw new UsageError(
        'job_missing',
        `no job file or folder ${path}`,
        'Give the path of a folder of job files.',
      );
    }
    if (there?.isDirectory() === true) folders.push(realpathSync(path));
    // A missing file is looked at too: its schedule goes with it.
    else files.push(absolute(path));
  }
  const inFolders = folders.flatMap((folder) =>
    namesIn(folder)
      .filter(isJobFile)
      .sort()
      .map((name) => join(folder, name)),
  );
  const jobs: FoundJob[] = [];
  const broken: { path: string; error: UsageError }[] = [];
  for (const path of new Set([...files, ...inFolders])) {
    try {
      const job = readSchedule(path);
      if (job === null) continue;
      assertNameIsFree(job, jobs);
      assertOutputIsFree(job, jobs);
      jobs.push(job);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      // Gone, and its schedule with it. A broken link is not gone.
      if (error.code === 'job_missing' && !isThere(path)) continue;
      broken.push({ path, error });
    }
  }
  const covers = (path: string): boolean =>
    files.includes(path) || (resolve(path) === path && folders.includes(dirname(path)) && isJobFile(path));
  return { jobs, broken, covers };
}

/** Null for a job without a schedule. @throws UsageError for a file that is not a job */
export function readSchedule(path: string): FoundJob | null {
  const { name, schedule, input, output } = readJobFile(path);
  if (schedule === undefined) return null;
  if (!JOB_NAME.test(name)) {
    throw new UsageError(
      'bad_job_name',
      `${path}: the name of a job with a schedule may hold letters, digits, ".", "_" and "-", got ${JSON.stringify(name)}`,
      'Set name in the job file; by default it is that of the file.',
    );
  }
  for (const [field, value] of [
    ['input.path', input.path],
    ['output.path', output.path],
  ] as const) {
    if (value !== '-') continue;
    throw new UsageError(
      'schedule_needs_files',
      `${path}: ${field} of a job with a schedule must be a file, got -`,
    );
  }
  return {
    ...{ name, path, cron: schedule.cron.trim(), timezone: schedule.timezone ?? machineTimezone() },
    output: placeOf(output.path ?? defaultOutput(name, output.format ?? input.format, input.path)),
  };
}

const isJobFile = (name: string): boolean => ['.yaml', '.yml'].includes(extname(name).toLowerCase());

/** Resolves links in the folder, so that one file has one path. */
function absolute(path: string): string {
  const folder = dirname(resolve(path));
  try {
    return join(realpathSync(folder), resolve(path).slice(folder.length));
  } catch {
    return resolve(path);
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    throw new UsageError('jobs_unreadable', `cannot read the folder ${folder}: ${errorText(error)}`);
  }
}

const isThere = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

/** The first file, in path order, keeps the name. */
function assertNameIsFree({ name, path }: ScheduledJob, jobs: readonly ScheduledJob[]): void {
  const other = jobs.find((job) => job.name === name);
  if (other === undefined) return;
  throw new UsageError(
    'job_name_twice',
    `${other.path} and ${path} are both named ${name}, and a schedule belongs to a name`,
    'Give one of them another name in the job file.',
  );
}

/** Relative paths belong to the working directory, as in a run. */
const placeOf = (output: string): string => absolute(output.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, '{{$1}}'));

export const OUTPUT_TWICE = 'job_output_twice';

/** The same stem would have the same summary. An output with the run in its path is unique. */
function assertOutputIsFree({ path, output }: FoundJob, jobs: readonly FoundJob[]): void {
  if (output.includes('{{run}}')) return;
  const other = jobs.find((job) => stemOf(job.output) === stemOf(output));
  if (other === undefined) return;
  throw new UsageError(
    OUTPUT_TWICE,
    `${path} would write ${output === other.output ? output : `${stemOf(output)}.summary.json`}, as ${other.path} does, and the two would replace each other's answers`,
    'Give one of them another output.path.',
  );
}
