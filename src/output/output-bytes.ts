import { createReadStream } from 'node:fs';
import { errorText, PromptmillError, UsageError } from '../core/errors.js';
import { gzip } from './gzip.js';
import { type Packing, PIECE } from './packing.js';

const PACKINGS: readonly Packing[] = [gzip];

export const PACKED_ENDINGS = PACKINGS.map(({ ending }) => ending);

/** The packing that the name of an output asks for; null for records as they are. */
export const packingOf = (path: string): Packing | null =>
  PACKINGS.find(({ ending }) => path.toLowerCase().endsWith(ending)) ?? null;

/** The name without its packing: it ends as the format says. */
export const plainName = (path: string): string =>
  path.slice(0, path.length - (packingOf(path)?.ending.length ?? 0));

/**
 * The records of an output, as bytes. The file is opened when the first piece is read.
 * @param packing @default what the name says
 * @param onFile gets the bytes of the file itself, packed as they are
 * @throws UsageError `output_damaged`
 * @throws the file system's error
 */
export async function* outputBytes(
  path: string,
  packing = packingOf(path),
  onFile?: (piece: Buffer) => unknown,
): AsyncGenerator<Buffer> {
  const file: AsyncIterable<Buffer> = createReadStream(path, { highWaterMark: PIECE });
  const bytes = onFile === undefined ? file : told(file, onFile);
  yield* packing === null ? bytes : packing.unpack(bytes, path);
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

/** Packs records where the name of the output says so. */
export const packedFor = (path: string, records: AsyncIterable<Buffer>): AsyncIterable<Buffer> =>
  packingOf(path)?.pack(records) ?? records;
