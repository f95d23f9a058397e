import { createHash } from 'node:crypto';
import { lstatSync, rmSync } from 'node:fs';
import { type FileHandle, open, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { getSystemErrorMap } from 'node:util';
import { steadyNow } from '../clock.js';
import { isDiskFull } from '../errors.js';
import { createOwn, type FileId, fileAt, isSame, modeOf, openOwn } from './own-file.js';

/** Appends text whose bytes are on disk when a commit returns. */
export interface RecordWriter {
  /** Bytes committed so far. */
  readonly bytes: number;
  /**
   * Appends, and returns when the text is durable (a file) or handed over (a stream).
   * @throws WriteError; then none of the text counts
   */
  commit(text: string): Promise<void>;
  close(): Promise<void>;
}

/** What became of a part file behind the back of its process. */
export type Loss = 'deleted' | 'moved' | 'replaced' | 'resized';

/** The end of a part file by which it is known again, in bytes. */
const TAIL = 4096;

/** The part file of an output. What a crash left behind the last commit is cut off when it is opened. */
export class PartFile implements RecordWriter {
  private constructor(
    private readonly path: string,
    private readonly file: FileHandle,
    private position: number,
    private tail: Buffer,
  ) {}

  /**
   * @param bytes what the manifest says of the file: everything behind is not trusted (fault 50)
   * @param anew go on in a copy, so that a process that has the file open, and was only frozen, writes into nothing.
   *   A file that has a second name is always copied, because its other name is not ours to write to.
   * @param mode of a new file. @default as the system gives it
   * @throws WriteError
   */
  static async open(path: string, bytes: number, anew = false, mode?: number): Promise<PartFile> {
    return await writing(path, async () => {
      let file = bytes === 0 ? await createOwn(path, mode) : await openOwn(path);
      try {
        if (bytes > 0 && (anew || (await file.stat()).nlink > 1)) {
          const original = file;
          file = await throughTemporary(path, async (temporary) => {
            const copy = await begin(temporary, (await original.stat()).mode & 0o777);
            await copyBytes(original, copy, bytes).finally(() => original.close());
            return copy;
          });
        }
        await file.truncate(bytes);
        // A run that has nothing to append gives the file its final name: what was cut off must not come back.
        if (bytes > 0) await file.sync();
        return new PartFile(path, file, bytes, await tailOf(file, bytes));
      } catch (error) {
        await file.close();
        throw error;
      }
    });
  }

  get bytes(): number {
    return this.position;
  }

  /** A hash of the end of the file, by which a resume knows it from another. */
  get seal(): string {
    return sealOf(this.tail);
  }

  async commit(text: string): Promise<void> {
    const data = Buffer.from(text);
    await writing(this.path, async () => {
      await writeAt(this.file, data, this.position);
      await this.file.datasync();
    });
    this.position += data.length;
    this.tail = Buffer.concat([this.tail, data.subarray(-TAIL)]).subarray(-TAIL);
  }

  /** What has happened to the file since this process wrote to it; null when its name stands for it, and it is whole. */
  async lost(): Promise<Loss | null> {
    const found = await fileAt(this.path);
    // Looked at last: a file that is deleted between the two looks would count as moved, and be lost.
    const own = await this.file.stat();
    if (found === null) return own.nlink === 0 ? 'deleted' : 'moved';
    if (!isSame(own, found)) return own.nlink === 0 ? 'replaced' : 'moved';
    return own.size === this.position ? null : 'resized';
  }

  /** Puts what is committed into a new file: a file that was deleted is there for as long as it is open. */
  async rescue(path: string): Promise<void> {
    await writing(path, async () => {
      const file = await open(path, 'wx', (await this.file.stat()).mode & 0o777);
      await copyBytes(this.file, file, this.position).finally(() => file.close());
    });
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

/** How much is in a file, and by what its end is known, as of a part file. */
export async function sealOfFile(path: string): Promise<{ readonly bytes: number; readonly seal: string }> {
  const file = await openOwn(path);
  try {
    const { size: bytes } = await file.stat();
    return { bytes, seal: sealOf(await tailOf(file, bytes)) };
  } finally {
    await file.close();
  }
}

/** Whether the beginning of a file ends with what a part file ended with. */
export async function isSealed(path: string, bytes: number, seal: string): Promise<boolean> {
  const file = await openOwn(path);
  try {
    return sealOf(await tailOf(file, bytes)) === seal;
  } finally {
    await file.close();
  }
}

const sealOf = (tail: Buffer): string => createHash('sha256').update(tail).digest('hex');

async function tailOf(file: FileHandle, bytes: number): Promise<Buffer> {
  const tail = Buffer.alloc(Math.min(TAIL, bytes));
  if (tail.length > 0) await file.read(tail, 0, tail.length, bytes - tail.length);
  return tail;
}

async function writeAt(file: FileHandle, data: Buffer, position: number): Promise<void> {
  let written = 0;
  while (written < data.length) {
    const { bytesWritten } = await file.write(data, written, data.length - written, position + written);
    written += bytesWritten;
  }
}

/** The first bytes of a file into another, durably. */
async function copyBytes(from: FileHandle, to: FileHandle, bytes: number): Promise<void> {
  const buffer = Buffer.alloc(Math.min(bytes, 1024 * 1024));
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await from.read(buffer, 0, Math.min(buffer.length, bytes - at), at);
    if (bytesRead === 0) throw new Error(`it ends at byte ${at} of ${bytes}`);
    await writeAt(to, buffer.subarray(0, bytesRead), at);
    at += bytesRead;
  }
  await to.datasync();
}

/** Standard output as the output of a run: nothing to resume, nothing to rename. */
export class StreamWriter implements RecordWriter {
  #bytes = 0;
  #unreadSince: number | null = null;

  /** @param header goes out with the first commit, so that a reader who is gone already is met there (fault 51) */
  constructor(
    private readonly stream: NodeJS.WritableStream,
    private header: string,
  ) {
    // A closed reader is told to whoever writes; without a listener it would end the process as well (fault 51).
    stream.on('error', () => {});
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Since when records wait for their reader, by the steady clock; null while none do. */
  get unreadSince(): number | null {
    return this.#unreadSince;
  }

  async commit(text: string): Promise<void> {
    const data = this.header + text;
    if (data === '') return;
    this.#unreadSince = steadyNow();
    await new Promise<void>((resolve, reject) => {
      this.stream.write(data, (error) =>
        error ? reject(new WriteError('standard output', error)) : resolve(),
      );
    }).finally(() => {
      this.#unreadSince = null;
    });
    this.header = '';
    this.#bytes += Buffer.byteLength(data);
  }

  async close(): Promise<void> {}
}

/** A file that could not be written. The system's own errors do not name the file once it is open. */
export class WriteError extends Error {
  constructor(
    readonly path: string,
    cause: unknown,
  ) {
    super(`cannot write ${path}: ${reasonOf(cause)}`, { cause });
  }

  /** True when space is what is missing, on the disk or in the user's quota. */
  get full(): boolean {
    return isDiskFull(this.cause);
  }
}

/** What writing a file gives. @throws WriteError naming the file */
export async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw cause instanceof WriteError ? cause : new WriteError(path, cause);
  }
}

/** A temporary file that is written now. */
interface Temporary {
  readonly path: string;
  /** By which it is known from one that another process has made in its place since; null before it is there. */
  file: FileId | null;
}

/** A second signal ends the process at once, and leaves none of them either. */
const temporaries = new Set<Temporary>();
process.on('exit', () => {
  for (const temporary of temporaries) remove(temporary);
});

function remove({ path, file }: Temporary): void {
  try {
    const found = lstatSync(path, { throwIfNoEntry: false }) ?? null;
    if (file === null || isSame(found, file)) rmSync(path, { force: true });
  } catch {
    // The next execution takes its place.
  }
}

/** Makes the file, empty. */
async function begin(temporary: Temporary, mode?: number): Promise<FileHandle> {
  const file = await createOwn(temporary.path, mode);
  temporary.file = await file.stat();
  return file;
}

/** Has a temporary file made. On a full disk the half of it would take space that the next try needs. */
async function making<T>(path: string, make: (temporary: Temporary) => Promise<T>): Promise<T> {
  const temporary: Temporary = { path, file: null };
  temporaries.add(temporary);
  try {
    return await make(temporary);
  } catch (error) {
    if (temporary.file !== null) remove(temporary);
    throw error;
  } finally {
    temporaries.delete(temporary);
  }
}

/** Has a file made beside its place, and puts it there. */
const throughTemporary = <T>(path: string, make: (temporary: Temporary) => Promise<T>): Promise<T> =>
  making(`${path}.tmp`, async (temporary) => {
    const made = await make(temporary);
    await rename(temporary.path, path);
    return made;
  });

/** What is written into a file. */
export type Content = string | AsyncIterable<string | Buffer>;

/** A new file, durable in its content. @param mode its permissions. @default those that the system gives */
async function fill(temporary: Temporary, content: Content, mode?: number): Promise<FileId> {
  const file = await begin(temporary, mode);
  try {
    await writeFile(file, content);
    await file.sync();
    return await file.stat();
  } finally {
    await file.close();
  }
}

/**
 * Makes a durable file that takes the place of another later.
 * @param mode its permissions. @default those that the system gives
 * @returns the file, by which it is known then
 * @throws WriteError; then there is none
 */
export const writeAside = (path: string, content: Content, mode?: number): Promise<FileId> =>
  writing(path, () => making(path, (temporary) => fill(temporary, content, mode)));

/**
 * Replaces a file in one step that a crash cannot halve: temporary file, fsync, rename (fault 42).
 * @param mode its permissions. One that is there is never opened to others by this. @default those of the file that is there
 * @param ready gets the path of the temporary file when it is durable, and is done before the rename
 * @returns the file, by which it is known from one that somebody else puts there
 * @throws WriteError; then the old file stands
 */
export async function writeDurably(
  path: string,
  content: Content,
  mode?: number,
  ready?: (path: string) => Promise<void>,
): Promise<FileId | null> {
  const make = async (temporary: Temporary): Promise<void> => {
    const there = modeOf(path);
    const made = await fill(temporary, content, there === undefined ? mode : there & (mode ?? there));
    await ready?.(temporary.path);
    // Not every place has a lock, and the half of another file would get the name.
    if (!isSame(await fileAt(temporary.path), made)) throw new Error('another process is writing it now');
  };
  await writing(path, () => throughTemporary(path, make));
  await syncFolder(dirname(path));
  return await fileAt(path);
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

/** The system's words for an error without the name of the call: `no space left on device (ENOSPC)`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [code, words] =
    'errno' in error && typeof error.errno === 'number' ? (getSystemErrorMap().get(error.errno) ?? []) : [];
  return words === undefined ? error.message : `${words} (${code})`;
}
