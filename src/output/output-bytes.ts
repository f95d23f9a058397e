import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { errorText, PromptmillError, UsageError } from '../errors.js';
import { inflate, zlibCode } from '../source/open.js';

const PIECE = 1024 * 1024;

export const isPacked = (path: string): boolean => /\.gz$/i.test(path);

/**
 * The records of an output, as bytes, inflated if packed. Opens nothing before the first read.
 * @param packed for a file whose name does not say so. @default by its name
 * @param onFile gets the bytes of the file itself, before inflating
 * @throws UsageError `output_damaged` for gzip that is truncated, corrupt, or followed by other data
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

/** Passes bytes through. @throws UsageError `output_unreadable` in place of the file system's error */
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

/** The bytes of an output file: gzip if its name says so. The same records give the same bytes. */
export async function* packedFor(path: string, records: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  if (!isPacked(path)) return yield* records;
  // Deterministic: the gzip header has no time.
  const gzip = createGzip({ chunkSize: PIECE });
  // The loop below sees the same error, or ended the pipeline itself.
  pipeline(records, gzip).catch(() => {});
  for await (const piece of gzip) yield piece;
}
