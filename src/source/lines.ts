import { UsageError } from '../core/errors.js';

const LF = 10;
const CR = 13;

/** Lines end with CR LF, LF or CR (fault 3). */
export function lineBreaks(text: string): number {
  if (!text.includes('\n') && !text.includes('\r')) return 0;
  return text.match(/\r\n|\n|\r/g)?.length ?? 0;
}

/** Cuts chunks of UTF-8 into lines ended by CR LF, LF or CR; holds at most one line. */
export class LineCutter {
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #afterCr = false;
  /** Number of the last line cut, from 1. */
  line = 0;

  constructor(private readonly name: string) {}

  /** The lines that end in this chunk, without their ends. @throws UsageError `record_too_large` */
  *cut(chunk: Buffer): Generator<Buffer> {
    if (chunk.length === 0) return;
    let start = this.#afterCr && chunk[0] === LF ? 1 : 0;
    this.#afterCr = chunk[chunk.length - 1] === CR;
    let lf = next(chunk, LF, start);
    let cr = next(chunk, CR, start);
    while (lf < chunk.length || cr < chunk.length) {
      const end = Math.min(lf, cr);
      yield this.#take(chunk.subarray(start, end));
      start = end === cr && chunk[cr + 1] === LF ? end + 2 : end + 1;
      if (lf < start) lf = next(chunk, LF, start);
      if (cr < start) cr = next(chunk, CR, start);
    }
    this.#hold(chunk.subarray(start));
  }

  *end(): Generator<Buffer> {
    if (this.#pendingBytes > 0) yield this.#take(Buffer.alloc(0));
  }

  #take(last: Buffer): Buffer {
    const line = this.#pendingBytes === 0 ? last : Buffer.concat([...this.#pending, last]);
    this.#pending = [];
    this.#pendingBytes = 0;
    this.line++;
    return line;
  }

  #hold(rest: Buffer): void {
    if (rest.length === 0) return;
    this.#pending.push(rest);
    this.#pendingBytes += rest.length;
    if (this.#pendingBytes > RECORD_LIMIT) throw recordTooLarge(this.name, this.line + 1);
  }
}

function next(chunk: Buffer, byte: number, from: number): number {
  const at = chunk.indexOf(byte, from);
  return at < 0 ? chunk.length : at;
}

/**
 * Bytes of UTF-8 in one record: 32 MiB. No context window holds such a prompt, and without a limit an
 * unclosed quote, or a gzip bomb (fault 13), would be read into memory whole.
 */
export const RECORD_LIMIT = 32 * 1024 * 1024;

export function recordTooLarge(name: string, line: number): UsageError {
  return new UsageError(
    'record_too_large',
    `${name}: the record that begins on line ${line} is larger than ${RECORD_LIMIT / 2 ** 20} MiB.`,
    'Look there for a quote that is never closed, or for a file that is not the format it is read as.',
  );
}
