import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { errorText, PromptmillError, UsageError } from '../errors.js';
import { inflate, zlibCode } from '../source/open.js';

/** Bytes that are read at a time. */
const PIECE = 1024 * 1024;

/** Whether an output is packed: a run goes by its name. */
export const isPacked = (path: string): boolean => /\.gz$/i.test(path);

/**
 * The records of an output, as bytes: inflated where it is packed. Nothing is open until they are asked for.
 * @param packed whether it is, where its name does not say so. @default by its name
 * @param onFile gets the bytes of the file itself, as they are read
 * @throws UsageError `output_damaged` for gzip that is cut off, is not sound, or has other data behind it
 * @throws the file system's error
 */
export async function* outputBytes(
  path: string,
  packed = isPacked(path),
  onFile?: (piece: Buffer) => unknown,
): AsyncGenerator<Buffer> {
  const file: AsyncIterable<Buffer> = createReadStream(path, { highWaterMark: PIECE });
  const bytes = onFile === undefined ? file : told(file, onFile);
  if (!packed) return yield* bytes;
  try {
    yield* inflate(bytes);
  } catch (error) {
    const code = zlibCode(error);
    if (code === null) throw error;
    const what =
      code === 'Z_BUF_ERROR'
        ? 'is cut off: its gzip stream ends too early'
        : `is not sound gzip (${errorText(error)})`;
    const hint = 'Put the file back as the run wrote it.';
    throw new UsageError('output_damaged', `${path} ${what}`, hint, { cause: error });
  }
}

async function* told(
  bytes: AsyncIterable<Buffer>,
  onPiece: (piece: Buffer) => unknown,
): AsyncGenerator<Buffer> {
  for await (const piece of bytes) {
    onPiece(piece);
    yield piece;
  }
}

/**
 * Bytes that can be read, or a sentence that says why they cannot.
 * @throws UsageError `output_unreadable` in place of the file system's error
 */
export async function* readable(name: string, bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* bytes;
  } catch (error) {
    if (error instanceof PromptmillError) throw error;
    throw new UsageError('output_unreadable', `cannot read ${name}: ${errorText(error)}`, undefined, {
      cause: error,
    });
  }
}

/** Records as the file of an output has them: packed where its name says so. The same records give the same bytes. */
export async function* packedFor(path: string, records: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  if (!isPacked(path)) return yield* records;
  // The header has no time in it.
  const gzip = createGzip({ chunkSize: PIECE });
  // The loop below meets the same error, or is what ended the pipeline.
  pipeline(records, gzip).catch(() => {});
  for await (const piece of gzip) yield piece;
}
