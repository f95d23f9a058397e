import { rmSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { errorCode, errorText, UsageError } from '../errors.js';
import { parseJson } from '../json.js';
import type { ProcessMark } from '../lock.js';
import type { Counters } from '../model.js';
import { createOwn, type FileId, fileAt, readOwn } from '../output/own-file.js';
import { writing } from '../output/writer.js';
import type { Tally } from '../report/tally.js';

/**
 * What is known of an unfinished run, in `<output>.run.json` beside its part file. It is written after the
 * part file is on disk and before the ledger forgets, so it never says more than the part file holds.
 */
export interface Manifest {
  readonly v: 1;
  readonly run: string;
  readonly job: string;
  /** Number of the process that works on the run, from 1: counted up by every resume. */
  readonly execution: number;
  /** The process that works on it, or was the last to do so. */
  readonly process: ProcessMark;
  readonly started_at: string;
  /** Time that earlier executions worked on the run, in milliseconds. */
  readonly worked_ms: number;
  /** What the records depend on, as hashes by part; a resume with another value is refused. */
  readonly fingerprint: Readonly<Record<string, string>>;
  /** The same parts as they were, in short, to tell what changed. @see partValues */
  readonly values?: Readonly<Record<string, string>>;
  readonly chunk_size: number;
  /** The store that holds the run's ledger: its folder, or its address without the password. */
  readonly store: string | null;
  /** The ledger knows the run, and which of its rows are in flight. */
  readonly opened?: boolean;
  /** Rows whose records are in the part file. */
  readonly rows: number;
  /** The last row for which calls may have been made; behind `--limit`, where an execution before had a larger one. */
  readonly reach?: number;
  /** Bytes of the part file that count; what stands behind them is cut off by a resume. */
  readonly bytes: number;
  /** Hash of the end of these bytes, by which the part file is known from another. Earlier versions have none. */
  readonly seal?: string | undefined;
  /** The output may replace a file of its name. Earlier versions replaced any. */
  readonly overwrite?: boolean | undefined;
  /** Digest of the output with the first rows, whose place this one takes when it has more. */
  readonly replaces?: string | undefined;
  /** Every row is written, and the output gets its name now. Earlier versions did not say so. */
  readonly finishing?: boolean | undefined;
  readonly calls: Counters;
  readonly tally: Tally;
  /**
   * Set when the run has finished with the first rows of its input (`--limit`): the digest of its output, from which
   * the same command goes on.
   */
  readonly finished?: { readonly sha256: string };
}

const count = z.int().nonnegative();

const shape = z.looseObject({
  v: z.literal(1),
  run: z.string().min(1),
  job: z.string(),
  execution: z.int().positive(),
  process: z.object({
    pid: z.int().positive(),
    host: z.string(),
    began: z.string().nullable(),
    space: z.string().optional(),
  }),
  started_at: z.string(),
  worked_ms: z.number(),
  fingerprint: z.record(z.string(), z.string()),
  values: z.record(z.string(), z.string()).exactOptional(),
  chunk_size: z.int().positive(),
  store: z.string().nullable(),
  opened: z.boolean().exactOptional(),
  rows: count,
  reach: count.exactOptional(),
  bytes: count,
  seal: z.string().optional(),
  overwrite: z.boolean().optional(),
  replaces: z.string().optional(),
  finishing: z.boolean().optional(),
  calls: z.object({
    sent: count,
    retried: count,
    rate_limited: count,
    repeated: count,
    in_flight: z.int(),
    prompt_tokens: z.int().optional(),
    completion_tokens: z.int().optional(),
  }),
  tally: z.custom<Tally>((value) => typeof value === 'object' && value !== null),
  finished: z.object({ sha256: z.string() }).exactOptional(),
});

/** Reads a manifest; null when there is none. @throws UsageError when the file is no manifest */
export function readManifest(path: string): Manifest | null {
  let text: string;
  try {
    text = readOwn(path);
  } catch (error) {
    // ENOTDIR: a file is where the folder should be, so the manifest is not there either.
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error))) return null;
    throw new UsageError(
      'manifest_unreadable',
      `cannot read ${path}: ${errorText(error)}`,
      'It says how far an unfinished run came: make it readable, or name another file with --output.',
    );
  }
  const parsed = shape.safeParse(parseJson(text));
  if (parsed.success) return { ...parsed.data, calls: withTokens(parsed.data) };
  throw new UsageError(
    'manifest_damaged',
    `${path} is not a run that this version can continue`,
    'Start over with --restart; rows already answered are then called again.',
  );
}

/** An earlier version did not count the tokens of calls; those of the rows that are written are known. */
function withTokens({ calls, tally: { usage } }: z.output<typeof shape>): Counters {
  const { prompt_tokens = usage.prompt_tokens, completion_tokens = usage.completion_tokens } = calls;
  return { ...calls, prompt_tokens, completion_tokens };
}

/**
 * Puts a manifest on disk: temporary file, fsync, rename, so that it is always the old or the new one (fault 42).
 * @returns the file, by which it is known from one that somebody else puts there
 */
export async function writeManifest(path: string, manifest: Manifest): Promise<FileId | null> {
  await writeDurably(path, `${JSON.stringify(manifest)}\n`);
  return await fileAt(path);
}

/** Replaces a file in one step that a crash cannot halve. @throws WriteError; then the old file stands */
export async function writeDurably(path: string, text: string): Promise<void> {
  const temporary = `${path}.tmp`;
  await writing(path, async () => {
    try {
      const file = await createOwn(temporary);
      try {
        await file.writeFile(text);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    } catch (error) {
      // On a full disk the half of it takes space that the next try needs.
      await rm(temporary, { force: true }).catch(() => {});
      throw error;
    }
  });
  await syncFolder(dirname(path));
}

/** Makes a rename durable; some file systems refuse to sync a folder, and then there is nothing to do. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => null);
  if (folder === null) return;
  try {
    await folder.sync();
  } catch {
    // EINVAL or EPERM on file systems that cannot.
  } finally {
    await folder.close();
  }
}

export function removeManifest(path: string): void {
  rmSync(path, { force: true });
}
