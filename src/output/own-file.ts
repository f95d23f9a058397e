import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  statSync,
} from 'node:fs';
import { type FileHandle, link, lstat, open, rename, rm } from 'node:fs/promises';
import { errorCode } from '../errors.js';

/*
 * Files at the names that a run writes to beside its output. Whoever can write in the folder can plant a link there, so
 * none is ever followed (fault 65): a file is made where nothing is, and only a file that is no link is opened.
 */

/** Nothing waits for the other end of a pipe, and no link is followed. */
const NO_SURPRISE = constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Which file it is, whatever its name. */
export interface FileId {
  readonly dev: number;
  readonly ino: number;
}

/**
 * Makes a new file; what has the name, a link for example, loses it and is not touched otherwise.
 * @param mode its permissions, from the first moment (fault 107). @default those that the system gives
 */
export async function createOwn(path: string, mode?: number): Promise<FileHandle> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | NO_SURPRISE;
  const file = await open(path, flags, mode).catch(async (error: unknown) => {
    if (errorCode(error) !== 'EEXIST') throw error;
    await rm(path, { force: true });
    return await open(path, flags, mode);
  });
  // What the umask has taken away.
  if (mode !== undefined && ((await file.stat()).mode & 0o777) !== mode) await file.chmod(mode);
  return file;
}

/** The permissions of a file; undefined where there is none, or it is no plain file. */
export function modeOf(path: string): number | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isFile() ? found.mode & 0o777 : undefined;
}

/** The permissions of a new file with texts of others: nobody may read it who may not read all of them. */
export function modeLike(...paths: readonly string[]): number | undefined {
  const modes = paths.flatMap((path) => statSync(path, { throwIfNoEntry: false })?.mode ?? []);
  if (modes.length === 0) return undefined;
  return modes.reduce((all, mode) => all & (mode | 0o600), 0o666 & ~process.umask());
}

/** Opens a file that is there, and no link. @throws the file system's error */
export async function openOwn(path: string): Promise<FileHandle> {
  return await open(path, constants.O_RDWR | NO_SURPRISE);
}

/** The text of a file. @throws the file system's error, also when it is a link */
export function readOwn(path: string): string {
  const file = openSync(path, constants.O_RDONLY | NO_SURPRISE);
  try {
    if (!fstatSync(file).isFile() && !fstatSync(file).isDirectory()) throw new Error('it is not a file');
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

/** The file that a name stands for, a link itself and not its target; null when there is none. */
export async function fileAt(path: string): Promise<(FileId & { readonly size: number }) | null> {
  return await lstat(path).catch(nullIfMissing);
}

export const isSame = (a: FileId | null, b: FileId | null): boolean =>
  a !== null && b !== null && a.dev === b.dev && a.ino === b.ino;

/** Whether a name is taken, be it by a link that leads nowhere. */
export const isTaken = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

/** What a file system says that has no second names for a file. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

/**
 * Gives a file its final name, unless the name is taken (fault 64). Where the file system can give a second name, this
 * is one step with the look; elsewhere there is a moment between the two.
 * @returns false when another file has the name; then nothing is changed
 */
export async function giveFreeName(path: string, name: string): Promise<boolean> {
  try {
    await link(path, name);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'EEXIST') {
      // A process that was killed between the two steps has given it already.
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

/** The digest of a file, as `sha256sum` shows it. */
export const sha256Of = (path: string): Promise<string> => sha256OfBytes(createReadStream(path));

export async function sha256OfBytes(bytes: AsyncIterable<Buffer | string>): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of bytes) hash.update(piece);
  return hash.digest('hex');
}

/** Whether what was read from a file is in another form than the first, which is the one that is known. */
export const isOfOtherVersion = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'v' in value && typeof value.v === 'number' && value.v !== 1;
