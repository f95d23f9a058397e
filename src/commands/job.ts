import { InvalidArgumentError } from 'commander';
import { readEnvironment } from '../config/environment.js';
import { readJobFile } from '../config/job-file.js';
import type { Concurrency } from '../config/job-schema.js';
import type { RunFlags, Settings } from '../config/settings.js';
import { either, UsageError } from '../core/errors.js';
import { type OpenedJob, openedJob } from '../library/opened-job.js';
import { jobOfOutput } from '../library/output-job.js';
import type { FoundOutput } from '../resume/finished-output.js';
import { INPUT_FORMAT_NAMES } from '../source/format.js';

/** @throws UsageError for a job that cannot run, whatever its input */
export function openJob(path: string, flags: RunFlags): OpenedJob {
  const environment = readEnvironment(process.env);
  // As a field of the job, it is in the summary, by which a retry knows the columns.
  const done = flags.done?.length ? [`input.done=${JSON.stringify(flags.done)}`] : [];
  return openedJob(readJobFile(path, environment, [...(flags.set ?? []), ...done]), environment, flags);
}

/** The job of a finished output, which says how to read its answers. */
export interface AnsweredJob {
  readonly settings: Settings;
  readonly file: string;
}

/**
 * @param named the value of `--job`. @default the job file named in the summary
 * @throws UsageError when the job is unknown or has free-text answers
 */
export function openAnswered(found: FoundOutput, named: string | undefined): AnsweredJob {
  const file = jobOfOutput(found, named);
  const { settings } = openJob(file, { set: named === undefined ? found.jobSet : [] });
  if (settings.answer.kind !== 'text') return { settings, file };
  throw new UsageError(
    'no_answer',
    `${file} has no answer: its answers are free text, and no text is the right one`,
    'Say in the job file what the answers are: labels, number or json.',
  );
}

/** For an option that may be repeated. */
const repeated = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

export const GOLD = [
  '--gold <file|column>',
  'where the right answers are; several: the first that has one (default: answer.gold)',
  repeated,
] as const;

export const INPUT = ['--input <file>', 'read rows from this file; - is standard input'] as const;
export const FORMAT = [
  '--format <format>',
  `format of the input: ${either(INPUT_FORMAT_NAMES)} (default: from its name)`,
] as const;

export const CONCURRENCY = [
  '--concurrency <n>',
  'most calls in flight at once, or auto',
  (value: string): Concurrency => (value === 'auto' ? value : wholeNumber(value)),
] as const;

export const SET = [
  '--set <path=value>',
  'another value for a field of the job file: parameters.temperature=0.7; may be repeated',
  repeated,
] as const;

export const DONE = [
  '--done <file>',
  'answers that are known already: results of a hosted batch, or an earlier output; may be repeated',
  repeated,
] as const;

export const LIMIT = ['--limit <n>', 'only the first n rows', wholeNumber] as const;
export const SAMPLE = ['--sample <n>', 'only n rows, chosen at random', wholeNumber] as const;
export const SEED = [
  '--seed <n>',
  'for --sample: another number chooses other rows (default: 0)',
  seed,
] as const;
export const BY = [
  '--by <column>',
  'for --sample: equal numbers of rows for each value of this column',
] as const;

export function seed(value: string): number {
  if (/^\d{1,9}$/.test(value)) return Number(value);
  throw new InvalidArgumentError(`must be a whole number from 0 to 999999999, got ${value}`);
}

export function wholeNumber(value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value);
  throw new InvalidArgumentError(`must be a whole number of at least 1, got ${value}`);
}
