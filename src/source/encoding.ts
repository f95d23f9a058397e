import { isUtf8 } from 'node:buffer';
import type iconv from 'iconv-lite';
import { UsageError } from '../core/errors.js';
import { loadPackage } from '../core/load-package.js';
import { lineBreaks, RECORD_LIMIT } from './lines.js';

/** Converts to UTF-8 without a byte-order mark, and refuses what it cannot decode. */
interface Decoder {
  write(bytes: Buffer): Buffer;
  end(): Buffer;
}

/** Length of the longest byte-order mark. */
const MARK_BYTES = 3;
const EMPTY: Buffer = Buffer.alloc(0);
const REPLACEMENT = Buffer.from('\ufffd');

/**
 * To valid UTF-8 without a mark. A named encoding is trusted; without a name the byte-order mark decides on
 * UTF-16, and anything else must be UTF-8 (faults 1 and 2).
 * @throws UsageError `invalid_encoding`, `unknown_encoding`
 */
export async function* toUtf8(
  chunks: AsyncIterable<Buffer>,
  name: string,
  encoding?: string,
): AsyncGenerator<Buffer> {
  let decoder: Decoder | undefined;
  let head: Buffer = EMPTY;
  for await (const chunk of chunks) {
    head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
    if (decoder === undefined && head.length < MARK_BYTES) continue;
    decoder ??= decoderFor(head, name, encoding);
    yield decoder.write(head);
    head = EMPTY;
  }
  decoder ??= decoderFor(head, name, encoding);
  yield Buffer.concat([decoder.write(head), decoder.end()]);
}

function decoderFor(head: Buffer, name: string, encoding: string | undefined): Decoder {
  if (encoding !== undefined)
    return /^utf-?8$/i.test(encoding) ? new Utf8(name) : new Foreign(name, encoding);
  if (head[0] === 0xff && head[1] === 0xfe) return new Foreign(name, 'utf-16le');
  if (head[0] === 0xfe && head[1] === 0xff) return new Foreign(name, 'utf-16be');
  return new Utf8(name);
}

/** Passes UTF-8 through without its mark; a sequence cut by a chunk waits for the next chunk. */
class Utf8 implements Decoder {
  #offset = 0;
  #held: Buffer = EMPTY;

  constructor(private readonly name: string) {}

  write(bytes: Buffer): Buffer {
    const all = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    const whole = all.subarray(0, all.length - unfinished(all));
    this.#held = all.subarray(whole.length);
    if (!isUtf8(whole)) throw this.#invalid(whole, firstInvalid(whole));
    const marked = this.#offset === 0 && whole.length >= 3 && whole.readUIntBE(0, 3) === 0xefbbbf;
    this.#offset += whole.length;
    return marked ? whole.subarray(3) : whole;
  }

  end(): Buffer {
    if (this.#held.length > 0) throw this.#invalid(this.#held, 0);
    return EMPTY;
  }

  #invalid(bytes: Buffer, at: number): UsageError {
    const byte = bytes.toString('hex', at, at + 1);
    return new UsageError(
      'invalid_encoding',
      `${this.name} is not valid UTF-8: byte 0x${byte} at offset ${this.#offset + at}.`,
      'Save it as UTF-8, or name its encoding with input.encoding, for example windows-1252.',
    );
  }
}

/** Bytes at the end that begin a sequence, which the next chunk may complete. */
function unfinished(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? back : 0;
  }
  return 0;
}

/** Offset of the first invalid byte: the first U+FFFD of the decoded text that is not in the bytes. */
function firstInvalid(bytes: Buffer): number {
  const text = bytes.toString('utf8');
  let offset = 0;
  for (const valid of text.split('\ufffd')) {
    offset += Buffer.byteLength(valid);
    if (!bytes.subarray(offset, offset + REPLACEMENT.length).equals(REPLACEMENT)) break;
    offset += REPLACEMENT.length;
  }
  return offset;
}

/** Any encoding of iconv-lite, which strips marks itself. */
class Foreign implements Decoder {
  readonly #decoder: iconv.DecoderStream;
  readonly #utf16: boolean;
  readonly #undecodable: RegExp;
  #heldBytes: Buffer = EMPTY;
  #heldText = '';
  #bytes = 0;
  #line = 1;

  constructor(
    private readonly name: string,
    private readonly encoding: string,
  ) {
    // Loaded only for a file that is not UTF-8.
    const library: typeof iconv = loadPackage('iconv-lite');
    if (!library.encodingExists(encoding)) {
      throw new UsageError(
        'unknown_encoding',
        `${name}: the encoding ${JSON.stringify(encoding)} is not known.`,
        'Use a common name in input.encoding: utf-8, utf-16le, latin1, windows-1252, shift_jis, gb18030.',
      );
    }
    this.#decoder = library.getDecoder(encoding);
    this.#utf16 = /^utf-?16/i.test(encoding);
    // iconv-lite decodes bytes without a meaning to U+FFFD. In UTF-16 only half a pair has none, and a U+FFFD
    // is one of the file's own.
    this.#undecodable = this.#utf16 ? /\p{Surrogate}/u : /[\p{Surrogate}\ufffd]/u;
  }

  write(bytes: Buffer): Buffer {
    this.#bytes += bytes.length;
    const all = this.#heldBytes.length === 0 ? bytes : Buffer.concat([this.#heldBytes, bytes]);
    // iconv-lite loses characters if a chunk cuts a double-byte sequence (pillarjs/iconv-lite#417). No such
    // sequence of any of its encodings ends in a byte below 0x30: what follows the last such byte waits.
    const whole = all.length > RECORD_LIMIT ? all.length : all.findLastIndex((byte) => byte < 0x30) + 1;
    this.#heldBytes = all.subarray(whole);
    const text = this.#heldText + this.#decoder.write(all.subarray(0, whole));
    // A surrogate pair, or CR LF, may still be cut.
    this.#heldText = /[\ud800-\udbff\r]$/.exec(text)?.[0] ?? '';
    return this.#encode(text.slice(0, text.length - this.#heldText.length));
  }

  end(): Buffer {
    const rest = this.#decoder.write(this.#heldBytes) + (this.#decoder.end() ?? '');
    const last = this.#encode(this.#heldText + rest);
    if (this.#utf16 && this.#bytes % 2 === 1) throw this.#invalid();
    return last;
  }

  #encode(text: string): Buffer {
    const bad = text.search(this.#undecodable);
    this.#line += lineBreaks(bad < 0 ? text : text.slice(0, bad));
    if (bad >= 0) throw this.#invalid();
    return Buffer.from(text);
  }

  #invalid(): UsageError {
    return new UsageError(
      'invalid_encoding',
      `${this.name}, line ${this.#line}: bytes that are not valid ${this.encoding}.`,
      'Name the right encoding with input.encoding, or save the file as UTF-8.',
    );
  }
}
