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
import { errorText, UsageError } from '../core/errors.js';
import { makeFolder } from '../core/folder.js';
import { knownFormatOf } from '../output/format.js';
import { stemOf } from '../output/output-name.js';
import { isTaken, readPlainFile } from '../output/plain-file.js';
import { assertOwnErrors } from './errors-file.js';
import type { OutputFiles } from './output-files.js';

/** @throws UsageError when a file that the run will write cannot be written, or belongs to something else */
export function assertUsable(files: OutputFiles, settings: Settings): void {
  assertWritable(files);
  assertPlainFiles(files, settings);
  assertOwnStem(files, settings);
  assertNotInput(files, settings);
  if (settings.output.format.isError) assertOwnErrors(files);
}

/** Checked first: at the end of the run the calls are paid for (fault 52). */
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

const besides = ({ review, report, errors }: OutputFiles, settings: Settings): readonly string[] => [
  ...(abstains(settings.answer) ? [review] : []),
  ...(settings.report ? [report] : []),
  ...(settings.output.format.isError ? [errors] : []),
];

/** @throws UsageError `output_is_input`: `--overwrite` would replace the input, or paid answers, irrecoverably */
export function assertNotInput(files: OutputFiles, settings: Settings): void {
  const { path: input, done } = settings.input;
  const written = [files.output, files.part, ...besides(files, settings)].filter((path) => existsSync(path));
  for (const read of input === '-' ? done : [input, ...done]) {
    if (!existsSync(read)) continue;
    const same = written.find((path) => realpathSync(path) === realpathSync(read));
    if (same === undefined) continue;
    throw new UsageError(
      'output_is_input',
      `${read === input ? `the input ${read}` : `${read}, which input.done names,`} and ${same} are the same file`,
      'Name another output: output.path in the job file, or --output.',
    );
  }
}

/** @throws UsageError for links, which lead elsewhere (fault 65), and for pipes or devices (fault 67) */
function assertPlainFiles(files: OutputFiles, settings: Settings): void {
  const { output, part, manifest, summary } = files;
  const names = [part, manifest, summary, ...besides(files, settings)];
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
  // The output itself may be a link: its name is given to the finished file, and the link's target stays.
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

/** @throws UsageError for circular links, and for a closed folder on the way */
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
 * `reviews.csv` and `reviews.jsonl` would share one summary: the second is refused (fault 66). A summary
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

function summaryAt(path: string): { readonly output: string; readonly job: string } | null {
  try {
    const { output, job } = JSON.parse(readPlainFile(path));
    if (typeof output !== 'string' || typeof job !== 'string') return null;
    // Anyone may have written it: control characters are not shown.
    return { output: basename(output), job: job.replace(/\p{C}/gu, '\uFFFD') };
  } catch {
    return null;
  }
}

/**
 * Two scheduled jobs with one output would replace each other's answers at every tick (fault 108): a
 * scheduled run replaces only its own job's output.
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

function jobAt(path: string): string | null {
  try {
    const { job } = JSON.parse(readPlainFile(path));
    return typeof job === 'string' ? job.replace(/\p{C}/gu, '\uFFFD') : null;
  } catch {
    return null;
  }
}

/** Used when no run continues the file. */
export function ownerOf({ output, summary }: OutputFiles, job: string): string {
  const found = summaryAt(summary);
  if (found?.output !== basename(output))
    return "it may be anybody's, because no summary of a run is beside it";
  return found.job === job ? 'this job has finished already' : `it is the output of the job ${found.job}`;
}
