import { createHash } from 'node:crypto';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { errorCode, errorText, PromptmillError, StopError, UsageError } from '../core/errors.js';

/** Bytes read and inflated at a time: memory besides one block and one record. */
const CHUNK_BYTES = 64 * 1024;

interface KnownFile {
  readonly bytes: number;
  readonly digests: BlockDigests;
  /** At the end, if the file has grown; the new bytes are not read. */
  readonly onGrown?: (bytes: number) => void;
}

export class InputFile {
  readonly #taker: BlockDigester;
  bytesRead = 0;

  /** @param size bytes to read: the file's size, or its size at the earlier reading */
  private constructor(
    private readonly path: string,
    private readonly name: string,
    readonly size: number,
    private readonly gzip: boolean,
    private readonly known: KnownFile | null,
  ) {
    this.#taker = new BlockDigester(size);
  }

  /**
   * Nothing stays open until the content is read.
   * @param known an earlier reading: only bytes that it has seen are passed on
   * @throws UsageError `input_missing`, `input_is_directory`, `input_not_a_file`, `input_unreadable`
   */
  static async open(path: string, name: string, known: KnownFile | null = null): Promise<InputFile> {
    try {
      const size = await regularFileSize(path, name);
      // By content, and by name: so a message can say that the file is not what its name says.
      const gzip = (await beginsAsGzip(path)) || (size > 0 && /\.gz$/i.test(path));
      return new InputFile(path, name, known?.bytes ?? size, gzip, known);
    } catch (error) {
      throw unreadable(name, error);
    }
  }

  /**
   * Inflated; closes the file, also if the reader stops early.
   * @throws UsageError `bad_gzip`, `input_unreadable`, `input_changed`
   * @throws StopError `input_changed` if a byte differs from the earlier reading, before it is passed on
   */
  async *content(): AsyncGenerator<Buffer> {
    try {
      yield* this.gzip ? inflate(this.#raw()) : this.#raw();
    } catch (error) {
      throw zlibCode(error) === null ? unreadable(this.name, error) : this.#badGzip(error);
    }
    if (this.bytesRead === this.size) return;
    throw new UsageError(
      'input_changed',
      `${this.name} has ${this.size} bytes, and ${this.bytesRead} were read: it changed meanwhile, or data follows its gzip stream.`,
      'Wait until the file is complete, and run again.',
    );
  }

  /** For a later reading to recognize the bytes; complete after the content. */
  get digests(): BlockDigests {
    return this.#taker.digests;
  }

  /** Hex SHA-256 of the file itself; call once, after the content. */
  digest(): string {
    return this.#taker.sha256();
  }

  /** A block is checked as a whole before any of it is passed on (fault 61). */
  async *#raw(): AsyncGenerator<Buffer> {
    const handle = await open(this.path);
    try {
      while (this.bytesRead < this.size) {
        const length = Math.min(this.#taker.blockBytes, this.size - this.bytesRead);
        const block = await readBlock(handle, length, this.bytesRead);
        this.#taker.add(block.bytes);
        const known = this.known;
        if (known !== null && !(block.isWhole && this.#taker.agreesWith(known.digests)))
          throw this.#changed(block);
        for (let at = 0; at < block.bytes.length; at += CHUNK_BYTES) {
          const chunk = block.bytes.subarray(at, at + CHUNK_BYTES);
          this.bytesRead += chunk.length;
          yield chunk;
        }
        if (!block.isWhole) return;
      }
      const { size } = await handle.stat();
      if (size <= this.size) return;
      if (this.known === null) throw this.#growing(size);
      this.known.onGrown?.(size);
    } finally {
      await handle.close();
    }
  }

  #growing(size: number): UsageError {
    return new UsageError(
      'input_changed',
      `${this.name} has grown from ${this.size} to ${size} bytes while it was read.`,
      'Wait until the file is complete, and run again.',
    );
  }

  #changed({ bytes, isWhole }: Block): StopError {
    const from = this.bytesRead + 1;
    const where = isWhole
      ? `bytes ${from} to ${this.bytesRead + bytes.length} are not what they were when it began`
      : `it had ${this.size} bytes when the run began, and now it ends after ${this.bytesRead + bytes.length}`;
    return new StopError(
      'input_changed',
      `${this.name} was changed while the run went on: ${where}.`,
      'Put the file back as it was and run the same command, or start over with --restart.',
    );
  }

  #badGzip(cause: unknown): UsageError {
    const what =
      zlibCode(cause) === 'Z_BUF_ERROR'
        ? 'is cut off: its gzip stream ends too early'
        : `is not sound gzip (${errorText(cause)})`;
    return new UsageError(
      'bad_gzip',
      `${this.name} ${what}; ${this.bytesRead} of ${this.size} bytes were read.`,
      'Copy the file again; if it is not compressed at all, rename it without .gz.',
      { cause },
    );
  }
}

/** @throws zlib's error; see {@link zlibCode} */
export async function* inflate(raw: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  // The loop below sees the same error, or ended the pipeline itself.
  pipeline(raw, gunzip).catch(() => {});
  for await (const chunk of gunzip) yield chunk;
}

interface Block {
  readonly bytes: Buffer;
  readonly isWhole: boolean;
}

async function readBlock(handle: FileHandle, length: number, position: number): Promise<Block> {
  const bytes = Buffer.allocUnsafeSlow(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(bytes, filled, length - filled, position + filled);
    if (bytesRead === 0) return { bytes: bytes.subarray(0, filled), isWhole: false };
    filled += bytesRead;
  }
  return { bytes, isWhole: true };
}

/** Checked before opening: opening a named pipe would wait for its writer, and it cannot be read twice. */
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

/** RFC 1952: every member begins with 1f 8b, which UTF-8 text never does. */
export async function beginsAsGzip(path: string): Promise<boolean> {
  const handle = await open(path);
  try {
    const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    return buffer.readUInt16BE() === 0x1f8b;
  } finally {
    await handle.close();
  }
}

function missingHint(name: string): string {
  if (/^\w+:\/\//.test(name))
    return 'An input is a file of this machine: fetch it first, or pipe it in with --input - and --format.';
  if (/[*?]/.test(name))
    return 'An input is one file: put the files together first, or pipe them in with --input - and --format.';
  return 'Check input.path, or --input.';
}

function unreadable(name: string, cause: unknown): PromptmillError {
  if (cause instanceof PromptmillError) return cause;
  const code = errorCode(cause);
  if (code === 'ENOENT') {
    return new UsageError('input_missing', `${name} does not exist.`, missingHint(name), { cause });
  }
  return new UsageError(
    'input_unreadable',
    `${name} cannot be read: ${errorText(cause)}`,
    code === 'EACCES' ? 'Give the user of this process the right to read it.' : undefined,
    { cause },
  );
}

/** `Z_BUF_ERROR` for a truncated stream. Null for an error that is not zlib's. */
export function zlibCode(error: unknown): string | null {
  const code = errorCode(error);
  return code.startsWith('Z_') ? code : null;
}

/** Digests of the first reading, by which the second recognizes bytes before it uses them. */
export interface BlockDigests {
  /** Bytes of a block. */
  readonly blockBytes: number;
  /** For each block, the truncated SHA-256 of all bytes up to its end, concatenated. */
  readonly bytes: Buffer;
}

/** Enough of a SHA-256 to exclude collisions, accidental or deliberate. */
const DIGEST_BYTES = 16;
const LEAST_BLOCK = 64 * 1024;
/** Limits digests to 1 MiB for any file: blocks grow in files of more than 4 GiB. */
const MOST_BLOCKS = 64 * 1024;

/** One pass of SHA-256, sampled after every block. */
export class BlockDigester {
  readonly #hash = createHash('sha256');
  readonly blockBytes: number;
  readonly #bytes: Buffer;
  #blocks = 0;

  constructor(size: number) {
    this.blockBytes = LEAST_BLOCK * Math.max(1, Math.ceil(size / LEAST_BLOCK / MOST_BLOCKS));
    this.#bytes = Buffer.alloc(Math.ceil(size / this.blockBytes) * DIGEST_BYTES);
  }

  /** All blocks but the last are `blockBytes` long. */
  add(block: Buffer): void {
    const digest = this.#hash.update(block).copy().digest();
    digest.copy(this.#bytes, this.#blocks * DIGEST_BYTES, 0, DIGEST_BYTES);
    this.#blocks++;
  }

  agreesWith({ bytes }: BlockDigests): boolean {
    const end = this.#blocks * DIGEST_BYTES;
    const start = end - DIGEST_BYTES;
    return this.#bytes.compare(bytes, start, end, start, end) === 0;
  }

  get digests(): BlockDigests {
    return { blockBytes: this.blockBytes, bytes: this.#bytes };
  }

  /** Hex, of all bytes; call last. */
  sha256(): string {
    return this.#hash.digest('hex');
  }
}
