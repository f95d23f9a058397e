import { isUtf8 } from 'node:buffer';
import { brotliDecompressSync, gunzipSync, inflateSync, type ZlibOptions } from 'node:zlib';
import { errorCode } from '../errors.js';
import { ENCODED, TOO_LARGE } from './exchange.js';

const DECODERS: ReadonlyMap<string, (bytes: Buffer, options: ZlibOptions) => Buffer> = new Map([
  ['gzip', gunzipSync],
  ['x-gzip', gunzipSync],
  ['deflate', inflateSync],
  ['br', brotliDecompressSync],
]);

/**
 * The body of an answer that is encoded, although the request asks for none that is. It is decoded in one go, so that what many small
 * bodies grow to is never held at the same time.
 * @param most bytes that it may have
 * @throws with the code of a failure: too large, or an encoding that is not known or broken
 */
export function decoded(bytes: Buffer, encoding: string, most: number): Buffer {
  try {
    const decode = DECODERS.get(encoding);
    if (decode !== undefined) return decode(bytes, { maxOutputLength: most });
  } catch (error) {
    if (errorCode(error) === 'ERR_BUFFER_TOO_LARGE') throw withCode(TOO_LARGE);
  }
  // Text, although a gateway that has decoded it left the header, or somebody took the header for that of the charset.
  if (isUtf8(bytes)) return bytes;
  // Short, and nothing but what may stand in a header's list: it is shown.
  throw withCode(`${ENCODED}${encoding.replace(/[^a-z0-9, ._-]/g, '?').slice(0, 40)}`);
}

const withCode = (code: string): Error => Object.assign(new Error(code), { code });
