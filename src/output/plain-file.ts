import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  createReadStream,
  fdatasync,
  fstatSync,
  fsync,
  lstatSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
} from 'node:fs';
import { type FileHandle, link, lstat, open, rename, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { errorCode } from '../core/errors.js';

/*
 * Files that a run writes beside its output. Others can plant links in the folder, so links are never
 * followed (fault 65): a file is created only where nothing is, and only a plain entry is opened.
 */

/** Does not wait for the other end of a pipe, and follows no link. */
const NO_SURPRISE = constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Identifies a file independent of its name. */
export interface FileId {
  readonly dev: number;
  readonly ino: number;
}

/**
 * Removes an existing entry, such as a link, without following it.
 * @param mode its permissions, from the first moment (fault 107). @default those of the system
 */
export async function createPlainFile(path: string, mode?: number): Promise<FileHandle> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | NO_SURPRISE;
  const file = await open(path, flags, mode).catch(async (error: unknown) => {
    if (errorCode(error) !== 'EEXIST') throw error;
    await rm(path, { force: true });
    return await open(path, flags, mode);
  });
  // Restores what the umask removed.
  if (mode !== undefined && ((await file.stat()).mode & 0o777) !== mode) await file.chmod(mode);
  return file;
}

const fsyncOf = promisify(fsync);
const fdatasyncOf = promisify(fdatasync);

// By descriptor, because the handles that Yarn's Plug'n'Play puts in place of Node's cannot sync.

/** Resolves when content and size of the file, or the names in the folder, are on the disk. */
export const syncFile = (file: FileHandle): Promise<void> => fsyncOf(file.fd);

/** Resolves when what was written is on the disk. */
export const syncData = (file: FileHandle): Promise<void> => fdatasyncOf(file.fd);

/** Undefined if there is no plain file. */
export function modeOf(path: string): number | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() ? found.mode & 0o777 : undefined;
}

/** Permissions for a file that contains texts of others: readable only to those who may read all of them. */
export function modeLike(...paths: readonly string[]): number | undefined {
  const modes = paths.flatMap((path) => statSync(path, { throwIfNoEntry: false })?.mode ?? []);
  if (modes.length === 0) return undefined;
  return modes.reduce((all, mode) => all & (mode | 0o600), 0o666 & ~process.umask());
}

/** @throws the file system's error, also for a link */
export async function openPlainFile(path: string): Promise<FileHandle> {
  return await open(path, constants.O_RDWR | NO_SURPRISE);
}

/** @throws the file system's error, also for a link */
export function readPlainFile(path: string): string {
  const file = openSync(path, constants.O_RDONLY | NO_SURPRISE);
  try {
    if (!fstatSync(file).isFile() && !fstatSync(file).isDirectory()) throw new Error('it is not a file');
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

/** Its first 200 bytes. Empty where no plain file can be read. */
export function beginningOf(path: string): Buffer {
  const beginning = Buffer.alloc(200);
  try {
    const file = openSync(path, constants.O_RDONLY | NO_SURPRISE);
    try {
      return beginning.subarray(0, readSync(file, beginning));
    } finally {
      closeSync(file);
    }
  } catch {
    return beginning.subarray(0, 0);
  }
}

/** Of a link: the link itself. Null if there is nothing. */
export async function fileAt(path: string): Promise<(FileId & { readonly size: number }) | null> {
  return await lstat(path).catch(nullIfMissing);
}

export const isSame = (a: FileId | null, b: FileId | null): boolean =>
  a !== null && b !== null && a.dev === b.dev && a.ino === b.ino;

/** Also true for a dangling link. */
export const isTaken = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

/** Error codes of file systems without hard links. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

/**
 * Gives a file its final name unless that is taken (fault 64). Atomic where the file system has hard links;
 * elsewhere there is a gap between check and rename.
 * @returns false if another file has the name; then nothing was changed
 */
export async function giveFreeName(path: string, name: string): Promise<boolean> {
  try {
    await link(path, name);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'EEXIST') {
      // A process that was killed between the two steps linked it already.
      if (!isSame(await fileAt(path), await fileAt(name))) return false;
    } else if (NO_LINKS.has(code)) {
      if ((await fileAt(name)) !== null) return false;
      await rename(path, name);
      return true;
    } else throw error;
  }
  await rm(path);
  return true;
}

function nullIfMissing(error: unknown): null {
  if (['ENOENT', 'ENOTDIR'].includes(errorCode(error))) return null;
  throw error;
}

/** Hex, as `sha256sum` prints it. */
export const sha256Of = (path: string): Promise<string> => sha256OfBytes(createReadStream(path));

export async function sha256OfBytes(bytes: AsyncIterable<Buffer | string>): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of bytes) hash.update(piece);
  return hash.digest('hex');
}

/** Whether a parsed file has a version other than 1, the only known one. */
export const isOfOtherVersion = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'v' in value && typeof value.v === 'number' && value.v !== 1;
