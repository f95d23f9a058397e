import { createReadStream } from 'node:fs';
import { errorText, UsageError } from '../errors.js';
import { inflate, zlibCode } from '../source/open.js';

/** Bytes that are read at a time. */
const PIECE = 1024 * 1024;

/** Whether an output is packed: a run goes by its name. */
const isPacked = (path: string): boolean => /\.gz$/i.test(path);

/**
 * The records of a finished output, as bytes: inflated where it is `.gz`. Nothing is open until they are asked for.
 * @throws UsageError `output_damaged` for gzip that is cut off, is not sound, or has other data behind it
 * @throws the file system's error
 */
export async function* outputBytes(path: string): AsyncGenerator<Buffer> {
  const bytes = createReadStream(path, { highWaterMark: PIECE });
  if (!isPacked(path)) return yield* bytes;
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
