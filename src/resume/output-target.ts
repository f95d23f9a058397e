import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { basename } from 'node:path';
import { type FinishedSummary, summaryAt } from '../account/read-summary.js';
import type { StoredSummary } from '../account/summary.js';
import { abstains } from '../answer/answer.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import type { Halt } from '../core/halt.js';
import { isLiving, LockedError } from '../core/lock.js';
import { fileAt, isTaken, sha256Of } from '../output/plain-file.js';
import { isSealed } from '../output/writer.js';
import { newRunId } from '../queue/names.js';
import { changedParts } from './fingerprint.js';
import { openFinished } from './finished-output.js';
import { type Manifest, ofPartFile, readManifest, removeManifest } from './manifest.js';
import { assertOwn, assertUsable, ownerOf } from './output-checks.js';
import {
  filledPaths,
  fillOutputPath,
  hasPlaceholder,
  type OutputFiles,
  outputFiles,
  rejectedFiles,
} from './output-files.js';
import { OutputLock } from './output-lock.js';
import { salvagePartFile } from './salvage.js';

export interface OutputLocation {
  /** Name of a new run; may be part of the path. */
  readonly run: string;
  readonly files: OutputFiles;
  /** Null when nothing else can run. */
  readonly lock: OutputLock | null;
}

export interface OutputTarget extends OutputLocation {
  /** The output has its name already, with the rows of the manifest: the run was killed then (fault 42). */
  readonly renamed: boolean;
  /** Null when there is none to continue. */
  readonly unfinished: Manifest | null;
  /** Set when rows are added to a finished output: its first rows (`--limit`), or its input has grown (`--extend`). */
  readonly finished?: FinishedSummary;
  /** Set when the output is a sample of its input, which this run replaces at its end. */
  readonly sample?: FinishedSummary;
  /** The run to give up: by `--restart`, or because a damaged part file continues under another name. */
  readonly discarded: Manifest | null;
  /** Warning about the part file, shown before rows are called again. */
  readonly warning: string | null;
  /** What a new retry begins with; absent for any other run. */
  readonly retry?: Pick<Manifest, 'retry' | 'replaces'>;
}

/**
 * Finds the place of the output, locks it for this run, and looks for a run to continue. Called before
 * anything is read.
 * @returns null for standard output, which needs no lock
 * @throws LockedError when another run has the place
 * @throws UsageError when the output is finished already, cannot be written (fault 52), or is too damaged
 * to salvage
 */
export async function takeOutput(
  settings: Settings,
  now: Date,
  context: { readonly say: (line: string) => void; readonly halt: Halt },
): Promise<OutputTarget | null> {
  const { path } = settings.output;
  if (path === '-') return null;
  const lock = new OutputLock(context);
  try {
    await lock.take(path);
    const place = placeOutput(settings, now, lock);
    if (place.files.output !== path) await lock.take(place.files.output);
    // Someone may be working on the rejected answers of an earlier run.
    if (settings.scheduled && settings.require !== null) await lock.take(rejectedFiles(place.files).output);
    return await findTarget(settings, now, place);
  } catch (error) {
    lock.release();
    throw error;
  }
}

export const newRun = (now: Date): string => newRunId(now, randomBytes(3).toString('hex'));

/** An unfinished run decides the place when the path has a date or a run. */
function placeOutput(settings: Settings, now: Date, lock: OutputLock | null): OutputLocation {
  const files = hasPlaceholder(settings.output.path) ? findBegun(settings) : null;
  const place = newPlace(settings, now, lock);
  return files === null ? place : { ...place, files };
}

function newPlace({ output }: Settings, now: Date, lock: OutputLock | null): OutputLocation {
  const run = newRun(now);
  return { run, files: outputFiles(fillOutputPath(output.path, run, now)), lock };
}

/**
 * The unfinished run of this job's output, or else the newest output where it has the first rows only. With
 * `{{date}}` or `{{run}}` in the path its name may differ from a new run's: a run that began before midnight
 * continues after it.
 */
function findBegun({ output, job, restart, overwrite }: Settings): OutputFiles | null {
  for (const path of filledPaths(output.path, '.run.json')) {
    const files = outputFiles(path);
    const manifest = readOrDiscard(files.manifest, restart);
    // Skips other jobs' runs, whatever their names, and retries, which belong to a finished output.
    if (manifest?.job === job && manifest.retry === undefined) return files;
  }
  if (restart || overwrite) return null;
  for (const path of filledPaths(output.path, '')) {
    const files = outputFiles(path);
    const summary = summaryAt(files.summary);
    if (summary?.job === job && isOf(summary, path)) return summary.beyond === undefined ? null : files;
  }
  return null;
}

const isOf = (summary: StoredSummary, output: string): boolean =>
  basename(summary.output) === basename(output);

/** Whether the output has only the first rows of its input, or this job's sample of it; null for any other. */
function partOf({ output, summary: path }: OutputFiles, { job }: Settings): 'first' | 'sample' | null {
  const summary = summaryAt(path);
  if (!isTaken(output) || summary?.beyond === undefined || !isOf(summary, output)) return null;
  if (summary.sample === undefined) return 'first';
  return summary.job === job ? 'sample' : null;
}

/** A damaged manifest blocks a resume, but not `--restart`. */
function readOrDiscard(path: string, restart: boolean): Manifest | null {
  try {
    return readManifest(path);
  } catch (error) {
    if (!restart || !(error instanceof UsageError && error.code === 'manifest_damaged')) throw error;
    removeManifest(path);
    return null;
  }
}

/**
 * Looks for a run to continue, before anything costly is done.
 * @throws UsageError when the output is finished already, cannot be written (fault 52), or is too damaged
 * to salvage
 */
export async function findTarget(
  settings: Settings,
  now: Date,
  place: OutputLocation = placeOutput(settings, now, null),
): Promise<OutputTarget> {
  const { files } = place;
  assertUsable(files, settings);
  if (settings.scheduled) {
    assertOwn(files, settings);
    if (settings.require !== null) {
      assertUsable(rejectedFiles(files), settings);
      assertOwn(rejectedFiles(files), settings);
    }
  }
  const left = readOrDiscard(files.manifest, settings.restart);
  if (left !== null) {
    assertLeft(files, left);
    assertSameKind(files, left, settings);
    if (!settings.restart) return await continued(place, left, settings, now);
  }
  if (settings.retry !== null)
    return { ...place, unfinished: null, discarded: left, renamed: false, warning: null };
  if (isTaken(files.output) && !settings.overwrite) {
    const part = partOf(files, settings);
    if (part === 'sample') return await replacingSample(place, settings, left);
    if (settings.extend || part === 'first') return await growing(place, settings, left);
    throw new UsageError(
      'output_exists',
      `${files.output} exists: ${ownerOf(files, settings.job)}`,
      'Replace it with --overwrite, or name another file with --output.',
    );
  }
  assertNoReview(files, settings);
  return { ...place, unfinished: null, discarded: left, renamed: false, warning: null };
}

function assertSameKind({ output, manifest }: OutputFiles, { retry }: Manifest, settings: Settings): void {
  const { restart, overwrite } = settings;
  if (settings.retry !== null && retry === undefined) {
    throw new UsageError(
      'run_unfinished',
      `${manifest} is a run that is not finished with all rows of its input, and it goes on from ${output}`,
      'The command that began it goes on with it: promptmill run JOB. Retry its rows then.',
    );
  }
  if (settings.retry !== null || retry === undefined || (restart && overwrite)) return;
  throw new UsageError(
    'retry_unfinished',
    `${manifest} is an unfinished retry of ${output}`,
    `Go on with it: promptmill retry ${output} ${retry.asked}`,
  );
}

/** The existing review may contain people's answers. */
function assertNoReview({ review }: OutputFiles, { answer, overwrite }: Settings): void {
  if (!abstains(answer) || overwrite || !isTaken(review)) return;
  throw new UsageError(
    'review_exists',
    `${review} exists, and the rows for review of this run would take its place`,
    'Move it away, replace it with --overwrite, or name another file with --output.',
  );
}

const firstRows = (rows: number): string => (rows === 1 ? 'its first row' : `its first ${rows} rows`);

/** A limit below the written rows asks for rows that exist already. */
function assertMore(files: OutputFiles, { rows }: Manifest, { input }: Settings): void {
  if (input.limit === null || input.limit >= rows) return;
  throw new UsageError(
    'output_exists',
    `${files.part} has ${firstRows(rows)} already, more than --limit ${input.limit}`,
    'Go on with a larger --limit, or without one for all rows; --restart discards what is there.',
  );
}

/** The run adds rows to its finished output, which must be as it was written. */
async function growing(
  place: OutputLocation,
  { input, restart }: Settings,
  left: Manifest | null,
): Promise<OutputTarget> {
  const { output } = place.files;
  const { summary: finished } = await openFinished(output, 'refuse');
  const first = firstRows(finished.rows.total);
  if (restart && left !== null) {
    throw new UsageError(
      'output_exists',
      `${output} has finished with ${first}, and the unfinished run is discarded with them only`,
      'Start over with --restart --overwrite, or leave out --restart to go on with the unfinished run.',
    );
  }
  if (restart) {
    throw new UsageError(
      'output_exists',
      `${output} has finished with ${first}, and --restart discards only an unfinished run`,
      'Start over with --overwrite, or leave out --restart to go on with the rows behind them.',
    );
  }
  if (input.limit !== null && input.limit <= finished.rows.total) {
    throw new UsageError(
      'output_exists',
      `${output} has finished already with ${first}`,
      'Go on with a larger --limit, or without one for all rows; --overwrite starts over.',
    );
  }
  const { run } = finished;
  return { ...place, run, finished, unfinished: null, discarded: null, renamed: false, warning: null };
}

/** The sample stays until the run is finished, and must be as it was written. */
async function replacingSample(
  place: OutputLocation,
  settings: Settings,
  left: Manifest | null,
): Promise<OutputTarget> {
  const { files } = place;
  const { summary: sample } = await openFinished(files.output, 'refuse');
  if (settings.extend || sample.merged_review !== undefined) {
    throw new UsageError(
      'output_exists',
      settings.extend
        ? `${files.output} has a sample of its input, and --extend needs an output of all its rows`
        : `${files.output} has a sample with answers of people (merge-review), which the run would replace`,
      settings.extend
        ? 'Leave out --extend: a run over all rows takes the answers of the sample over.'
        : 'Move it away, or replace it with --overwrite.',
    );
  }
  assertNoReview(files, settings);
  return { ...place, sample, unfinished: null, discarded: left, renamed: false, warning: null };
}

/** A run whose lock was removed is found by its manifest (fault 48). */
function assertLeft(files: OutputFiles, { process: last }: Manifest): void {
  if (last.pid === process.pid || !isLiving(last)) return;
  throw new LockedError(files.output, { ...last, purpose: `writing ${files.output}` });
}

/** Continues a run; with the remaining records if its part file has lost some. */
async function continued(
  place: OutputLocation,
  left: Manifest,
  settings: Settings,
  now: Date,
): Promise<OutputTarget> {
  const files = left.steps.require === undefined ? place.files : rejectedFiles(place.files);
  const { run } = left;
  assertMore(files, left, settings);
  const found = { ...place, files, run, discarded: null, renamed: true, warning: null };
  const part = await fileAt(files.part);
  const named = await fileAt(files.output);
  // The part file is the output under its first name, an unfinished copy of it, or the source of a rewrite.
  const isOld = left.retry !== undefined && part !== null && (await isReplaced(files.output, left));
  if (named !== null && !isOld && (part === null || left.stage === 'finishing')) {
    if (await isFinished(files, named.size, left)) {
      for (const path of [files.rewritten, files.part]) rmSync(path, { force: true });
      // Killed before the manifest was removed, and more rows may be asked for.
      const isMore = settings.input.limit === null || settings.input.limit > left.rows;
      if (isMore && left.retry === undefined && (settings.extend || partOf(files, settings) === 'first'))
        return await growing(place, settings, left);
      return { ...found, unfinished: left };
    }
  }
  const manifest = ofPartFile(left);
  const target = { ...found, unfinished: manifest, renamed: false };
  const size = part?.size;
  if (manifest.retry !== undefined && !(await isReplaced(files.output, manifest))) {
    throw new UsageError(
      'output_changed',
      `${files.output} was ${named === null ? 'removed' : 'changed'} since its retry began`,
      'Put it back to go on; --restart gives this retry up and begins another with the file as it is.',
    );
  }
  if (named !== null && !settings.overwrite && !(await mayReplace(files.output, manifest))) {
    throw new UsageError(
      'output_exists',
      manifest.replaces === undefined
        ? `${files.output} was not there when the unfinished run of ${files.manifest} began, and is there now`
        : `${files.output} was changed since the unfinished run of ${files.manifest} began`,
      'Move it away, or replace it with --overwrite.',
    );
  }
  if (size !== undefined && size >= manifest.bytes) {
    if (manifest.bytes === 0 || (await isSealed(files.part, manifest.bytes, manifest.seal))) return target;
    throw new UsageError(
      'part_foreign',
      `${files.part} is not what ${files.manifest} counts: another file has its name`,
      'Restore the part file, or start over with --restart; rows already known are then called again.',
    );
  }
  // Only the header was in it.
  if (manifest.rows === 0) return { ...target, unfinished: { ...manifest, bytes: 0 } };
  return { ...target, files: place.files, ...(await salvaged(files, size, manifest, settings, newRun(now))) };
}

/** The run under another name, with the rest of its part file. @throws UsageError `part_damaged` */
async function salvaged(
  files: OutputFiles,
  size: number | undefined,
  manifest: Manifest,
  settings: Settings,
  run: string,
): Promise<Pick<OutputTarget, 'run' | 'unfinished' | 'discarded' | 'warning'>> {
  const damage = `${files.part} has ${size ?? 'no'} bytes where ${files.manifest} counts ${manifest.bytes}`;
  // A missing file was probably moved away, not lost. With `hold` the lost rows may not be called again.
  const maySalvage = size !== undefined && settings.limits.unknownOutcome === 'retry';
  const unfinished = maySalvage ? await salvagePartFile(files.part, size, manifest, settings, run) : null;
  if (unfinished === null) {
    throw new UsageError(
      'part_damaged',
      damage,
      'Restore the part file, or start over with --restart; rows already known are then called again.',
    );
  }
  const again = manifest.rows - unfinished.rows;
  const warning = `${damage}: the last ${again} of its rows are lost, and they are called again`;
  return { run, unfinished, discarded: manifest, warning };
}

/**
 * True when the run was killed between naming the output and removing the manifest (fault 42). The seal is of the last
 * bytes only; the run's summary, which is written first, tells its output from an older one that ends alike.
 */
async function isFinished({ output, summary }: OutputFiles, size: number, left: Manifest): Promise<boolean> {
  const { stage, bytes, seal } = left;
  if (stage !== 'finishing' || size !== bytes || !(await isSealed(output, bytes, seal))) return false;
  const written = summaryAt(summary)?.details.written;
  return written === undefined || written.sha256 === (await sha256Of(output));
}

/** Any file with `--overwrite`, else only the output that the new one was made from. */
export async function mayReplace(output: string, manifest: Manifest): Promise<boolean> {
  return manifest.overwrite || (await isReplaced(output, manifest));
}

export const isReplaced = async (output: string, { replaces }: Manifest): Promise<boolean> =>
  replaces !== undefined && existsSync(output) && (await sha256Of(output)) === replaces;

/**
 * With a date or a run in the path, a run over the first rows of another input or job stays, as does a sample
 * of another input, and a new run begins beside it.
 */
export async function settleTarget(
  target: OutputTarget | null,
  settings: Settings,
  print: Record<string, string>,
  now: Date,
): Promise<OutputTarget | null> {
  const begun = target?.finished ?? target?.sample;
  if (!target || !begun) return target;
  const changed = changedParts(begun.details.state.fingerprint, print);
  if (target.sample ? !changed.includes('input') : changed.length === 0) return target;
  const place = newPlace(settings, now, target.lock);
  if (place.files.output === target.files.output) return target;
  await target.lock?.take(place.files.output);
  return await findTarget(settings, now, place);
}
