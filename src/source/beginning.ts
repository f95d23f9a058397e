const HEAD_BYTES = 64 * 1024;

export interface Beginning {
  readonly head: Buffer;
  /** Nothing follows. */
  readonly isAll: boolean;
}

interface LookedAt extends Beginning {
  /** The stream without its first bytes. Readable once. */
  from(skippedBytes: number): AsyncGenerator<Buffer>;
  close(): Promise<void>;
}

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
