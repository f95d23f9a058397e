import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { UsageError } from '../errors.js';

/** Bytes read, and bytes inflated, at a time: what the reader holds besides one record. */
const CHUNK_BYTES = 64 * 1024;

/** A file being read once from its first byte to its last, inflated on the way when it is gzip. */
export class InputFile {
  readonly #path: string;
  readonly #name: string;
  readonly #gzip: boolean;
  readonly #hash = createHash('sha256');
  /** Size of the file as it lies on disk, in bytes. */
  readonly size: number;
  /** Bytes of the file read so far. */
  bytesRead = 0;

  private constructor(path: string, name: string, size: number, gzip: boolean) {
    this.#path = path;
    this.#name = name;
    this.#gzip = gzip;
    this.size = size;
  }

  /**
   * Looks at the file; nothing stays open until the content is read.
   * @param name how messages call the file
   * @throws UsageError `input_missing`, `input_is_directory`, `input_not_a_file`, `input_unreadable`
   */
  static async open(path: string, name: string): Promise<InputFile> {
    try {
      const size = await regularFileSize(path, name);
      // By content, and by name too: then a message says that the file is not what it is called.
      const gzip = (await beginsAsGzip(path)) || (size > 0 && /\.gz$/i.test(path));
      return new InputFile(path, name, size, gzip);
    } catch (error) {
      throw unreadable(name, error);
    }
  }

  /**
   * The content, inflated; ends with the file closed, also when the reader stops early.
   * @throws UsageError `bad_gzip`, `input_unreadable`, `input_changed`
   */
  async *content(): AsyncGenerator<Buffer> {
    try {
      yield* this.#gzip ? inflate(this.#raw()) : this.#raw();
    } catch (error) {
      throw zlibCode(error) === null ? unreadable(this.#name, error) : this.#badGzip(error);
    }
    if (this.bytesRead === this.size) return;
    throw new UsageError(
      'input_changed',
      `${this.#name} has ${this.size} bytes, and ${this.bytesRead} were read: it changed meanwhile, or data follows its gzip stream.`,
      'Wait until the file is complete, and run again.',
    );
  }

  /** SHA-256 of the file's own bytes, in hexadecimal; call it once, after the content. */
  digest(): string {
    return this.#hash.digest('hex');
  }

  async *#raw(): AsyncGenerator<Buffer> {
    for await (const chunk of createReadStream(this.#path, { highWaterMark: CHUNK_BYTES })) {
      this.#hash.update(chunk);
      this.bytesRead += chunk.length;
      yield chunk;
    }
  }

  #badGzip(cause: unknown): UsageError {
    const what =
      zlibCode(cause) === 'Z_BUF_ERROR'
        ? 'is cut off: its gzip stream ends too early'
        : `is not sound gzip (${reason(cause)})`;
    return new UsageError(
      'bad_gzip',
      `${this.#name} ${what}; ${this.bytesRead} of ${this.size} bytes were read.`,
      'Copy the file again; if it is not compressed at all, rename it without .gz.',
      { cause },
    );
  }
}

async function* inflate(raw: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  // The loop below meets the same error, or is what ended the pipeline.
  pipeline(raw, gunzip).catch(() => {});
  for await (const chunk of gunzip) yield chunk;
}

/** Looks before it opens: opening a named pipe would wait for its writer, and it could not be read twice. */
async function regularFileSize(path: string, name: string): Promise<number> {
  const found = await stat(path);
  if (found.isFile()) return found.size;
  if (found.isDirectory()) {
    throw new UsageError('input_is_directory', `${name} is a directory.`, 'Name a file inside it.');
  }
  throw new UsageError(
    'input_not_a_file',
    `${name} is not a regular file, and the input is read twice.`,
    'Pipe it in: --input - reads standard input.',
  );
}

/** RFC 1952: every member begins with 1f 8b, which no UTF-8 text does. */
async function beginsAsGzip(path: string): Promise<boolean> {
  const handle = await open(path);
  try {
    const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    return buffer.readUInt16BE() === 0x1f8b;
  } finally {
    await handle.close();
  }
}

function unreadable(name: string, cause: unknown): UsageError {
  if (cause instanceof UsageError) return cause;
  const code = errorCode(cause);
  if (code === 'ENOENT') {
    return new UsageError('input_missing', `${name} does not exist.`, 'Check input.path, or --input.', {
      cause,
    });
  }
  return new UsageError(
    'input_unreadable',
    `${name} cannot be read: ${reason(cause)}`,
    code === 'EACCES' ? 'Give the user of this process the right to read it.' : undefined,
    { cause },
  );
}

function zlibCode(error: unknown): string | null {
  const code = errorCode(error);
  return code?.startsWith('Z_') === true ? code : null;
}

function errorCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
