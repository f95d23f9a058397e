import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { type Summary, unansweredTexts } from '../../account/summary.js';
import { UsageError } from '../../core/errors.js';
import { makePrivateFolder } from '../../core/folder.js';
import { parseJson } from '../../core/json.js';
import { isOfOtherVersion } from '../../output/plain-file.js';
import { writeDurably } from '../../output/writer.js';
import { type Found, findScheduledJobs, OUTPUT_TWICE, readSchedule, type ScheduledJob } from './job-files.js';

const lastRun = z.object({
  /** ISO 8601. */
  ended_at: z.string(),
  /** Id of the run; null when it did not start. */
  run: z.string().nullable(),
  state: z.enum(['finished', 'rejected', 'stopped', 'interrupted', 'not started']),
  /** Rows by outcome, or why it did not start. */
  result: z.string(),
});
export type LastRun = z.output<typeof lastRun>;

/** Rows by outcome, and why the run stopped or what it missed. */
export function resultOf(summary: Summary): string {
  const { input, rows, stopped, missed } = summary;
  const { total, completed, filtered, failed, skipped } = rows;
  const of = total === input.rows ? '' : `of ${input.rows} `;
  const counts = `${total} ${of}rows = ${completed} completed + ${filtered} filtered + ${failed} failed + ${skipped} skipped`;
  return [counts, ...unansweredTexts(summary), ...[stopped ?? missed ?? []].flat()].join('; ');
}

const jobState = z.object({
  v: z.literal(1),
  job: z.string(),
  path: z.string(),
  entry: z.string(),
  /** ISO 8601. */
  since: z.string(),
  /** A run has begun and not ended. */
  running: z.boolean(),
  /** Absolute path of that run's manifest, once there is one; it is gone when the run is finished. */
  manifest: z.string().nullable(),
  last: lastRun.nullable(),
});
export type JobState = z.output<typeof jobState>;

const scheduledJobs = z.array(
  z.object({ name: z.string(), path: z.string(), cron: z.string(), timezone: z.string() }),
);

const jobProblem = z.object({ path: z.string(), code: z.string(), problem: z.string() });

/** A job file that `serve` should follow but cannot use. Others run meanwhile (fault 83). */
type JobProblem = z.output<typeof jobProblem>;

/** Has the lock of `serve`, the schedule it follows, and the state of each job. */
export const serveFolder = (stateDir: string, emulated = false): string =>
  join(stateDir, emulated ? 'serve-emulated' : 'serve');

const statesIn = (folder: string): string => join(folder, 'jobs');
const scheduleIn = (folder: string): string => join(folder, 'schedule.json');
const problemsIn = (folder: string): string => join(folder, 'job-problems.json');

/**
 * It is on disk before the queue forgets the tick, so that the next `serve` completes a run that is killed at
 * any moment, even before its first row.
 */
export class JobStates {
  readonly #folder: string;
  readonly #states = new Map<string, JobState>();

  /** @throws UsageError when a state is of another version */
  constructor(folder: string) {
    this.#folder = statesIn(folder);
    makePrivateFolder(this.#folder);
    for (const found of readJobStates(folder)) this.#states.set(found.job, found);
  }

  get(job: string): JobState | undefined {
    return this.#states.get(job);
  }

  unfinished(): JobState[] {
    return [...this.#states.values()].filter(({ running }) => running);
  }

  /** @throws WriteError; the old state then stands */
  async put(next: Omit<JobState, 'v'>): Promise<void> {
    const written: JobState = { v: 1, ...next };
    await writeDurably(join(this.#folder, `${next.job}.json`), `${JSON.stringify(written)}\n`);
    this.#states.set(next.job, written);
  }
}

/** Leaves out states that cannot be read. @throws UsageError when one is of another version */
export function readJobStates(folder: string): JobState[] {
  return namesIn(statesIn(folder)).flatMap((name) => {
    const path = join(statesIn(folder), name);
    const value = read(path);
    if (isOfOtherVersion(value)) {
      throw new UsageError(
        'bad_state_dir',
        `${path} is of another version of Promptmill`,
        'Finish what it serves with that version, or remove the file: the job then begins at its next time.',
      );
    }
    return jobState.safeParse(value).data ?? [];
  });
}

export async function noteSchedule(
  folder: string,
  jobs: readonly ScheduledJob[],
  broken: Found['broken'],
): Promise<void> {
  await writeDurably(scheduleIn(folder), `${JSON.stringify(jobs)}\n`);
  const problems: JobProblem[] = broken.map(({ path, error }) => ({
    path,
    code: error.code,
    problem: problemOf(error),
  }));
  await writeDurably(problemsIn(folder), `${JSON.stringify(problems)}\n`);
}

const problemOf = ({ message, hint }: UsageError): string => [message, hint ?? []].flat().join('\n');

/** For those who cannot open the embedded store of a running `serve`. */
export const notedSchedule = (folder: string): ScheduledJob[] =>
  scheduledJobs.safeParse(read(scheduleIn(folder))).data ?? [];

/** As of the last look of `serve`. */
export const notedProblems = (folder: string): JobProblem[] =>
  z.array(jobProblem).safeParse(read(problemsIn(folder))).data ?? [];

/** Problems noted that still exist: `serve` may be down, and a file repaired or removed since. */
export function standingProblems(folder: string, jobs: readonly ScheduledJob[]): JobProblem[] {
  const noted = notedProblems(folder);
  return [...standing(noted), ...clashes([...jobs, ...noted])];
}

function clashes(files: readonly { readonly path: string }[]): JobProblem[] {
  const { broken } = findScheduledJobs(files.map(({ path }) => path));
  return broken.flatMap(({ path, error }) =>
    error.code === OUTPUT_TWICE ? [{ path, code: error.code, problem: problemOf(error) }] : [],
  );
}

function standing(problems: readonly JobProblem[]): JobProblem[] {
  return problems.flatMap((noted) => {
    if (lstatSync(noted.path, { throwIfNoEntry: false }) === undefined) return [];
    if (noted.code === 'job_name_twice') return [noted];
    try {
      readSchedule(noted.path);
      return [];
    } catch (error) {
      return error instanceof UsageError ? [{ ...noted, problem: problemOf(error) }] : [noted];
    }
  });
}

/** Undefined for a file that is missing, closed to us, or not JSON. */
function read(path: string): unknown {
  try {
    return parseJson(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.json'));
  } catch {
    return [];
  }
}
