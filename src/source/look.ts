/** Bytes that are looked at before the rest is read. */
const HEAD_BYTES = 64 * 1024;

/**
 * Passes bytes on, once their beginning was looked at.
 * @param look gets the beginning, and whether it is all there is; answers how many bytes of it to leave out
 */
export async function* lookedAt(
  chunks: AsyncIterable<Buffer>,
  look: (head: Buffer, isAll: boolean) => number,
): AsyncGenerator<Buffer> {
  let head: Buffer | null = Buffer.alloc(0);
  for await (const chunk of chunks) {
    if (head === null) {
      yield chunk;
      continue;
    }
    head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
    if (head.length < HEAD_BYTES) continue;
    yield head.subarray(look(head, false));
    head = null;
  }
  if (head !== null) yield head.subarray(look(head, true));
}
