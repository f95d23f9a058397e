import { randomBytes } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { NO_CALLS } from '../ledger/counters.js';
import { isLiving, LockedError, thisProcess } from '../lock.js';
import { fillOutputPath, type OutputFiles, outputFiles } from '../output/files.js';
import { newRunId } from '../queue/names.js';
import { emptyTally } from '../report/tally.js';
import { assertSame } from './fingerprint.js';
import { type Manifest, readManifest, removeManifest } from './manifest.js';
import { mend } from './mend.js';

/** The output of a run and what is there of it already. */
export interface Claim {
  readonly run: string;
  readonly files: OutputFiles;
  /** The unfinished run to continue; null for a new one. */
  readonly unfinished: Manifest | null;
  /** The run that is given up: by `--restart`, or because a damaged part file is continued under another name. */
  readonly discarded: Manifest | null;
  /** What a person should know of the part file before rows are called again. */
  readonly warning: string | null;
}

/**
 * Finds out where the records go and whether a run waits there to be continued, before anything costly is done.
 * @returns null when the output is standard output
 * @throws UsageError when the output is finished already, cannot be written (fault 52), or is damaged beyond mending
 */
export async function claimOutput(settings: Settings, now: Date): Promise<Claim | null> {
  if (settings.output.path === '-') return null;
  const found = findUnfinished(settings);
  if (found !== null) assertLeft(found.files, found.manifest);
  const run = found?.manifest.run ?? newRunId(now, randomBytes(3).toString('hex'));
  const files = found?.files ?? outputFiles(fillOutputPath(settings.output.path, run, now));
  assertWritable(files);
  assertNotInput(files, settings);
  if (found !== null && !settings.restart) return await resume(files, found.manifest, settings, now);
  if (existsSync(files.output) && !settings.overwrite) {
    throw new UsageError(
      'output_exists',
      `${files.output} exists: this job has finished already`,
      'Replace it with --overwrite, or name another file with --output.',
    );
  }
  const fresh = found === null ? run : newRunId(now, randomBytes(3).toString('hex'));
  return { run: fresh, files, unfinished: null, discarded: found?.manifest ?? null, warning: null };
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

/** The lock of the output is in the state directory; a run with another one is found by its manifest (fault 48). */
function assertLeft(files: OutputFiles, { process: last }: Manifest): void {
  if (last.pid === process.pid || !isLiving(last)) return;
  throw new LockedError(files.output, { ...last, purpose: `writing ${files.output}` });
}

/** The manifest to work with: the unfinished one, counted up, or a new one. */
export function beginManifest(
  claim: Claim | null,
  settings: Settings,
  print: Record<string, string>,
  now: Date,
): Manifest {
  const { unfinished, files } = claim ?? {};
  if (unfinished && files) {
    assertSame(unfinished.fingerprint, print, files.manifest);
    return { ...unfinished, execution: unfinished.execution + 1, process: thisProcess() };
  }
  return {
    v: 1,
    run: claim?.run ?? newRunId(now, randomBytes(3).toString('hex')),
    job: settings.job,
    execution: 1,
    process: thisProcess(),
    started_at: now.toISOString(),
    worked_ms: 0,
    fingerprint: print,
    chunk_size: settings.limits.chunkSize,
    store: null,
    rows: 0,
    bytes: 0,
    calls: NO_CALLS,
    tally: emptyTally(),
  };
}

/** What stands for a placeholder in the path of an output. */
const FILLED = { date: String.raw`\d{4}-\d\d-\d\d`, run: String.raw`\d{8}-\d{6}-[0-9a-f]{6}` } as const;
const PLACEHOLDER = /\{\{\s*(date|run)\s*\}\}/g;

/**
 * The unfinished run of this job's output. With `{{date}}` or `{{run}}` in the path it may have another name than
 * a new run would get: a run that began before midnight is continued after it.
 */
function findUnfinished({
  output,
  job,
  restart,
}: Settings): { manifest: Manifest; files: OutputFiles } | null {
  for (const path of filledPaths(output.path)) {
    const files = outputFiles(path);
    const manifest = readOrDiscard(files.manifest, restart);
    // Another job's run is none of ours, however its name is made.
    if (manifest !== null && (manifest.job === job || path === output.path)) return { manifest, files };
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

/** Outputs with a manifest whose path fits the one with placeholders, newest name first; else the path itself. */
function filledPaths(path: string): string[] {
  if (path.search(PLACEHOLDER) === -1) return [path];
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
  if (name === '' || name.search(PLACEHOLDER) === -1) return [name];
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
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    if (existsSync(files.part)) accessSync(files.part, constants.R_OK | constants.W_OK);
  } catch (error) {
    throw new UsageError(
      'output_not_writable',
      `cannot write ${files.output}: ${error instanceof Error ? error.message : String(error)}`,
      'Name another file with --output, or change the permissions of the folder.',
    );
  }
  for (const path of Object.values(files)) {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) continue;
    throw new UsageError(
      'output_not_writable',
      `cannot write ${files.output}: ${path} is a folder`,
      'Name another file with --output, or move the folder away.',
    );
  }
}

/** Continues a run; when its part file has lost what the manifest counts, with the records that are left. */
async function resume(files: OutputFiles, manifest: Manifest, settings: Settings, now: Date): Promise<Claim> {
  const { run } = manifest;
  const size = statSync(files.part, { throwIfNoEntry: false })?.size;
  if ((size !== undefined && size >= manifest.bytes) || isRenamed(files, manifest)) {
    return { run, files, unfinished: manifest, discarded: null, warning: null };
  }
  // Nothing but the header was in it.
  if (manifest.rows === 0) {
    return { run, files, unfinished: { ...manifest, bytes: 0 }, discarded: null, warning: null };
  }
  const fresh = newRunId(now, randomBytes(3).toString('hex'));
  const damage = `${files.part} has ${size ?? 'no'} bytes where ${files.manifest} counts ${manifest.bytes}`;
  // A missing file is more likely moved away than lost.
  const mended = size === undefined ? null : await mend(files.part, size, manifest, settings, fresh);
  if (mended === null) {
    throw new UsageError(
      'part_damaged',
      damage,
      'Restore the part file, or start over with --restart; rows already answered are then called again.',
    );
  }
  const again = manifest.rows - mended.rows;
  const warning = `${damage}: the last ${again} of its rows are lost, and they are called again`;
  return { run: fresh, files, unfinished: mended, discarded: manifest, warning };
}

/** True when the run was killed between giving the output its name and dropping the manifest (fault 42). */
export function isRenamed(files: OutputFiles, manifest: Manifest): boolean {
  return (
    !existsSync(files.part) && existsSync(files.output) && statSync(files.output).size === manifest.bytes
  );
}
