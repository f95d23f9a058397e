import { createHash, randomBytes } from 'node:crypto';
import {
  accessSync,
  constants,
  createReadStream,
  existsSync,
  readdirSync,
  realpathSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Settings } from '../config/settings.js';
import { errorText, UsageError } from '../errors.js';
import { makeFolder } from '../folder.js';
import { isLiving, type Lock, LockedError, thisProcess } from '../lock.js';
import { fillOutputPath, type OutputFiles, outputFiles } from '../output/files.js';
import { fileAt, isTaken } from '../output/own-file.js';
import { isSealed } from '../output/writer.js';
import { newRunId } from '../queue/names.js';
import { emptyTally } from '../report/tally.js';
import { NO_CALLS } from '../store/counters.js';
import { assertSame, changedParts, partValues } from './fingerprint.js';
import { type Manifest, readManifest, removeManifest } from './manifest.js';
import { assertOwnStem, assertPlainFiles } from './output-place.js';
import { repair } from './repair.js';

/** The lock of the place of an output. */
export interface PlaceLock extends Lock {
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

/** The output of a run and what is there of it already. */
export interface OutputTarget extends OutputPlace {
  /** The output has its name already, with the rows of the manifest in it: the run was killed then (fault 42). */
  readonly renamed: boolean;
  /** The run to continue, unfinished or finished with its first rows only; null for a new one. */
  readonly unfinished: Manifest | null;
  /** The run that is given up: by `--restart`, or because a damaged part file is continued under another name. */
  readonly discarded: Manifest | null;
  /** What a person should know of the part file before rows are called again. */
  readonly warning: string | null;
}

/**
 * Finds out whether a run waits at its place to be continued, before anything costly is done.
 * @throws UsageError when the output is finished already, cannot be written (fault 52), or is damaged beyond repair
 */
export async function findTarget(
  settings: Settings,
  now: Date,
  place: OutputPlace = placeOutput(settings, now),
): Promise<OutputTarget> {
  const { files } = place;
  assertWritable(files);
  assertPlainFiles(files);
  const left = readOrDiscard(files.manifest, settings.restart);
  if (left !== null && left.finished === undefined) assertLeft(files, left);
  assertOwnStem(files);
  assertNotInput(files, settings);
  if (left !== null && !settings.restart && goesOn({ files, manifest: left }, settings))
    return await resume(place, left, settings, now);
  if (isTaken(files.output) && !settings.overwrite) {
    throw new UsageError(
      'output_exists',
      `${files.output} exists: this job has finished already`,
      'Replace it with --overwrite, or name another file with --output.',
    );
  }
  return { ...place, unfinished: null, discarded: left, renamed: false, warning: null };
}

/** Where the records go; a run of the job that goes on has decided that, where its path has a date or a run in it. */
export function placeOutput(settings: Settings, now: Date): OutputPlace {
  const left = hasPlaceholder(settings.output.path) ? findUnfinished(settings) : null;
  const run = newRunId(now, randomBytes(3).toString('hex'));
  const files =
    left !== null && goesOn(left, settings)
      ? left.files
      : outputFiles(fillOutputPath(settings.output.path, run, now));
  return { run, files, lock: null };
}

/**
 * The target that stands once the input is read. Where the date or the run is in the path, a run over the first rows of
 * another input or of another job is left as it is, and a new one begins beside it.
 */
export async function settleTarget(
  target: OutputTarget | null,
  settings: Settings,
  print: Record<string, string>,
  now: Date,
): Promise<OutputTarget | null> {
  if (target?.unfinished?.finished === undefined) return target;
  if (changedParts(target.unfinished.fingerprint, print).length === 0) return target;
  const run = newRunId(now, randomBytes(3).toString('hex'));
  const files = outputFiles(fillOutputPath(settings.output.path, run, now));
  if (files.output === target.files.output) return target;
  await target.lock?.take(files.output);
  return await findTarget(settings, now, { run, files, lock: target.lock });
}

/** Whether a run is there to be continued: one that has finished with its first rows is not, where it is to be replaced. */
function goesOn({ files, manifest }: Left, { overwrite, restart }: Settings): boolean {
  if (manifest.finished === undefined) return true;
  return !overwrite && !restart && existsSync(files.output);
}

/** A limit below what is written already asks for something that is there, or for less. */
function assertMore(files: OutputFiles, { rows, finished }: Manifest, { input }: Settings): void {
  if (input.limit === null || input.limit > rows || (input.limit === rows && finished === undefined)) return;
  const first = rows === 1 ? 'its first row' : `its first ${rows} rows`;
  throw new UsageError(
    'output_exists',
    finished === undefined
      ? `${files.part} has ${first} already, more than --limit ${input.limit}`
      : `${files.output} has finished already with ${first}`,
    finished === undefined
      ? 'Go on with a larger --limit, or without one for all rows; --restart discards what is there.'
      : 'Go on with a larger --limit, or without one for all rows; --overwrite begins anew.',
  );
}

/** The digest of a file, as `sha256sum` shows it. */
export async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path)) hash.update(piece);
  return hash.digest('hex');
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

/** An earlier version has its lock in the state directory; a run with another one is found by its manifest (fault 48). */
function assertLeft(files: OutputFiles, { process: last }: Manifest): void {
  if (last.pid === process.pid || !isLiving(last)) return;
  throw new LockedError(files.output, { ...last, purpose: `writing ${files.output}` });
}

/** The manifest to work with: the unfinished one, counted up, or a new one. */
export function beginManifest(
  target: OutputTarget | null,
  settings: Settings,
  print: Record<string, string>,
  now: Date,
): Manifest {
  const { unfinished, files } = target ?? {};
  if (unfinished && files) {
    const values = { before: unfinished.values ?? {}, now: partValues(settings) };
    assertSame(unfinished.fingerprint, print, files.manifest, unfinished.finished !== undefined, values);
    const { finished, opened, ...left } = unfinished;
    return {
      ...left,
      execution: unfinished.execution + 1,
      process: thisProcess(),
      overwrite: settings.overwrite || (finished === undefined && (unfinished.overwrite ?? true)),
      // The ledger forgets a run that has finished.
      ...(opened && finished === undefined && { opened }),
    };
  }
  return {
    v: 1,
    run: target?.run ?? newRunId(now, randomBytes(3).toString('hex')),
    job: settings.job,
    execution: 1,
    process: thisProcess(),
    started_at: now.toISOString(),
    worked_ms: 0,
    fingerprint: print,
    values: partValues(settings),
    chunk_size: settings.limits.chunkSize,
    store: null,
    rows: 0,
    bytes: 0,
    overwrite: settings.overwrite,
    finishing: false,
    calls: NO_CALLS,
    tally: emptyTally(),
  };
}

/** A run that an earlier process has left. */
interface Left {
  readonly manifest: Manifest;
  readonly files: OutputFiles;
}

/** What stands for a placeholder in the path of an output. */
const FILLED = { date: String.raw`\d{4}-\d\d-\d\d`, run: String.raw`\d{8}-\d{6}-[0-9a-f]{6}` } as const;
const PLACEHOLDER = /\{\{\s*(date|run)\s*\}\}/g;

export const hasPlaceholder = (path: string): boolean => path.search(PLACEHOLDER) !== -1;

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
function readOrDiscard(path: string, restart: boolean): Manifest | null {
  try {
    return readManifest(path);
  } catch (error) {
    if (!restart || !(error instanceof UsageError && error.code === 'manifest_damaged')) throw error;
    removeManifest(path);
    return null;
  }
}

/** Outputs with a manifest whose path fits the one with placeholders, newest name first. */
function filledPaths(path: string): string[] {
  const segments = path.split('/');
  let found = [path.startsWith('/') ? '/' : '.'];
  for (const [i, segment] of segments.entries()) {
    const last = i === segments.length - 1;
    const name = last ? `${segment}.run.json` : segment;
    found = found.flatMap((folder) => namesIn(folder, name).map((match) => join(folder, match)));
  }
  return found
    .map((manifest) => manifest.slice(0, -'.run.json'.length))
    .sort()
    .reverse();
}

/** Entries of a folder that fit a name with placeholders. */
function namesIn(folder: string, name: string): string[] {
  if (name === '' || !hasPlaceholder(name)) return [name];
  const pattern = name
    .split(PLACEHOLDER)
    .map((part, i) =>
      i % 2 === 1 ? FILLED[part as keyof typeof FILLED] : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    )
    .join('');
  const fits = new RegExp(`^${pattern}$`);
  return existsSync(folder) ? readdirSync(folder).filter((entry) => fits.test(entry)) : [];
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

/** Continues a run; when its part file has lost what the manifest counts, with the records that are left. */
async function resume(
  place: OutputPlace,
  manifest: Manifest,
  settings: Settings,
  now: Date,
): Promise<OutputTarget> {
  const { files } = place;
  const { run } = manifest;
  assertMore(files, manifest, settings);
  const target = { ...place, run, unfinished: manifest, discarded: null, renamed: false, warning: null };
  if (manifest.finished !== undefined) {
    if ((await sha256Of(files.output)) === manifest.finished.sha256) return { ...target, renamed: true };
    throw new UsageError(
      'output_changed',
      `${files.output} was changed since it got its first ${manifest.rows} rows`,
      'Put it back to go on with the rows behind them, begin anew with --overwrite, or name another file with --output.',
    );
  }
  const part = await fileAt(files.part);
  const named = await fileAt(files.output);
  // A part file beside it is the same file under its first name, or a copy that was begun to go on with.
  if (named !== null && (part === null || manifest.finishing === true)) {
    if (await isFinished(files.output, named.size, manifest)) {
      rmSync(files.part, { force: true });
      return { ...target, renamed: true };
    }
  }
  const size = part?.size;
  if (named !== null && !settings.overwrite && !(await mayReplace(files.output, manifest))) {
    throw new UsageError(
      'output_exists',
      `${files.output} was not there when the unfinished run of ${files.manifest} began, and is there now`,
      'Move it away, or replace it with --overwrite.',
    );
  }
  if (size !== undefined && size >= manifest.bytes) {
    if (await isSealedAs(files.part, manifest)) return target;
    throw new UsageError(
      'part_foreign',
      `${files.part} is not what ${files.manifest} counts: another file has its name`,
      'Restore the part file, or start over with --restart; rows already answered are then called again.',
    );
  }
  // Nothing but the header was in it.
  if (manifest.rows === 0) return { ...target, unfinished: { ...manifest, bytes: 0 } };
  const fresh = newRunId(now, randomBytes(3).toString('hex'));
  const damage = `${files.part} has ${size ?? 'no'} bytes where ${files.manifest} counts ${manifest.bytes}`;
  // A missing file is more likely moved away than lost. The lost rows are called again, and with `hold` none may be.
  const isRepaired = size !== undefined && settings.limits.unknownOutcome === 'retry';
  const repaired = !isRepaired ? null : await repair(files.part, size, manifest, settings, fresh);
  if (repaired === null) {
    throw new UsageError(
      'part_damaged',
      damage,
      'Restore the part file, or start over with --restart; rows already answered are then called again.',
    );
  }
  const again = manifest.rows - repaired.rows;
  const warning = `${damage}: the last ${again} of its rows are lost, and they are called again`;
  return { ...target, run: fresh, unfinished: repaired, discarded: manifest, warning };
}

/** True when the run was killed between giving the output its name and dropping the manifest (fault 42). */
async function isFinished(output: string, size: number, manifest: Manifest): Promise<boolean> {
  // An earlier version did not say that it is finishing.
  const { finishing = manifest.bytes > 0 } = manifest;
  return finishing && size === manifest.bytes && (await isSealedAs(output, manifest));
}

/** An earlier version did not seal its part files. */
const isSealedAs = async (path: string, { bytes, seal }: Manifest): Promise<boolean> =>
  seal === undefined || (await isSealed(path, bytes, seal));

/** Whether the output may take the place of what has its name: anything with `--overwrite`, else its own first rows. */
export async function mayReplace(output: string, { overwrite = true, replaces }: Manifest): Promise<boolean> {
  return overwrite || (replaces !== undefined && existsSync(output) && (await sha256Of(output)) === replaces);
}
