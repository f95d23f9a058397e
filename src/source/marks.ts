import { createHash } from 'node:crypto';

/** What the first reading keeps of a file's bytes, by which the second one knows them again before it uses them. */
export interface Marks {
  /** Bytes of the file from one mark to the next. */
  readonly blockBytes: number;
  /** The beginning of the SHA-256 of all bytes up to the end of each block, one after the other. */
  readonly digests: Buffer;
}

/** Enough of a SHA-256 that no two texts share it by chance, nor by design. */
const DIGEST_BYTES = 16;
const LEAST_BLOCK = 64 * 1024;
/** So a file of any size takes 1 MiB at most: blocks are larger in files of more than 4 GiB. */
const MOST_BLOCKS = 64 * 1024;

/** Takes the marks of a file while its bytes go by: one pass of SHA-256, looked at after every block. */
export class MarkTaker {
  readonly #hash = createHash('sha256');
  readonly blockBytes: number;
  readonly #digests: Buffer;
  #blocks = 0;

  /** @param size bytes of the file */
  constructor(size: number) {
    this.blockBytes = LEAST_BLOCK * Math.max(1, Math.ceil(size / LEAST_BLOCK / MOST_BLOCKS));
    this.#digests = Buffer.alloc(Math.ceil(size / this.blockBytes) * DIGEST_BYTES);
  }

  /** Takes the next block into account; all but the last are `blockBytes` long. */
  add(block: Buffer): void {
    const digest = this.#hash.update(block).copy().digest();
    digest.copy(this.#digests, this.#blocks * DIGEST_BYTES, 0, DIGEST_BYTES);
    this.#blocks++;
  }

  /** The file is the same up to the end of the last block. */
  agreesWith({ digests }: Marks): boolean {
    const end = this.#blocks * DIGEST_BYTES;
    const start = end - DIGEST_BYTES;
    return this.#digests.compare(digests, start, end, start, end) === 0;
  }

  get marks(): Marks {
    return { blockBytes: this.blockBytes, digests: this.#digests };
  }

  /** SHA-256 of all bytes, in hexadecimal; the last word. */
  sha256(): string {
    return this.#hash.digest('hex');
  }
}
