import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type StoredSummary, summaryText } from '../account/summary.js';
import { UsageError } from '../core/errors.js';
import { outputBytes, packedFor, packingOf } from '../output/output-bytes.js';
import { type FileId, fileAt, giveFreeName, isSame, isTaken } from '../output/plain-file.js';
import { sealOfFile, syncFolder, WriteError, writeAside, writeDurably, writing } from '../output/writer.js';
import { writtenOf } from '../output/written.js';
import type { Committer } from './committer.js';
import { outOfPlace } from './disk-stops.js';
import { removeManifest } from './manifest.js';
import { mayReplace, type OutputTarget } from './output-target.js';

/**
 * The output of a run that has written all rows, until it has its name. On standard output nothing is left to
 * do. Each step may be repeated by the next execution.
 */
export class WholeOutput {
  /** Null while the output is the part file. */
  #rewritten: { readonly path: string; readonly file: FileId } | null = null;

  constructor(private readonly committer: Committer) {}

  /** Reads the part file from its start; null when the output has its name, and for standard output. */
  part(): (() => AsyncIterable<Buffer>) | null {
    const { files, renamed } = this.committer.target ?? {};
    if (files === undefined || renamed) return null;
    return () => outputBytes(files.part);
  }

  /** The future output; null when it has its name already, and for standard output. */
  bytes(): (() => AsyncIterable<Buffer>) | null {
    const { files, renamed } = this.committer.target ?? {};
    if (files === undefined || renamed || this.#rewritten === null) return this.part();
    const { path } = this.#rewritten;
    return () => outputBytes(path, packingOf(files.output));
  }

  /**
   * Writes the output beside the part file, with other records, or packed as its name says. The part file
   * stays until the output has its name, so that the next execution can repeat this.
   * @throws StopError when the disk fails, or the files are no longer this run's
   */
  async rewrite(records: AsyncIterable<Buffer>): Promise<void> {
    const { committer } = this;
    const { target, mode } = committer;
    if (target === null) return;
    const { rewritten: path, output } = target.files;
    await committer.orStop(async () => {
      await this.#assertOurs();
      await this.#assertReplaced(target);
      this.#rewritten = { path, file: await writeAside(path, packedFor(output, records), mode) };
      const { bytes, seal, tally } = committer.manifest;
      await committer.save({ ...(await sealOfFile(path)), part: { bytes, seal, tally } });
    });
  }

  /** The part file is plain, so that records can be appended and cut off; a packed output is rewritten. */
  async pack(): Promise<void> {
    await this.#assertOurs();
    const records = this.part();
    if (records === null || this.#rewritten !== null) return;
    if (packingOf(this.committer.files?.output ?? '') !== null) await this.rewrite(records());
  }

  /**
   * From here on, the next execution takes an output of this name for the whole one.
   * @param review whether rows for review will be written, and may replace those that are there
   * @returns the summary with the digest that identifies the output
   */
  async writeSummary(
    summary: StoredSummary,
    review: { readonly replace: boolean } | null,
  ): Promise<StoredSummary> {
    const { target, mode } = this.committer;
    if (target === null) return summary;
    const { files } = target;
    if (review !== null && !review.replace) this.#assertNoReview(target);
    await this.#assertReplaced(target);
    const { path, packing } = this.#place(target);
    const written = await writing(path, () => writtenOf(path, files.output, packing));
    const stored = { ...summary, details: { ...summary.details, written } };
    await writeDurably(files.summary, summaryText(stored), mode);
    await this.committer.save({ stage: 'finishing', ...(review !== null && { reviewing: true }) });
    return stored;
  }

  /** @param onUnread called when a record is too long to be read back; the output is finished anyway */
  async writeReview(
    of: (output: AsyncIterable<Buffer>) => AsyncIterable<string>,
    onUnread: (reason: string) => void,
  ): Promise<void> {
    const { target, mode } = this.committer;
    if (target === null) return;
    const { path, packing } = this.#place(target);
    try {
      await writeDurably(target.files.review, of(outputBytes(path, packing)), mode);
    } catch (error) {
      if (!(error instanceof WriteError && error.cause instanceof UsageError)) throw error;
      onUnread(error.cause.message);
    }
  }

  /** The final name is absent or names the whole file. An existing file is replaced only on request. */
  async giveName(): Promise<void> {
    const { target, manifest } = this.committer;
    if (target === null) return;
    const { output, part } = target.files;
    const { path } = this.#place(target);
    await this.#assertOurs();
    if (target.renamed) {
      // Killed after the rename.
    } else if (await mayReplace(output, manifest)) await writing(output, () => rename(path, output));
    else if (!(await writing(output, () => giveFreeName(path, output))))
      throw outOfPlace(manifest.replaces === undefined ? 'taken' : 'changed', output);
    await syncFolder(dirname(output));
    if (this.#rewritten !== null) await writing(part, () => rm(part, { force: true }));
  }

  /** Nothing is left that the next execution would have to do. */
  async end(): Promise<void> {
    const { manifest } = this.committer.files ?? {};
    if (manifest !== undefined) await writing(manifest, async () => removeManifest(manifest));
  }

  #place({ files, renamed }: OutputTarget) {
    const path = renamed ? files.output : (this.#rewritten?.path ?? files.part);
    return { path, packing: path === files.part ? null : packingOf(files.output) };
  }

  async #assertOurs(): Promise<void> {
    await this.committer.assertOurs();
    if (this.#rewritten === null) return;
    const { path, file } = this.#rewritten;
    const found = await fileAt(path);
    if (!isSame(found, file) || found?.size !== this.committer.manifest.bytes) throw outOfPlace('anew', path);
  }

  /** @throws StopError when a review file appeared meanwhile: it may contain people's answers */
  #assertNoReview({ files: { review } }: OutputTarget): void {
    const { overwrite, stage, reviewing } = this.committer.manifest;
    if (isTaken(review) && !overwrite && stage === 'working' && !reviewing)
      throw outOfPlace('review taken', review);
  }

  /** @throws StopError when the output to replace has changed: the new summary would describe another file */
  async #assertReplaced({ files: { output }, renamed }: OutputTarget): Promise<void> {
    const { manifest } = this.committer;
    if (renamed || manifest.replaces === undefined) return;
    const stands = manifest.retry !== undefined || isTaken(output);
    if (stands && !(await mayReplace(output, manifest))) throw outOfPlace('changed', output);
  }
}
