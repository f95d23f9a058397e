import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  readdirSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { abstains } from '../answer/answer.js';
import type { Settings } from '../config/settings.js';
import { errorText, UsageError } from '../errors.js';
import { makeFolder } from '../folder.js';
import { knownFormatOf } from '../output/format.js';
import { stemOf } from '../output/output-name.js';
import { isTaken, readOwn } from '../output/own-file.js';
import type { OutputFiles } from './output-files.js';

/**
 * What a run will write to must be there to be written, and nobody else's.
 * @throws UsageError
 */
export function assertUsable(files: OutputFiles, settings: Settings): void {
  assertWritable(files);
  assertPlainFiles(files, settings);
  assertOwnStem(files, settings);
  assertNotInput(files, settings);
}

/** Everything that the run will write must be possible now: at its end the calls are paid for (fault 52). */
function assertWritable(files: OutputFiles): void {
  const folder = dirname(files.output);
  try {
    makeFolder(folder);
    accessSync(folder, constants.W_OK);
    if (existsSync(files.part)) accessSync(files.part, constants.R_OK | constants.W_OK);
  } catch (error) {
    throw new UsageError(
      'output_not_writable',
      `cannot write ${files.output}: ${errorText(error)}`,
      'Name another file with --output, or change the permissions of the folder.',
    );
  }
}

/** The files for people, where the run will write them. */
const forPeople = ({ review, report }: OutputFiles, settings: Settings): readonly string[] => [
  ...(abstains(settings.answer) ? [review] : []),
  ...(settings.report ? [report] : []),
];

/**
 * With `--overwrite` the output would take the place of the input, which nothing brings back.
 * @throws UsageError `output_is_input`
 */
export function assertNotInput(files: OutputFiles, settings: Settings): void {
  const { input } = settings;
  if (input.path === '-' || !existsSync(input.path)) return;
  const read = realpathSync(input.path);
  for (const path of [files.output, files.part, ...forPeople(files, settings)]) {
    if (!existsSync(path) || realpathSync(path) !== read) continue;
    throw new UsageError(
      'output_is_input',
      `the input ${input.path} and ${path} are the same file`,
      'Name another output: output.path in the job file, or --output.',
    );
  }
}

/**
 * What stands at the names that a run writes to must be its to write: no link, which would lead elsewhere (fault 65), and
 * no pipe or device (fault 67).
 * @throws UsageError
 */
function assertPlainFiles(files: OutputFiles, settings: Settings): void {
  const { output, part, manifest, summary } = files;
  const names = [part, manifest, summary, ...forPeople(files, settings)];
  const own = [...names, ...names.map((path) => `${path}.tmp`)];
  for (const path of own) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isFile()) continue;
    throw refused(
      output,
      found.isSymbolicLink()
        ? `${path} is a symbolic link, and what it leads to is not this run's to write`
        : `${path} is ${found.isDirectory() ? 'a folder' : 'not a file'}`,
      'Remove it, or name another file with --output.',
    );
  }
  // The output itself may be a link: its name is given to the finished file, and what it leads to stays.
  const found = targetOf(output);
  if (found?.isDirectory())
    throw refused(
      output,
      `${output} is a folder`,
      'Name another file with --output, or move the folder away.',
    );
  if (found === undefined || found.isFile()) return;
  throw refused(
    output,
    `${output} is a pipe or a device, and an output gets its name when it is whole`,
    `Write to standard output instead: --output - > ${output}`,
  );
}

/** What the output's name leads to. @throws UsageError for links in a circle, and where a folder on the way is closed */
function targetOf(output: string): Stats | undefined {
  try {
    return statSync(output, { throwIfNoEntry: false });
  } catch (error) {
    throw refused(output, errorText(error), 'Name another file with --output, or remove the link.');
  }
}

const refused = (output: string, reason: string, hint: string): UsageError =>
  new UsageError('output_not_writable', `cannot write ${output}: ${reason}`, hint);

/**
 * `reviews.csv` and `reviews.jsonl` beside each other would write one summary: the second is refused (fault 66). A summary
 * whose output is gone may be replaced.
 * @throws UsageError `summary_in_use`
 */
function assertOwnStem({ output, summary }: OutputFiles, { retry }: Settings): void {
  const folder = dirname(output);
  const own = basename(output);
  const stem = stemOf(own);
  const unfinished = readdirSync(folder).find((name) => {
    const output = name.slice(0, -'.run.json'.length);
    return (
      name === `${output}.run.json` && output !== own && knownFormatOf(output) && stemOf(output) === stem
    );
  });
  const other = unfinished?.slice(0, -'.run.json'.length) ?? summaryAt(summary)?.output ?? null;
  if (other === null || other === own) return;
  if (unfinished === undefined && !isTaken(join(folder, other))) return;
  throw new UsageError(
    'summary_in_use',
    unfinished === undefined
      ? `${summary} is the summary of ${other}, and ${own} would have the same one`
      : `${unfinished} is an unfinished run of ${other}, and ${own} would have the same summary ${summary}`,
    retry === null
      ? `Give this output a name of its own, for example --output ${join(folder, `${stem}-2${own.slice(stem.length)}`)}`
      : `Move what belongs to ${other} elsewhere, and put the summary of ${own} beside it.`,
  );
}

/** What a summary is about: the name of its output, and the job. Null when there is none, or it is no summary. */
function summaryAt(path: string): { readonly output: string; readonly job: string } | null {
  try {
    const { output, job } = JSON.parse(readOwn(path));
    if (typeof output !== 'string' || typeof job !== 'string') return null;
    // Anybody may have written it: what would control a terminal is not shown.
    return { output: basename(output), job: job.replace(/\p{C}/gu, '\uFFFD') };
  } catch {
    return null;
  }
}

/**
 * Two jobs with one output would replace each other's answers at every tick (fault 108): a run that nobody looks at replaces only what
 * is its own job's.
 * @throws UsageError `output_of_another_job`, `output_exists`
 */
export function assertOwn(files: OutputFiles, { job }: Settings): void {
  const { output, summary, manifest } = files;
  const owner = isTaken(output) ? jobAt(summary) : job;
  if (owner === null) {
    throw new UsageError(
      'output_exists',
      `${output} exists: ${ownerOf(files, job)}`,
      'Move it away, or give the job another output.path.',
    );
  }
  const found = [owner, jobAt(manifest)].find((other) => other !== null && other !== job);
  if (found == null) return;
  throw new UsageError(
    'output_of_another_job',
    `${output} is the output of the job ${found}, and the job ${job} has the same output.path`,
    'Move that file away, or give one of the two another output.path.',
  );
}

/** The job that a summary or a manifest is of; null where there is none, or it does not say. */
function jobAt(path: string): string | null {
  try {
    const { job } = JSON.parse(readOwn(path));
    return typeof job === 'string' ? job.replace(/\p{C}/gu, '\uFFFD') : null;
  } catch {
    return null;
  }
}

/** Whose the file at the output's name is, in words, where no run goes on from it. */
export function ownerOf({ output, summary }: OutputFiles, job: string): string {
  const found = summaryAt(summary);
  if (found?.output !== basename(output))
    return "it may be anybody's, because no summary of a run is beside it";
  return found.job === job ? 'this job has finished already' : `it is the output of the job ${found.job}`;
}
