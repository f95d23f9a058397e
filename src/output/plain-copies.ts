import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { errorText, PromptmillError, UsageError } from '../core/errors.js';
import { outputBytes, packingOf } from './output-bytes.js';

/** Plain copies of packed outputs, for random access. */
export class PlainCopies {
  #folder: string | null = null;
  #copies = 0;

  /** @throws UsageError when it cannot be unpacked, and the reason of the signal */
  async plain(path: string, signal?: AbortSignal): Promise<string> {
    if (packingOf(path) === null) return path;
    try {
      this.#folder ??= await mkdtemp(join(tmpdir(), 'promptmill-'));
      const copy = join(this.#folder, `plain-${++this.#copies}`);
      await pipeline(outputBytes(path), createWriteStream(copy, { mode: 0o600 }), { signal });
      return copy;
    } catch (error) {
      if (error instanceof PromptmillError) throw error;
      signal?.throwIfAborted();
      throw new UsageError(
        'output_not_unpacked',
        `cannot unpack ${path} into ${tmpdir()}: ${errorText(error)}`,
        'Free some space there, or name another folder with TMPDIR.',
        { cause: error },
      );
    }
  }

  async remove(): Promise<void> {
    if (this.#folder !== null) await rm(this.#folder, { recursive: true, force: true });
  }
}
