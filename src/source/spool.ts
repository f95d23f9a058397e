import { randomUUID } from 'node:crypto';
import { createWriteStream, rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { errorText, PromptmillError, UsageError } from '../core/errors.js';
import { makePrivateFolder } from '../core/folder.js';
import { acquireLock } from '../core/lock.js';

interface Spool {
  readonly path: string;
  discard(): void;
}

/** A copy, or its lock; either may exist without the other. */
const NAME = /^(stdin-[0-9a-f-]+)(\.lock)?$/;

/**
 * Copies standard input to a file, because an input is read twice: once before anything is sent.
 * @param directory created if missing; the file is readable only by its owner
 * @throws UsageError `spool_failed`; no file is left behind
 */
export async function spoolStandardInput(
  stream: NodeJS.ReadableStream,
  directory: string,
  signal?: AbortSignal,
): Promise<Spool> {
  const name = `stdin-${randomUUID()}`;
  const path = join(directory, name);
  let release = (): void => {};
  try {
    makePrivateFolder(lockOf(directory, name));
    // Before the file: a file without a lock counts as a dead process's.
    ({ release } = await acquireLock(lockOf(directory, name), { purpose: 'a copy of its input' }));
    await pipeline(stream, createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal });
  } catch (cause) {
    await rm(path, { force: true }).catch(() => {});
    release();
    signal?.throwIfAborted();
    // Raised for rows of a library's caller.
    if (cause instanceof PromptmillError) throw cause;
    throw new UsageError(
      'spool_failed',
      `Standard input could not be copied to ${path}: ${errorText(cause)}`,
      'Make room there, or choose another place with PROMPTMILL_STATE_DIR.',
      { cause },
    );
  }
  return {
    path,
    discard: () => {
      rmSync(path, { force: true });
      release();
    },
  };
}

/** Removes the copies of killed processes, as far as possible. */
export async function sweepSpools(directory: string): Promise<void> {
  const found = await readdir(directory).catch(() => []);
  for (const name of new Set(found.flatMap((each) => NAME.exec(each)?.[1] ?? []))) {
    try {
      const lock = await acquireLock(lockOf(directory, name), { purpose: 'sweeping it away', watch: false });
      await rm(join(directory, name), { force: true });
      lock.release();
    } catch {
      // Its process is alive, or the folder is not writable.
    }
  }
}

const lockOf = (directory: string, name: string): string => join(directory, `${name}.lock`);
