import { isUtf8 } from 'node:buffer';
import { brotliDecompressSync, gunzipSync, inflateSync, type ZlibOptions } from 'node:zlib';
import { errorCode } from '../core/errors.js';
import { ENCODED, TOO_LARGE } from './exchange.js';

const DECODERS: ReadonlyMap<string, (bytes: Buffer, options: ZlibOptions) => Buffer> = new Map([
  ['gzip', gunzipSync],
  ['x-gzip', gunzipSync],
  ['deflate', inflateSync],
  ['br', brotliDecompressSync],
]);

/**
 * In one go: streaming would hold what many small bodies grow to at the same time.
 * @param most bytes of the result
 * @throws with a failure code: too large, or the encoding is unknown or broken
 */
export function decoded(bytes: Buffer, encoding: string, most: number): Buffer {
  try {
    const decode = DECODERS.get(encoding);
    if (decode !== undefined) return decode(bytes, { maxOutputLength: most });
  } catch (error) {
    if (errorCode(error) === 'ERR_BUFFER_TOO_LARGE') throw withCode(TOO_LARGE);
  }
  // Plain text: a gateway decoded it and kept the header, or the header was taken for the charset.
  if (isUtf8(bytes)) return bytes;
  // Cleaned and cut, because it is shown.
  throw withCode(`${ENCODED}${encoding.replace(/[^a-z0-9, ._-]/g, '?').slice(0, 40)}`);
}

const withCode = (code: string): Error => Object.assign(new Error(code), { code });
