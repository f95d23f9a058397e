/** Bytes that are looked at before the rest is read. */
const HEAD_BYTES = 64 * 1024;

/** What is known of a stream of bytes before the rest is read. */
export interface Beginning {
  readonly head: Buffer;
  /** The stream has nothing more. */
  readonly isAll: boolean;
}

/** A stream of bytes whose beginning is known. */
interface LookedAt extends Beginning {
  /** The whole stream, less the first bytes of its beginning. To be read once. */
  from(skippedBytes: number): AsyncGenerator<Buffer>;
  /** Ends the stream; for whoever does not read it to its end. */
  close(): Promise<void>;
}

/** Reads the beginning of a stream, so that it can be looked at before the rest is read. */
export async function readBeginning(bytes: AsyncIterable<Buffer>): Promise<LookedAt> {
  const stream = bytes[Symbol.asyncIterator]();
  const parts: Buffer[] = [];
  let size = 0;
  let isAll = false;
  while (size < HEAD_BYTES && !isAll) {
    const next = await stream.next();
    if (next.done) isAll = true;
    else {
      parts.push(next.value);
      size += next.value.length;
    }
  }
  const head = Buffer.concat(parts);
  return {
    head,
    isAll,
    async *from(skippedBytes) {
      yield head.subarray(skippedBytes);
      for (let next = await stream.next(); !next.done; next = await stream.next()) yield next.value;
    },
    close: async () => void (await stream.return?.()),
  };
}
