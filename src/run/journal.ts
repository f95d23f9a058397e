import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StopError } from '../errors.js';
import type { Counters } from '../model.js';
import { PartFile, type RecordWriter, StreamWriter } from '../output/writer.js';
import type { Summary } from '../report/summary.js';
import { type Ended, fold } from '../report/tally.js';
import { type Claim, isRenamed } from './begin.js';
import { type Manifest, removeManifest, syncFolder, writeDurably, writeManifest } from './manifest.js';

/** The next rows of the output, in order. */
export interface Commit {
  readonly text: string;
  readonly ended: readonly Ended[];
}

/** What a run has on disk: the part file and the manifest that says how much of it counts. */
export class Journal {
  readonly #began = performance.now();
  #manifest: Manifest;

  private constructor(
    private readonly claim: Claim | null,
    manifest: Manifest,
    private readonly writer: RecordWriter,
  ) {
    this.#manifest = manifest;
  }

  /** Opens the part file at the manifest's mark, and puts the manifest on disk before anything is called. */
  static async open(
    claim: Claim | null,
    manifest: Manifest,
    header: string,
    stdout: NodeJS.WritableStream,
  ): Promise<Journal> {
    const diskFault = (error: unknown): never => {
      throw notWritten(claim, error);
    };
    if (claim === null) {
      const journal = new Journal(null, manifest, new StreamWriter(stdout));
      await journal.writer.commit(header);
      return journal;
    }
    // Killed after the rename: nothing is left to append.
    const path = isRenamed(claim.files, manifest) ? claim.files.output : claim.files.part;
    const writer = await PartFile.open(path, manifest.bytes).catch(diskFault);
    if (manifest.bytes === 0) await writer.commit(header).catch(diskFault);
    const journal = new Journal(claim, { ...manifest, bytes: writer.bytes }, writer);
    await journal.#save().catch(diskFault);
    return journal;
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  /** Append, fsync, manifest. What is in a commit is safe when this resolves; then the ledger may forget it. */
  async commit({ text, ended }: Commit): Promise<void> {
    try {
      await this.#append(text, ended);
    } catch (error) {
      throw notWritten(this.claim, error);
    }
  }

  async #append(text: string, ended: readonly Ended[]): Promise<void> {
    await this.writer.commit(text);
    this.#manifest = {
      ...this.#manifest,
      rows: this.#manifest.rows + ended.length,
      bytes: this.writer.bytes,
      tally: fold(this.#manifest.tally, ended),
    };
    await this.#save();
  }

  /** Takes the counters as the ledger has them now; they reach the disk with the next write. */
  count(calls: Counters): void {
    // A store that came back empty counts from 0 until the run is opened in it again.
    if (calls.sent < this.#manifest.calls.sent) return;
    this.#manifest = { ...this.#manifest, calls };
  }

  /** Time that all executions together worked on the run, in milliseconds. */
  get workedMs(): number {
    return this.#manifest.worked_ms + this.ranMs;
  }

  /** Time that this execution has worked, in milliseconds. */
  get ranMs(): number {
    return performance.now() - this.#began;
  }

  /** Keeps the time worked so far, for an execution that will continue the run. */
  async pause(): Promise<void> {
    // When the disk is what stopped the run, the manifest of the last commit stands.
    await this.#save(this.workedMs).catch(() => {});
    await this.writer.close();
  }

  /** Every row is in the part file: gives the output its name, with the summary beside it. */
  async finish(summary: Summary): Promise<void> {
    await this.writer.close();
    if (this.claim === null) return;
    const { part, output, manifest, summary: summaryPath } = this.claim.files;
    await writeDurably(summaryPath, `${JSON.stringify(summary, null, 2)}\n`);
    if (existsSync(part)) await rename(part, output);
    await syncFolder(dirname(output));
    removeManifest(manifest);
  }

  async #save(workedMs = this.#manifest.worked_ms): Promise<void> {
    if (this.claim === null) return;
    await writeManifest(this.claim.files.manifest, { ...this.#manifest, worked_ms: workedMs });
  }
}

/** A full disk stops the run; what is paid for stays in the ledger (fault 49). */
function notWritten(claim: Claim | null, error: unknown): StopError {
  const reason = error instanceof Error ? error.message : String(error);
  const where = claim?.files.part ?? 'standard output';
  const hint = 'Mend that and run the same command: it goes on where it stopped.';
  return new StopError('output_not_written', `cannot write ${where}: ${reason}`, hint, { cause: error });
}
