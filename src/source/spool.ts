import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { UsageError } from '../errors.js';

/**
 * Copies standard input to a file, because an input is read twice: once before anything is sent.
 * @param directory created when missing; the file in it is readable by its owner only
 * @returns the file's path; the caller deletes the file when the run has finished
 * @throws UsageError `spool_failed`; no file is left behind
 */
export async function spoolStandardInput(
  stream: NodeJS.ReadableStream,
  directory: string,
  signal?: AbortSignal,
): Promise<string> {
  const path = join(directory, `stdin-${randomUUID()}`);
  try {
    await mkdir(directory, { recursive: true });
    await pipeline(stream, createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal });
    return path;
  } catch (cause) {
    await rm(path, { force: true }).catch(() => {});
    signal?.throwIfAborted();
    throw new UsageError(
      'spool_failed',
      `Standard input could not be copied to ${path}: ${cause instanceof Error ? cause.message : String(cause)}`,
      'Make room there, or choose another place with PROMPTMILL_STATE_DIR.',
      { cause },
    );
  }
}
