import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StopError, UsageError } from '../errors.js';
import type { Counters } from '../model.js';
import { WriteError, writing } from '../output/write-error.js';
import { PartFile, type RecordWriter, StreamWriter } from '../output/writer.js';
import type { Totals } from '../queue/recorder.js';
import type { Summary } from '../report/summary.js';
import { type Ended, fold } from '../report/tally.js';
import { type Claim, isRenamed } from './begin.js';
import { type Manifest, removeManifest, syncFolder, writeDurably, writeManifest } from './manifest.js';

/** The next rows of the output, in order. */
export interface Commit {
  readonly text: string;
  readonly ended: readonly Ended[];
  /** Puts on disk what must be there before the manifest says that these rows are written. */
  readonly keep?: () => Promise<void>;
}

/** What a run has on disk: the part file and the manifest that says how much of it counts. */
export class Journal {
  readonly #began = performance.now();
  #manifest: Manifest;
  /** Rows written by this execution that were called. */
  #called = 0;

  private constructor(
    private readonly claim: Claim | null,
    manifest: Manifest,
    private readonly writer: RecordWriter,
  ) {
    this.#manifest = manifest;
  }

  /**
   * Opens the part file at the manifest's mark, and puts the manifest on disk before anything is called.
   * @throws UsageError when either cannot be written
   */
  static async open(
    claim: Claim | null,
    manifest: Manifest,
    header: string,
    stdout: NodeJS.WritableStream,
  ): Promise<Journal> {
    if (claim === null) return new Journal(null, manifest, new StreamWriter(stdout, header));
    const { part, output } = claim.files;
    let writer: PartFile | null = null;
    try {
      // Killed after the rename: nothing is left to append.
      const path = isRenamed(claim.files, manifest) ? output : part;
      writer = await PartFile.open(path, manifest.bytes);
      if (manifest.bytes === 0) await writer.commit(header);
      const journal = new Journal(claim, { ...manifest, bytes: writer.bytes }, writer);
      await journal.#save();
      return journal;
    } catch (error) {
      await writer?.close();
      const { code, message, hint, cause } = stopFor(claim, error);
      throw new UsageError(code, message, hint, { cause });
    }
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  /**
   * Append, fsync, manifest. What is in a commit is safe when this resolves; then the ledger may forget it.
   * @throws StopError when the disk refuses; then the commits before stand, and what is paid for is in the ledger
   */
  async commit({ text, ended, keep }: Commit): Promise<void> {
    await this.#orStop(async () => {
      await keep?.();
      await this.#append(text, ended);
    });
  }

  async #append(text: string, ended: readonly Ended[]): Promise<void> {
    await this.writer.commit(text);
    this.#manifest = {
      ...this.#manifest,
      rows: this.#manifest.rows + ended.length,
      bytes: this.writer.bytes,
      tally: fold(this.#manifest.tally, ended),
    };
    this.#called += ended.filter(
      ({ outcome }) => outcome.status !== 'skipped' && outcome.attempts > 0,
    ).length;
    await this.#save();
  }

  /**
   * Counts again what this process did itself: increments of the ledger are lost with a store that comes back empty
   * (fault 35).
   * @param before the run's counters before this execution called anything
   * @param finished every row is written, so an outcome more than rows is an answer that was paid for twice
   */
  recount(before: Counters, own: Totals, finished: boolean): void {
    const { calls } = this.#manifest;
    const twice = finished ? Math.max(0, own.outcomes - this.#called) : 0;
    this.#manifest = {
      ...this.#manifest,
      calls: {
        sent: Math.max(calls.sent, before.sent + own.sent),
        retried: Math.max(calls.retried, before.retried + own.retried),
        rate_limited: Math.max(calls.rate_limited, before.rate_limited + own.rate_limited),
        repeated: Math.max(calls.repeated, before.repeated + own.repeated + twice),
        in_flight: Math.max(0, calls.in_flight, before.in_flight + own.in_flight),
        prompt_tokens: Math.max(calls.prompt_tokens, before.prompt_tokens + own.prompt_tokens),
        completion_tokens: Math.max(
          calls.completion_tokens,
          before.completion_tokens + own.completion_tokens,
        ),
      },
    };
  }

  /** Takes over what the ledger has of the run under its former name. */
  adopt(left: Counters): void {
    const { calls } = this.#manifest;
    const repeated = calls.repeated + left.repeated;
    this.#manifest = { ...this.#manifest, calls: { ...(left.sent > calls.sent ? left : calls), repeated } };
  }

  /**
   * Takes the counters as the ledger has them now, in which the run must be open; they reach the disk with the next
   * write.
   */
  count(calls: Counters): void {
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

  /**
   * Every row is in the part file: gives the output its name, with the summary beside it.
   * @param keep puts on disk what a later run takes over from this one; done first, and again when it fails
   * @throws StopError when the disk refuses; the next execution has only this left to do
   */
  async finish(summary: Summary, keep: () => Promise<void> = async () => {}): Promise<void> {
    await this.#orStop(async () => {
      await keep();
      await this.writer.close();
      if (this.claim === null) return;
      const { part, output, manifest, summary: summaryPath } = this.claim.files;
      await writeDurably(summaryPath, `${JSON.stringify(summary, null, 2)}\n`);
      await writing(output, async () => {
        if (existsSync(part)) await rename(part, output);
      });
      await syncFolder(dirname(output));
      await writing(manifest, async () => removeManifest(manifest));
    });
  }

  async #orStop(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      throw stopFor(this.claim, error);
    }
  }

  async #save(workedMs = this.#manifest.worked_ms): Promise<void> {
    if (this.claim === null) return;
    await writeManifest(this.claim.files.manifest, { ...this.#manifest, worked_ms: workedMs });
  }
}

/** A full disk stops the run; what is paid for stays in the ledger (fault 49). */
function stopFor(claim: Claim | null, error: unknown): StopError {
  if (!(error instanceof WriteError)) throw error;
  const remedy = error.full ? 'Free some space' : 'Mend that';
  const hint =
    claim === null
      ? `${remedy}, and begin again: a run to standard output cannot be continued. One with --output FILE can.`
      : `${remedy} and run the same command: it goes on where it stopped.`;
  return new StopError('output_not_written', `${error.message}.`, hint, { cause: error.cause });
}
