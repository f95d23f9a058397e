import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { FinishedSummary } from '../account/read-summary.js';
import type { StepFacts } from '../account/steps.js';
import { type CountedRow, fold, type Tally } from '../account/tally.js';
import { advanced, beginTimeline, type RunningTotals, type Timeline } from '../account/timeline.js';
import { added, type Counters, highest, namesIn } from '../core/counters.js';
import { UsageError } from '../core/errors.js';
import { outputBytes, packingOf } from '../output/output-bytes.js';
import { type FileId, fileAt, isSame, modeLike, modeOf } from '../output/plain-file.js';
import { PartFile, type RecordWriter, StreamWriter, writeAside, writeDurably } from '../output/writer.js';
import { lostPart, outOfPlace, stopFor } from './disk-stops.js';
import { outputChanged } from './finished-output.js';
import type { Manifest } from './manifest.js';
import { type OutputFiles, rejectedFiles } from './output-files.js';
import type { OutputTarget } from './output-target.js';

export interface RowRecord extends CountedRow {
  readonly text: string;
}

/** Milliseconds between saves of the counters while no row is written. */
const KEEP_MS = 1_000;

/** The part file, and the manifest that says how much of it counts. */
export class Committer {
  readonly #began = performance.now();
  #target: OutputTarget | null;
  #manifest: Manifest;
  /** Start of this execution on the timeline; a killed execution has not saved its own time. */
  readonly #workedBefore: number;
  #answered = 0;
  /** Known unwritten answers of earlier executions, without those counted as repeated. */
  #owed: number;
  #own: () => number = () => 0;
  /** Answers of all processes seen in the ledger, beyond those it had at first. */
  #seen = 0;
  /** Seen answers that the ledger has lost since. */
  #lost = 0;
  /** Outcomes that the ledger had at first. */
  #found = 0;
  #saved = { text: '', at: Number.NEGATIVE_INFINITY };
  /** Null before this process has written it. */
  #manifestFile: FileId | null = null;

  private constructor(
    target: OutputTarget | null,
    manifest: Manifest,
    private readonly writer: RecordWriter,
    /** Permissions of all files of the run: those of the output. */
    readonly mode?: number,
  ) {
    this.#target = target;
    this.#manifest = manifest;
    this.#owed = manifest.unwritten;
    this.#workedBefore = Math.max(manifest.worked_ms, manifest.timeline?.until_ms ?? 0);
  }

  /**
   * Opens the part file at the manifest's mark, and saves the manifest, before anything is called.
   * @param total rows of the run. A shorter finished output stays until the longer one replaces it
   * @param input a new output has the permissions of this file
   * @throws UsageError when either file cannot be written
   */
  static async open(
    target: OutputTarget | null,
    manifest: Manifest,
    header: string,
    stdout: NodeJS.WritableStream,
    total: number,
    input?: string,
  ): Promise<Committer> {
    if (target === null) return new Committer(null, manifest, new StreamWriter(stdout, header));
    const { files, lock } = target;
    let writer: PartFile | null = null;
    try {
      const mode =
        modeOf(files.output) ?? modeOf(files.part) ?? (input === undefined ? undefined : modeLike(input));
      const { finished, renamed } = target;
      if (renamed && manifest.rows < total) throw summaryGone(files);
      const bytes = finished ? await copyFinished(files, finished, mode) : manifest.bytes;
      // Killed after the rename: nothing is left to append.
      writer = await PartFile.open(renamed ? files.output : files.part, bytes, lock?.tookOver, mode);
      if (bytes === 0) await writer.commit(header);
      const committer = new Committer(
        target,
        {
          ...manifest,
          bytes: writer.bytes,
          seal: writer.seal,
          stage: renamed ? 'finishing' : 'working',
          reach: Math.max(total, manifest.reach ?? 0),
        },
        writer,
        mode,
      );
      await committer.#save();
      return committer;
    } catch (error) {
      await writer?.close();
      const { code, message, hint, cause } = stopFor(target, error);
      throw new UsageError(code, message, hint, { cause });
    }
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  /** Null for standard output. */
  get target(): OutputTarget | null {
    return this.#target;
  }

  /** Null for standard output. */
  get files(): OutputFiles | null {
    return this.#target?.files ?? null;
  }

  /** By the steady clock; null while no records wait for the reader of standard output, and for a file. */
  get unreadSince(): number | null {
    return this.writer instanceof StreamWriter ? this.writer.unreadSince : null;
  }

  /**
   * Appends, syncs, saves the manifest. The ledger may forget the records once this resolves.
   * @param keep writes what must be on disk before the manifest counts these rows
   * @throws StopError when the disk fails; earlier commits stand, and paid answers are in the ledger
   */
  async commit(records: readonly RowRecord[], keep: () => Promise<void> = async () => {}): Promise<void> {
    await this.orStop(async () => {
      await this.assertOurs();
      await keep();
      await this.#append(records);
    });
  }

  async #append(records: readonly RowRecord[]): Promise<void> {
    await this.writer.commit(records.map(({ text }) => text).join(''));
    await this.assertOurs();
    const { retry } = this.#manifest;
    const tally = fold(this.#manifest.tally, records);
    const manifest = {
      ...this.#manifest,
      rows: this.#manifest.rows + records.length,
      bytes: this.writer.bytes,
      ...(this.writer instanceof PartFile && { seal: this.writer.seal }),
      tally,
      ...(retry && { retry: { ...retry, tally: fold(retry.tally, records) } }),
      timeline: this.#timelineWith(tally, records),
    };
    for (const { outcome } of records) {
      // The ledger knows nothing of what was answered elsewhere.
      if (outcome.status !== 'skipped' && outcome.attempts > 0 && outcome.elsewhere === undefined)
        this.#answered += outcome.asked ?? 1;
    }
    // Events and summaries only report what is on disk, so a crash takes nothing back.
    await this.#save(manifest.worked_ms, manifest);
    this.#manifest = manifest;
  }

  async opened(): Promise<void> {
    if (this.#manifest.opened) return;
    await this.save({ opened: true });
  }

  /** The ledger's answers of earlier executions; if the manifest knows of more, some are lost. */
  owes(answers: number): void {
    this.#owed = Math.max(this.#owed, answers);
    this.#found = answers;
  }

  /** @param own answers of this process so far, interim outcomes included */
  countAnswers(own: () => number): void {
    this.#own = own;
  }

  /**
   * Workers of other processes do not report their answers; the ledger shows them.
   * @param outcomes outcomes in the ledger of the rows in view
   * @param lost outcomes that the ledger had before
   */
  saw(outcomes: number, lost: number): void {
    this.#lost = lost;
    this.#seen = Math.max(this.#seen, this.#answered + outcomes + lost - this.#found);
  }

  get answers(): number {
    return Math.max(this.#own(), this.#seen);
  }

  /** Known answers that are paid for and not in the part file. */
  get #unwritten(): number {
    return Math.max(0, this.#owed + this.answers - this.#answered);
  }

  /** At least once a second, even without new rows: a crash may take the store with it (fault 110). */
  async keepCounts(): Promise<void> {
    if (performance.now() - this.#saved.at < KEEP_MS || this.#text() === this.#saved.text) return;
    await this.orStop(async () => {
      await this.assertOurs();
      await this.#save();
    });
  }

  /**
   * Recounts what this process did: a store that comes back empty has lost its increments (fault 35).
   * @param before the run's counters before this process called anything
   * @param own the calls of this process only
   * @param kept answers that the ledger keeps for the next execution. Answers beyond those and the written
   * rows are paid for twice (fault 110). Null when the ledger cannot be asked; the next execution finds out
   */
  recount(before: Counters, own: Counters, kept: number | null): void {
    // Some may have arrived since the last look at the rows.
    if (kept !== null) this.saw(kept, this.#lost);
    const twice = kept === null ? 0 : Math.max(0, this.#unwritten - kept);
    this.#owed -= twice;
    const now = added(before, { ...own, repeated: own.repeated + twice });
    const { calls } = this.#manifest;
    this.count({
      ...highest(namesIn({ ...calls, ...now }), calls, now),
      in_flight: Math.max(calls.in_flight, own.in_flight),
    });
  }

  /** Saved with the next write. @param canary last row that goes ahead of the rest; 0 for none */
  goAhead(canary: number): void {
    if (canary > 0) this.#manifest = { ...this.#manifest, canary };
  }

  /** The run must be open in the ledger. Saved with the next write. */
  count(calls: Counters): void {
    this.#manifest = { ...this.#manifest, calls };
  }

  /** The run calls in the flex tier. Saved with the next write. @param now ms since 1970 */
  inFlex(now: number): void {
    if (this.#manifest.flex_since === undefined) this.#manifest = { ...this.#manifest, flex_since: now };
  }

  get timeline(): Timeline {
    return this.#timelineWith(this.#manifest.tally, []);
  }

  #timelineWith(tally: Tally, records: readonly RowRecord[]): Timeline {
    const { timeline, calls } = this.#manifest;
    const latencies = records.flatMap(({ outcome }) =>
      outcome.status === 'skipped' || outcome.latency_ms === null ? [] : [outcome.latency_ms],
    );
    return advanced(
      timeline ?? beginTimeline(this.#workedBefore, totalsOf(this.#manifest)),
      this.#workedBefore + this.ranMs,
      totalsOf({ tally, calls }),
      latencies,
    );
  }

  /** Milliseconds, of all executions together. */
  get workedMs(): number {
    return this.#manifest.worked_ms + this.ranMs;
  }

  /** Milliseconds of this execution. */
  get ranMs(): number {
    return performance.now() - this.#began;
  }

  async pause(): Promise<void> {
    // If the disk stopped the run, the manifest of the last commit stands.
    if (await this.#mayPause()) await this.#save(this.workedMs).catch(() => {});
    await this.writer.close();
  }

  /** May be called again. */
  async close(): Promise<void> {
    await this.writer.close();
  }

  /** A deleted manifest is written again; another run's manifest stays. */
  async #mayPause(): Promise<boolean> {
    const { files, lock } = this.#target ?? {};
    if (files === undefined || lock?.isHeld() === false) return false;
    const found = await fileAt(files.manifest);
    return found === null || isSame(found, this.#manifestFile);
  }

  /**
   * Saves what a finishing step has found, so that the next execution need not find it again. An output that
   * misses the requirements gets a name of its own, and replaces nothing.
   * @param tally the figures, if the step has changed them. @default they stay
   */
  async note(facts: StepFacts, tally?: Tally): Promise<void> {
    const { steps, retry } = this.#manifest;
    if (this.#target !== null && facts.require !== undefined && steps.require === undefined)
      this.#target = { ...this.#target, files: rejectedFiles(this.#target.files) };
    await this.save({
      steps: { ...steps, ...facts },
      ...(tally && (retry === undefined ? { tally } : { retry: { ...retry, tally } })),
    });
  }

  /** @throws StopError when the disk fails, or the files are no longer this run's */
  async save(changes: Partial<Manifest>): Promise<void> {
    await this.orStop(async () => {
      await this.assertOurs();
      this.#manifest = { ...this.#manifest, ...changes };
      await this.#save();
    });
  }

  /** Lock, part file and manifest are still this run's (faults 60, 63). Cheap compared to a commit's sync. */
  async assertOurs(): Promise<void> {
    if (this.#target === null || !(this.writer instanceof PartFile)) return;
    const { files, lock, renamed } = this.#target;
    const folder = dirname(files.output);
    if (!existsSync(folder)) throw outOfPlace('moved', folder);
    if (lock?.isHeld() === false) throw outOfPlace('lock', files.output);
    const loss = await this.writer.lost();
    if (loss !== null) throw await lostPart(loss, renamed ? files.output : files.part, this.writer);
    if (this.#manifestFile === null) return;
    const found = await fileAt(files.manifest);
    if (!isSame(found, this.#manifestFile)) {
      throw outOfPlace(found === null ? 'manifest deleted' : 'manifest replaced', files.manifest);
    }
  }

  /** Runs what writes to the disk. @throws StopError when that fails */
  async orStop<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw stopFor(this.#target, error);
    }
  }

  async #save(workedMs?: number, manifest?: Manifest): Promise<void> {
    if (this.#target === null) return;
    const text = this.#text(workedMs, manifest);
    this.#manifestFile = await writeDurably(this.#target.files.manifest, `${text}\n`, this.mode);
    this.#saved = { text, at: performance.now() };
  }

  #text(workedMs = this.#manifest.worked_ms, manifest = this.#manifest): string {
    return JSON.stringify({ ...manifest, unwritten: this.#unwritten, worked_ms: workedMs });
  }
}

/** A run that was killed before its manifest was removed has a summary to go on from. */
const summaryGone = ({ output, summary }: OutputFiles): UsageError =>
  new UsageError(
    'summary_missing',
    `${summary} does not say that ${output} has the first rows of the input, so none can be added to it`,
    'Put the summary of the run back, or start over with --restart --overwrite.',
  );

/**
 * Copies the output to which rows are added to the part file.
 * @returns its bytes
 * @throws UsageError `output_changed` when it changed since the run was found
 */
async function copyFinished(
  files: OutputFiles,
  { details }: FinishedSummary,
  mode: number | undefined,
): Promise<number> {
  const { output, part } = files;
  const digest = createHash('sha256');
  await writeAside(
    part,
    outputBytes(output, packingOf(output), (piece) => digest.update(piece)),
    mode,
  );
  if (digest.digest('hex') === details.written.sha256) return (await fileAt(part))?.size ?? 0;
  await rm(part, { force: true });
  throw outputChanged(files, 'it was changed while the input was read');
}

const totalsOf = ({ tally: { rows, usage }, calls }: Pick<Manifest, 'tally' | 'calls'>): RunningTotals => ({
  rows: rows.total,
  failed: rows.failed,
  prompt_tokens: usage.prompt_tokens,
  completion_tokens: usage.completion_tokens,
  sent: calls.sent,
  rate_limited: calls.rate_limited,
});
