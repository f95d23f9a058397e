import { randomBytes } from 'node:crypto';
import { accessSync, constants, existsSync, lstatSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import type { Settings } from '../config/settings.js';
import { errorText, UsageError } from '../errors.js';
import { makeFolder } from '../folder.js';
import type { Halt } from '../halt.js';
import { acquireLock, type Lock, LockedError } from '../lock.js';
import {
  filledPaths,
  fillOutputPath,
  hasPlaceholder,
  type OutputFiles,
  outputFiles,
} from '../output/files.js';
import { OUTPUT_FORMATS } from '../output/format.js';
import { isTaken, readOwn } from '../output/own-file.js';
import { WriteError } from '../output/writer.js';
import { newRunId } from '../queue/names.js';
import { type Manifest, readManifest, removeManifest } from './manifest.js';

/** The lock of the place of an output. */
interface PlaceLock extends Lock {
  /** Takes one more place for the same run. @throws LockedError */
  take(output: string): Promise<void>;
}

/** Where a run writes. */
export interface OutputPlace {
  /** Name of a new run; it may be in the path. */
  readonly run: string;
  readonly files: OutputFiles;
  /** Keeps other runs away; null where nothing else runs. */
  readonly lock: PlaceLock | null;
}

/** Says a line to a person. */
type Say = (line: string) => void;

/**
 * Decides where the records go, and takes the place for this run alone (fault 60). The lock stands beside the output, so
 * it is the same for every run that could write there, whatever its working directory, state directory or container; it is
 * taken before anything is read.
 *
 * It is named after the stem: `reviews.csv` and `reviews.jsonl` would have one summary (fault 66). A path with a date or a
 * run in it has a lock as it stands, before its placeholders are filled, and one for the file that it comes to.
 * @returns null when the output is standard output; it needs no lock
 * @throws LockedError when another run has the place
 * @throws UsageError `output_not_writable`
 */
export async function lockOutput(
  settings: Settings,
  now: Date,
  { say, halt }: { readonly say: Say; readonly halt: Halt },
): Promise<OutputPlace | null> {
  const { path } = settings.output;
  if (path === '-') return null;
  const held = new Locks((output) => lock(output, say, halt.signal));
  try {
    await held.take(path);
    const place = placeOutput(settings, now);
    if (place.files.output !== path) await held.take(place.files.output);
    return { ...place, lock: held };
  } catch (error) {
    held.release();
    throw error;
  }
}

/** The locks of one run: of its path as it stands, and of the files that it comes to. */
class Locks implements PlaceLock {
  readonly #held: Lock[] = [];

  constructor(private readonly lock: (output: string) => Promise<Lock>) {}

  async take(output: string): Promise<void> {
    this.#held.push(await this.lock(output));
  }

  get tookOver(): boolean {
    return this.#held.some((each) => each.tookOver);
  }

  isHeld(): boolean {
    return this.#held.every((each) => each.isHeld());
  }

  release(): void {
    for (const each of this.#held) each.release();
  }
}

async function lock(output: string, say: Say, signal: AbortSignal): Promise<Lock> {
  const path = lockPath(output);
  const purpose = `writing ${output}`;
  try {
    makeFolder(dirname(path));
    accessSync(dirname(path), constants.R_OK | constants.W_OK | constants.X_OK);
    return await acquireLock(path, {
      purpose,
      signal,
      onWatch: ({ pid, host, purpose: work }, silentMs) =>
        say(
          `${output} was last held by process ${pid} on ${host} (${work}), in another container or on another machine; ` +
            `this run goes on when that one has been silent for ${silentMs / 1000} s`,
        ),
    });
  } catch (error) {
    if (error instanceof LockedError) throw heldBy(output, error.holder.purpose === purpose, error);
    if (signal.aborted || error instanceof UsageError) throw error;
    throw new UsageError(
      'output_not_writable',
      `cannot write ${output}: ${errorText(error)}`,
      new WriteError(output, error).full
        ? 'Free some space, or name another file with --output.'
        : 'Name another file with --output, or change the permissions of the folder.',
    );
  }
}

function heldBy(output: string, isSame: boolean, { holder }: LockedError): LockedError {
  if (isSame) return new LockedError(output, holder);
  return new LockedError(
    output,
    holder,
    `Wait until that process has ended, or end it. If it writes another output: both would have the summary ${outputFiles(output).summary}, so give this one a name of its own with --output.`,
  );
}

/** `out/reviews.csv` → `out/.reviews.lock`; with placeholders in the folder the lock is above them. */
function lockPath(output: string): string {
  const segments = output.split('/');
  const first = segments.findIndex(hasPlaceholder);
  const depth = first === -1 ? segments.length - 1 : first;
  const folder = segments.slice(0, depth).join('/');
  const name = segments
    .slice(depth)
    .join('%2F')
    .replaceAll(/[{}\s]/g, (mark) => (/\s/.test(mark) ? '' : mark));
  const stem = basename(name, extname(name));
  return join(folder === '' && output.startsWith('/') ? '/' : folder, `.${stem}.lock`);
}

/** The name of a run that begins now. */
export const newRun = (now: Date): string => newRunId(now, randomBytes(3).toString('hex'));

/** Where the records go; a run of the job that goes on has decided that, where its path has a date or a run in it. */
export function placeOutput(settings: Settings, now: Date): OutputPlace {
  const left = hasPlaceholder(settings.output.path) ? findUnfinished(settings) : null;
  const run = newRun(now);
  const files =
    left !== null && goesOn(left, settings)
      ? left.files
      : outputFiles(fillOutputPath(settings.output.path, run, now));
  return { run, files, lock: null };
}

/** Whether a run is there to be continued: one that has finished with its first rows is not, where it is to be replaced. */
export function goesOn({ files, manifest }: Left, { overwrite, restart }: Settings): boolean {
  if (manifest.finished === undefined) return true;
  return !overwrite && !restart && existsSync(files.output);
}

/** A run that an earlier process has left. */
interface Left {
  readonly manifest: Manifest;
  readonly files: OutputFiles;
}

/**
 * The unfinished run of this job's output. With `{{date}}` or `{{run}}` in the path it may have another name than
 * a new run would get: a run that began before midnight is continued after it.
 */
function findUnfinished({ output, job, restart }: Settings): Left | null {
  for (const path of filledPaths(output.path)) {
    const files = outputFiles(path);
    const manifest = readOrDiscard(files.manifest, restart);
    // Another job's run is none of ours, however its name is made.
    if (manifest?.job === job) return { manifest, files };
  }
  return null;
}

/** A damaged manifest is in the way of a resume, not of `--restart`. */
export function readOrDiscard(path: string, restart: boolean): Manifest | null {
  try {
    return readManifest(path);
  } catch (error) {
    if (!restart || !(error instanceof UsageError && error.code === 'manifest_damaged')) throw error;
    removeManifest(path);
    return null;
  }
}

/**
 * What a run will write to must be there to be written, and nobody else's.
 * @throws UsageError
 */
export function assertUsable(files: OutputFiles, settings: Settings): void {
  assertWritable(files);
  assertPlainFiles(files);
  assertOwnStem(files);
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

/** With `--overwrite` the output would take the place of the input, which nothing brings back. */
function assertNotInput({ output, part }: OutputFiles, { input }: Settings): void {
  if (input.path === '-' || !existsSync(input.path)) return;
  const read = realpathSync(input.path);
  for (const path of [output, part]) {
    if (!existsSync(path) || realpathSync(path) !== read) continue;
    throw new UsageError(
      'output_is_input',
      `the input ${input.path} and ${path} are the same file`,
      'Name another output with --output.',
    );
  }
}

/**
 * What stands at the names that a run writes to must be its to write: no link, which would lead elsewhere (fault 65), and
 * no pipe or device (fault 67).
 * @throws UsageError
 */
function assertPlainFiles(files: OutputFiles): void {
  const { output, part, manifest, summary } = files;
  const own = [part, manifest, summary, ...[part, manifest, summary].map((path) => `${path}.tmp`)];
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
  const found = statSync(output, { throwIfNoEntry: false });
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

const refused = (output: string, reason: string, hint: string): UsageError =>
  new UsageError('output_not_writable', `cannot write ${output}: ${reason}`, hint);

/**
 * `reviews.csv` and `reviews.jsonl` beside each other would write one summary: the second is refused (fault 66). A summary
 * whose output is gone may be replaced.
 * @throws UsageError `summary_in_use`
 */
function assertOwnStem({ output, summary }: OutputFiles): void {
  const folder = dirname(output);
  const own = basename(output);
  const stem = own.slice(0, own.length - extname(own).length);
  const unfinished = readdirSync(folder).find(
    (name) =>
      name !== `${own}.run.json` && name.startsWith(`${stem}.`) && isUnfinished(name.slice(stem.length)),
  );
  const other = unfinished?.slice(0, -'.run.json'.length) ?? outputOf(summary);
  if (other === null || other === own) return;
  if (unfinished === undefined && !isTaken(join(folder, other))) return;
  throw new UsageError(
    'summary_in_use',
    unfinished === undefined
      ? `${summary} is the summary of ${other}, and ${own} would have the same one`
      : `${unfinished} is an unfinished run of ${other}, and ${own} would have the same summary ${summary}`,
    `Give this output a name of its own, for example --output ${join(folder, `${stem}-2${extname(own)}`)}`,
  );
}

/** Whether this is the rest of a manifest's name, behind the stem of its output. */
const isUnfinished = (rest: string): boolean =>
  OUTPUT_FORMATS.some(({ endings }) => endings.some((ending) => rest.toLowerCase() === `${ending}.run.json`));

/** The name of the output that a summary is about; null when there is none, or it is no summary. */
function outputOf(summary: string): string | null {
  try {
    const { output } = JSON.parse(readOwn(summary));
    return typeof output === 'string' ? basename(output) : null;
  } catch {
    return null;
  }
}
