import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { UsageError } from '../errors.js';
import { writeDurably } from '../resume/manifest.js';
import { type Found, readSchedule } from './scheduled-jobs.js';

const jobProblem = z.object({ path: z.string(), code: z.string(), problem: z.string() });

/** A job file that `serve` was told to follow and cannot use, and why not. Others run meanwhile (fault 83). */
export type JobProblem = z.output<typeof jobProblem>;

const fileIn = (folder: string): string => join(folder, 'job-problems.json');

/** Notes them for who asks later. @param folder of what `serve` knows */
export async function noteProblems(folder: string, broken: Found['broken']): Promise<void> {
  const problems: JobProblem[] = broken.map(({ path, error }) => ({
    path,
    code: error.code,
    problem: error.message,
  }));
  await writeDurably(fileIn(folder), `${JSON.stringify(problems)}\n`);
}

/** What was noted last. */
export function notedProblems(folder: string): JobProblem[] {
  try {
    return z.array(jobProblem).parse(JSON.parse(readFileSync(fileIn(folder), 'utf8')));
  } catch {
    return [];
  }
}

/** Of what was noted, what is still so: `serve` may not be at work, and a file may have been mended or removed since. */
export function standingProblems(folder: string): JobProblem[] {
  return notedProblems(folder).flatMap((noted) => {
    if (lstatSync(noted.path, { throwIfNoEntry: false }) === undefined) return [];
    if (noted.code === 'job_name_twice') return [noted];
    try {
      readSchedule(noted.path);
      return [];
    } catch (error) {
      return error instanceof UsageError ? [{ ...noted, problem: error.message }] : [noted];
    }
  });
}
