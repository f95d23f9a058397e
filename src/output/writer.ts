import { createHash } from 'node:crypto';
import { lstatSync, rmSync } from 'node:fs';
import { type FileHandle, open, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { getSystemErrorMap } from 'node:util';
import { steadyNow } from '../core/clock.js';
import { isDiskFull } from '../core/errors.js';
import {
  createPlainFile,
  type FileId,
  fileAt,
  isSame,
  modeOf,
  openPlainFile,
  syncData,
  syncFile,
} from './plain-file.js';

export interface RecordWriter {
  readonly bytes: number;
  /** Durable (a file) or handed over (a stream). @throws WriteError; then none of the text counts */
  commit(text: string): Promise<void>;
  close(): Promise<void>;
}

/** What another process did to a part file. */
export type Loss = 'deleted' | 'moved' | 'replaced' | 'resized';

/** Bytes at the end of a part file that identify it. */
const TAIL = 4096;

/** The part file of an output. Opening it cuts off what a crash left behind the last commit. */
export class PartFile implements RecordWriter {
  private constructor(
    private readonly path: string,
    private readonly file: FileHandle,
    private position: number,
    private tail: Buffer,
  ) {}

  /**
   * @param bytes as in the manifest; what lies behind is not trusted (fault 50)
   * @param anew continue in a copy, so that a frozen process that still has the file open cannot write into
   *   it. A file with a second name is always copied: the other name is not ours to write to.
   * @param mode of a new file. @default those of the system
   * @throws WriteError
   */
  static async open(path: string, bytes: number, anew = false, mode?: number): Promise<PartFile> {
    return await writing(path, async () => {
      let file = bytes === 0 ? await createPlainFile(path, mode) : await openPlainFile(path);
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
        // A run with nothing to append renames the file at once: what was cut off must not come back.
        if (bytes > 0) await syncFile(file);
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

  /** A hash of the file's end, by which a resume recognizes it. */
  get seal(): string {
    return sealOf(this.tail);
  }

  async commit(text: string): Promise<void> {
    const data = Buffer.from(text);
    await writing(this.path, async () => {
      await writeAt(this.file, data, this.position);
      await syncData(this.file);
    });
    this.position += data.length;
    this.tail = Buffer.concat([this.tail, data.subarray(-TAIL)]).subarray(-TAIL);
  }

  /** What happened to the file since this process wrote to it; null if it is whole and has its name. */
  async lost(): Promise<Loss | null> {
    const found = await fileAt(this.path);
    // Last: a file deleted between the two looks would count as moved, and be lost.
    const own = await this.file.stat();
    if (found === null) return own.nlink === 0 ? 'deleted' : 'moved';
    if (!isSame(own, found)) return own.nlink === 0 ? 'replaced' : 'moved';
    return own.size === this.position ? null : 'resized';
  }

  /** Copies what is committed into a new file: a deleted file stays readable while it is open. */
  async salvage(path: string): Promise<void> {
    await writing(path, async () => {
      const file = await open(path, 'wx', (await this.file.stat()).mode & 0o777);
      await copyBytes(this.file, file, this.position).finally(() => file.close());
    });
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

export async function sealOfFile(path: string): Promise<{ readonly bytes: number; readonly seal: string }> {
  const file = await openPlainFile(path);
  try {
    const { size: bytes } = await file.stat();
    return { bytes, seal: sealOf(await tailOf(file, bytes)) };
  } finally {
    await file.close();
  }
}

/** Of the first `bytes`. */
export async function isSealed(path: string, bytes: number, seal: string): Promise<boolean> {
  const file = await openPlainFile(path);
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

async function copyBytes(from: FileHandle, to: FileHandle, bytes: number): Promise<void> {
  const buffer = Buffer.alloc(Math.min(bytes, 1024 * 1024));
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await from.read(buffer, 0, Math.min(buffer.length, bytes - at), at);
    if (bytesRead === 0) throw new Error(`it ends at byte ${at} of ${bytes}`);
    await writeAt(to, buffer.subarray(0, bytesRead), at);
    at += bytesRead;
  }
  await syncData(to);
}

/** Standard output as the output of a run: no resume, no rename. */
export class StreamWriter implements RecordWriter {
  #bytes = 0;
  #unreadSince: number | null = null;

  /** @param header sent with the first commit, so that a closed reader is noticed there (fault 51) */
  constructor(
    private readonly stream: NodeJS.WritableStream,
    private header: string,
  ) {
    // Writes report a closed reader; without a listener it would end the process as well (fault 51).
    stream.on('error', () => {});
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Steady-clock time since which records wait for their reader; null if none do. */
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

/** Names the file: system errors of an open file do not. */
export class WriteError extends Error {
  constructor(
    readonly path: string,
    cause: unknown,
  ) {
    super(`cannot write ${path}: ${reasonOf(cause)}`, { cause });
  }

  /** No space left, on the disk or in the user's quota. */
  get full(): boolean {
    return isDiskFull(this.cause);
  }
}

/** @throws WriteError */
export async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw cause instanceof WriteError ? cause : new WriteError(path, cause);
  }
}

interface Temporary {
  readonly path: string;
  /** Distinguishes it from a file that another process made in its place; null before it exists. */
  file: FileId | null;
}

/** A second signal ends the process at once: this removes them even then. */
const temporaries = new Set<Temporary>();
process.on('exit', () => {
  for (const temporary of temporaries) remove(temporary);
});

function remove({ path, file }: Temporary): void {
  try {
    const found = lstatSync(path, { throwIfNoEntry: false }) ?? null;
    if (file === null || isSame(found, file)) rmSync(path, { force: true });
  } catch {
    // The next execution replaces it.
  }
}

async function begin(temporary: Temporary, mode?: number): Promise<FileHandle> {
  const file = await createPlainFile(temporary.path, mode);
  temporary.file = await file.stat();
  return file;
}

/** Removes the file on failure: on a full disk its half would take the space that the next try needs. */
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

const throughTemporary = <T>(path: string, make: (temporary: Temporary) => Promise<T>): Promise<T> =>
  making(`${path}.tmp`, async (temporary) => {
    const made = await make(temporary);
    await rename(temporary.path, path);
    return made;
  });

export type Content = string | AsyncIterable<string | Buffer>;

async function fill(temporary: Temporary, content: Content, mode?: number): Promise<FileId> {
  const file = await begin(temporary, mode);
  try {
    await writeFile(file, content);
    await syncFile(file);
    return await file.stat();
  } finally {
    await file.close();
  }
}

/** @param mode its permissions. @default those of the system. @throws WriteError; then there is no file */
export const writeAside = (path: string, content: Content, mode?: number): Promise<FileId> =>
  writing(path, () => making(path, (temporary) => fill(temporary, content, mode)));

/**
 * Replaces a file in one step that a crash cannot halve: temporary file, fsync, rename (fault 42).
 * @param mode its permissions; an existing file never becomes more open. @default those of the existing file
 * @param ready gets the path of the durable temporary file, and is awaited before the rename
 * @returns identifies the file, should another process replace it
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
    // Not every place has a lock: another process's half-written file could get the name.
    if (!isSame(await fileAt(temporary.path), made)) throw new Error('another process is writing it now');
  };
  await writing(path, () => throughTemporary(path, make));
  await syncFolder(dirname(path));
  return await fileAt(path);
}

/** Makes a rename durable, except on file systems that cannot sync a folder. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => null);
  if (folder === null) return;
  try {
    await syncFile(folder);
  } catch {
    // EINVAL or EPERM on file systems that cannot.
  } finally {
    await folder.close();
  }
}

/** Without the name of the system call: `no space left on device (ENOSPC)`. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [code, words] =
    'errno' in error && typeof error.errno === 'number' ? (getSystemErrorMap().get(error.errno) ?? []) : [];
  return words === undefined ? error.message : `${words} (${code})`;
}
