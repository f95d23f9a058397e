import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { errorText, UsageError } from '../core/errors.js';
import { inflate, zlibCode } from '../source/open.js';
import { type Packing, PIECE } from './packing.js';

export const gzip: Packing = {
  ending: '.gz',

  async *pack(records) {
    // Its header has no time.
    const packed = createGzip({ chunkSize: PIECE });
    // The loop below meets the same error, or is what ended the pipeline.
    pipeline(records, packed).catch(() => {});
    for await (const piece of packed) yield piece;
  },

  async *unpack(file, path) {
    try {
      yield* inflate(file);
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
  },
};
