import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Abstention } from '../account/scores.js';
import type { StepFacts } from '../account/steps.js';
import { type StoredSummary, summaryText } from '../account/summary.js';
import { type Ended, fold, type Tally } from '../account/tally.js';
import { advanced, beginTimeline, type Standing, type Timeline } from '../account/timeline.js';
import { FILE_LIMIT_REMEDY, isFileLimit, StopError, UsageError } from '../errors.js';
import type { Fault } from '../model.js';
import { outputBytes, packedFor, packingOf } from '../output/output-bytes.js';
import { type FileId, fileAt, giveFreeName, isSame, isTaken, modeLike, modeOf } from '../output/own-file.js';
import {
  type Loss,
  PartFile,
  type RecordWriter,
  StreamWriter,
  sealOfFile,
  syncFolder,
  WriteError,
  writeAside,
  writeDurably,
  writing,
} from '../output/writer.js';
import { writtenOf } from '../output/written.js';
import { added, COUNTERS, type Counters, highest } from '../store/counters.js';
import { outputChanged } from './finished-output.js';
import { type Manifest, ofPartFile, removeManifest } from './manifest.js';
import { type OutputFiles, rejectedFiles } from './output-files.js';
import { mayReplace, type OutputTarget } from './output-target.js';

/** A row's record as it goes to the output, and what the tally counts of it. */
export interface RowRecord extends Ended {
  readonly text: string;
}

/** The rows that a person should see. */
interface Review {
  /** The text of their file, from the bytes of the output. */
  readonly of: (output: AsyncIterable<Buffer>) => AsyncGenerator<string>;
  /** A record that is too long to be read back keeps nobody from the output. */
  readonly onUnread: (reason: string) => void;
  /** The file that is there is known, and may be replaced. @default false */
  readonly replace?: boolean;
}

/** Time between two writes of what is counted, while no row is written, in milliseconds. */
const KEEP_MS = 1_000;

/** What a run has on disk: the part file and the manifest that says how much of it counts. */
export class Committer {
  readonly #began = performance.now();
  #target: OutputTarget | null;
  #manifest: Manifest;
  /** Where this execution begins on the timeline: a killed one has not kept its time. */
  readonly #workedBefore: number;
  /** Answers of the rows written by this execution that were called. */
  #answered = 0;
  /** Answers of executions before that were not written, as far as is known, less those that count as repeated. */
  #owed: number;
  /** Answers of this process so far. */
  #own: () => number = () => 0;
  /** Answers of all processes that were seen in the ledger, behind those that it had at first. */
  #seen = 0;
  /** Of these, those that the ledger has lost since. */
  #lost = 0;
  /** Outcomes that the ledger had at first. */
  #found = 0;
  /** The manifest as it was saved last, and when. */
  #saved = { text: '', at: Number.NEGATIVE_INFINITY };
  /** The output as it was written anew; null where it is as the part file. */
  #anew: { readonly path: string; readonly file: FileId } | null = null;
  /** The manifest as this process wrote it; null before it has. */
  #manifestFile: FileId | null = null;

  private constructor(
    target: OutputTarget | null,
    manifest: Manifest,
    private readonly writer: RecordWriter,
    /** Permissions of all files of the run: those of the output that they stand for, or stand beside. */
    private readonly mode?: number,
  ) {
    this.#target = target;
    this.#manifest = manifest;
    this.#owed = manifest.unwritten;
    this.#workedBefore = Math.max(manifest.worked_ms, manifest.timeline?.until_ms ?? 0);
  }

  /**
   * Opens the part file at the manifest's mark, and puts the manifest on disk before anything is called.
   * @param total rows that the run is to have. Where more are wanted than the output has under its final name, that one
   *   stays until a longer one takes its place
   * @param input a new output is as private as this file
   * @throws UsageError when either cannot be written
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
      const goesOn = target.renamed && manifest.rows < total;
      const replaces = goesOn ? await copyFinished(target, mode) : undefined;
      // Killed after the rename: nothing is left to append.
      const renamed = target.renamed && !goesOn;
      const left = goesOn ? ofPartFile(manifest) : manifest;
      writer = await PartFile.open(renamed ? files.output : files.part, left.bytes, lock?.tookOver, mode);
      if (left.bytes === 0) await writer.commit(header);
      const committer = new Committer(
        { ...target, renamed },
        {
          ...left,
          bytes: writer.bytes,
          seal: writer.seal,
          finishing: renamed,
          reach: Math.max(total, manifest.reach ?? 0),
          ...(goesOn && { replaces }),
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
  get files(): OutputFiles | null {
    return this.#target?.files ?? null;
  }

  /** Since when records wait for the reader of standard output, by the steady clock; null while none do, and for a file. */
  get unreadSince(): number | null {
    return this.writer instanceof StreamWriter ? this.writer.unreadSince : null;
  }

  /**
   * Append, fsync, manifest. What is in a commit is safe when this resolves; then the ledger may forget it.
   * @param records of the next rows, in order
   * @param keep puts on disk what must be there before the manifest says that these rows are written
   * @throws StopError when the disk refuses; then the commits before stand, and what is paid for is in the ledger
   */
  async commit(records: readonly RowRecord[], keep: () => Promise<void> = async () => {}): Promise<void> {
    await this.#orStop(async () => {
      await this.#assertOurs();
      await keep();
      await this.#append(records);
    });
  }

  async #append(records: readonly RowRecord[]): Promise<void> {
    await this.writer.commit(records.map(({ text }) => text).join(''));
    await this.#assertOurs();
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
      if (outcome.status !== 'skipped' && outcome.attempts > 0) this.#answered += outcome.asked ?? 1;
    }
    // What is said of the run is on disk: a kill takes none of it back.
    await this.#save(manifest.worked_ms, manifest);
    this.#manifest = manifest;
  }

  /** The ledger knows the run from now on. */
  async opened(): Promise<void> {
    if (this.#manifest.opened) return;
    this.#manifest = { ...this.#manifest, opened: true };
    await this.#orStop(() => this.#save());
  }

  /** The ledger has so many answers of executions before. Where that is less than those knew, some are lost. */
  owes(answers: number): void {
    this.#owed = Math.max(this.#owed, answers);
    this.#found = answers;
  }

  /** @param own how many answers this process had so far, interim outcomes included */
  countAnswers(own: () => number): void {
    this.#own = own;
  }

  /**
   * Workers of other processes do not say what they were answered; what was seen of it is known.
   * @param outcomes that the ledger has of the rows in view
   * @param lost those that it had before and has no longer
   */
  saw(outcomes: number, lost: number): void {
    this.#lost = lost;
    this.#seen = Math.max(this.#seen, this.#answered + outcomes + lost - this.#found);
  }

  /** Answers that this execution had, as far as it knows. */
  get answers(): number {
    return Math.max(this.#own(), this.#seen);
  }

  /** Answers that are paid for and not in the part file, as far as this process knows. */
  get #unwritten(): number {
    return Math.max(0, this.#owed + this.answers - this.#answered);
  }

  /**
   * What is counted of calls and answers reaches the disk at least once a second, also while no row can be written: a kill may
   * take the store with it (fault 110).
   */
  async keepCounts(): Promise<void> {
    if (performance.now() - this.#saved.at < KEEP_MS || this.#text() === this.#saved.text) return;
    await this.#orStop(async () => {
      await this.#assertOurs();
      await this.#save();
    });
  }

  /**
   * Counts again what this process did itself: increments of the ledger are lost with a store that comes back empty
   * (fault 35).
   * @param before the run's counters before this process called anything
   * @param own what it called, and nothing of what others did
   * @param kept answers that the ledger keeps for the next execution: one more than they and the written rows have was paid
   *   for twice, or will be (fault 110). Null where the ledger cannot be asked, and the next execution finds out
   */
  recount(before: Counters, own: Counters, kept: number | null): void {
    // Some may have come since the last look at the rows.
    if (kept !== null) this.saw(kept, this.#lost);
    const twice = kept === null ? 0 : Math.max(0, this.#unwritten - kept);
    this.#owed -= twice;
    const now = added(before, { ...own, repeated: own.repeated + twice });
    const { calls } = this.#manifest;
    this.count({
      ...highest(COUNTERS, calls, now),
      in_flight: Math.max(calls.in_flight, own.in_flight),
    });
  }

  /** Rows up to this one go ahead of the rest; reaches the disk with the next write. @param canary 0 when none does */
  goAhead(canary: number): void {
    if (canary > 0) this.#manifest = { ...this.#manifest, canary };
  }

  /**
   * Takes the counters as the ledger has them now, in which the run must be open; they reach the disk with the next
   * write.
   */
  count(calls: Counters): void {
    this.#manifest = { ...this.#manifest, calls };
  }

  /** How the run has gone up to now. */
  get timeline(): Timeline {
    return this.#timelineWith(this.#manifest.tally, []);
  }

  #timelineWith(tally: Tally, records: readonly RowRecord[]): Timeline {
    const { timeline, calls } = this.#manifest;
    const latencies = records.flatMap(({ outcome }) =>
      outcome.status === 'skipped' || outcome.latency_ms === null ? [] : [outcome.latency_ms],
    );
    return advanced(
      timeline ?? beginTimeline(this.#workedBefore, standingOf(this.#manifest)),
      this.#workedBefore + this.ranMs,
      standingOf({ tally, calls }),
      latencies,
    );
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
    if (await this.#mayPause()) await this.#save(this.workedMs).catch(() => {});
    await this.writer.close();
  }

  /** Leaves the files as they are. Safe to call again. */
  async close(): Promise<void> {
    await this.writer.close();
  }

  /** A manifest that was deleted is written again; one of somebody else stays. */
  async #mayPause(): Promise<boolean> {
    const { files, lock } = this.#target ?? {};
    if (files === undefined || lock?.isHeld() === false) return false;
    const found = await fileAt(files.manifest);
    return found === null || isSame(found, this.#manifestFile);
  }

  /**
   * Reads the part file from its beginning, where every row is in it and the output is yet to be named; else null, and for
   * standard output.
   */
  written(): (() => AsyncIterable<Buffer>) | null {
    const { files, renamed } = this.#target ?? {};
    if (files === undefined || renamed) return null;
    return () => outputBytes(files.part);
  }

  /** The records as the output will have them; null where it has its name already, and for standard output. */
  whole(): (() => AsyncIterable<Buffer>) | null {
    const { files, renamed } = this.#target ?? {};
    if (files === undefined || renamed || this.#anew === null) return this.written();
    const { path } = this.#anew;
    return () => outputBytes(path, packingOf(files.output));
  }

  /** A step at the end of the run has found this: it is not looked for again. */
  async note(facts: StepFacts): Promise<void> {
    this.#manifest = { ...this.#manifest, steps: { ...this.#manifest.steps, ...facts } };
    await this.#orStop(() => this.#save());
  }

  /** The answers are below what is required: the output gets a name of its own, and what has the other one stays. */
  async reject(why: Fault): Promise<void> {
    if (this.#target === null || this.#manifest.steps.require !== undefined) return;
    await this.note({ require: why });
    this.#target = { ...this.#target, files: rejectedFiles(this.#target.files) };
  }

  /**
   * Writes the output beside the part file, with other records than are in that, or packed as its name says. The part file stays
   * until the output has its name, so that the next execution can do this again.
   * @throws StopError when the disk refuses, or the place is not this run's any more
   */
  async rewrite(records: AsyncIterable<Buffer>): Promise<void> {
    if (this.#target === null) return;
    const { rewritten: path, output } = this.#target.files;
    await this.#orStop(async () => {
      await this.#assertOurs();
      await this.#assertReplaced();
      this.#anew = { path, file: await writeAside(path, packedFor(output, records), this.mode) };
      const { bytes, seal, tally } = this.#manifest;
      const part = { bytes, seal, tally };
      this.#manifest = { ...this.#manifest, ...(await sealOfFile(path)), part };
    });
  }

  /** What is counted of the output with the rows that were called again; it reaches the disk when the output gets its name. */
  countedAgain(tally: Tally): void {
    const { retry } = this.#manifest;
    if (retry !== undefined) this.#manifest = { ...this.#manifest, retry: { ...retry, tally } };
  }

  /** What is counted when labels are left out, and why they are; it reaches the disk when the output gets its name. */
  abstain(tally: Tally, abstain: Abstention): void {
    this.#manifest = { ...this.#manifest, tally, steps: { ...this.#manifest.steps, abstain } };
  }

  /**
   * Every row is in the part file: gives the output its name, with the summary and the rows for review beside it.
   * @param keep puts on disk what a later run takes over from this one; done first, and again when it fails
   * @param more the input has further rows: the manifest stays, so that the run can go on with them
   * @param review null for none
   * @param named what is made of the output when it has its name; done again where the process is killed meanwhile
   * @returns the summary as it is written: it says how the output is known again
   * @throws StopError when the disk refuses, or the place is not this run's any more; the next execution has only this
   *   left to do
   */
  async finish(
    summary: StoredSummary,
    {
      keep = async () => {},
      more = false,
      review = null,
      named = async () => {},
    }: {
      readonly keep?: () => Promise<void>;
      readonly more?: boolean;
      readonly review?: Review | null;
      readonly named?: () => Promise<void>;
    } = {},
  ): Promise<StoredSummary> {
    return await this.#orStop(async () => {
      await this.#assertOurs();
      await this.#pack();
      await keep();
      if (this.#target === null) return summary;
      const { manifest, summary: summaryPath, output, part } = this.#target.files;
      if (review !== null && !review.replace) this.#assertNoReview(this.#target);
      await this.#assertReplaced();
      const { renamed } = this.#target;
      const whole = renamed ? output : (this.#anew?.path ?? part);
      const packing = whole === part ? null : packingOf(output);
      const written = await writing(whole, () => writtenOf(whole, output, packing));
      const stored = { ...summary, details: { ...summary.details, written } };
      await writeDurably(summaryPath, summaryText(stored), this.mode);
      this.#manifest = { ...this.#manifest, finishing: true, ...(review !== null && { reviewing: true }) };
      await this.#save();
      if (review !== null)
        await writeReview(this.#target.files.review, outputBytes(whole, packing), review, this.mode);
      await this.#assertOurs();
      if (!renamed) await this.#giveName(whole, output);
      await syncFolder(dirname(output));
      if (this.#anew !== null) await writing(part, () => rm(part, { force: true }));
      await named();
      if (more) {
        const finished = { sha256: written.sha256 };
        this.#manifest = { ...this.#manifest, finished, finishing: false, replaces: undefined };
        await this.#save(this.workedMs);
      } else await writing(manifest, async () => removeManifest(manifest));
      return stored;
    }).finally(() => this.writer.close());
  }

  /** The part file is plain, so that records can be appended and cut off; an output that is to be packed is written anew. */
  async #pack(): Promise<void> {
    const written = this.written();
    if (written === null || this.#anew !== null || packingOf(this.#target?.files.output ?? '') === null)
      return;
    await this.rewrite(written());
  }

  /** @throws StopError when a file with the name of the rows for review appeared meanwhile: somebody may have filled answers in */
  #assertNoReview({ files: { review } }: OutputTarget): void {
    const { overwrite, finishing, reviewing } = this.#manifest;
    if (isTaken(review) && !overwrite && !finishing && !reviewing) throw outOfPlace('review taken', review);
  }

  /**
   * The output whose place this one takes is still the one that it is made of: else its summary would be replaced beside it.
   * @throws StopError when it is not
   */
  async #assertReplaced(): Promise<void> {
    const { files, renamed = true } = this.#target ?? {};
    if (files === undefined || renamed || this.#manifest.replaces === undefined) return;
    const stands = this.#manifest.retry !== undefined || isTaken(files.output);
    if (stands && !(await mayReplace(files.output, this.#manifest)))
      throw outOfPlace('changed', files.output);
  }

  /** The final name is absent or stands for the whole file. What has it already is replaced only where that was asked for. */
  async #giveName(whole: string, output: string): Promise<void> {
    if (await mayReplace(output, this.#manifest)) await writing(output, () => rename(whole, output));
    else if (!(await writing(output, () => giveFreeName(whole, output))))
      throw outOfPlace(this.#manifest.replaces === undefined ? 'taken' : 'changed', output);
  }

  /**
   * What this process is about to write to is still its own (faults 60, 63): the lock, the part file and the manifest.
   * A handful of looks, next to the sync of a commit nothing.
   */
  async #assertOurs(): Promise<void> {
    if (this.#target === null || !(this.writer instanceof PartFile)) return;
    const { files, lock, renamed } = this.#target;
    const folder = dirname(files.output);
    if (!existsSync(folder)) throw outOfPlace('moved', folder);
    if (lock?.isHeld() === false) throw outOfPlace('lock', files.output);
    const loss = await this.writer.lost();
    if (loss !== null) throw await lostPart(loss, renamed ? files.output : files.part, this.writer);
    if (this.#anew !== null) {
      const { path, file } = this.#anew;
      const found = await fileAt(path);
      if (!isSame(found, file) || found?.size !== this.#manifest.bytes) throw outOfPlace('anew', path);
    }
    if (this.#manifestFile === null) return;
    const found = await fileAt(files.manifest);
    if (!isSame(found, this.#manifestFile)) {
      throw outOfPlace(found === null ? 'manifest deleted' : 'manifest replaced', files.manifest);
    }
  }

  async #orStop<T>(work: () => Promise<T>): Promise<T> {
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

/**
 * The output with the first rows becomes the part file again.
 * @returns the digest of the output
 * @throws UsageError `output_changed`: it was another when the run was found, before the input was read
 */
async function copyFinished({ files, unfinished }: OutputTarget, mode?: number): Promise<string> {
  const { output, part } = files;
  const digest = createHash('sha256');
  await writeAside(
    part,
    outputBytes(output, packingOf(output), (piece) => digest.update(piece)),
    mode,
  );
  const sha256 = digest.digest('hex');
  if (sha256 === (unfinished?.finished?.sha256 ?? sha256)) return sha256;
  await rm(part, { force: true });
  throw outputChanged(files, 'it was changed while the input was read');
}

const standingOf = ({ tally: { rows, usage }, calls }: Pick<Manifest, 'tally' | 'calls'>): Standing => ({
  rows: rows.total,
  failed: rows.failed,
  prompt_tokens: usage.prompt_tokens,
  completion_tokens: usage.completion_tokens,
  sent: calls.sent,
  rate_limited: calls.rate_limited,
});

async function writeReview(
  path: string,
  output: AsyncIterable<Buffer>,
  { of, onUnread }: Review,
  mode: number | undefined,
): Promise<void> {
  try {
    await writeDurably(path, of(output), mode);
  } catch (error) {
    if (!(error instanceof WriteError && error.cause instanceof UsageError)) throw error;
    onUnread(error.cause.message);
  }
}

/** A full disk stops the run; what is paid for stays in the ledger (fault 49). */
function stopFor(target: OutputTarget | null, error: unknown): StopError {
  if (!(error instanceof WriteError)) throw error;
  if (isFileLimit(error.cause)) {
    return new StopError('too_many_open_files', `${error.message}.`, FILE_LIMIT_REMEDY, {
      cause: error.cause,
    });
  }
  const remedy = error.full ? 'Free some space' : 'Mend that';
  const hint =
    target === null
      ? `${remedy}, and begin again: a run to standard output cannot be continued. One with --output FILE can.`
      : `${remedy} and run the same command: it goes on where it stopped.`;
  return new StopError('output_not_written', `${error.message}.`, hint, { cause: error.cause });
}

const AGAIN = 'run the same command: it goes on where it stopped.';

/** Why a run may not go on writing to its place, in words; the path is what the words are about. */
const WORDS = {
  taken: [
    'output_taken',
    (path: string) =>
      `${path} was not there when the run began, and is there now. Every row is written, in ${path}.part.`,
    'Move that file away, or add --overwrite, and run the same command: only the name is left to be given.',
  ],
  changed: [
    'output_changed',
    (path: string) =>
      `${path} was changed while the run went on. Every row of the run is written, in ${path}.part.`,
    `Put the file back and ${AGAIN}`,
  ],
  'review taken': [
    'review_taken',
    (path: string) => `${path} was not there when the run began, and is there now. Every row is written.`,
    'Move that file away, or add --overwrite, and run the same command: only the files are left to be put in place.',
  ],
  moved: [
    'output_moved',
    (path: string) => `the folder ${path} was moved or removed while the run went on.`,
    `Put it back and ${AGAIN}`,
  ],
  lock: [
    'lock_lost',
    (path: string) =>
      `another run writes to ${path} now, because this process gave no sign of life, or its lock was removed.`,
    'What this run has written stays; the other one goes on with it.',
  ],
  anew: [
    'part_lost',
    (path: string) => `${path} was changed by another process while the run went on.`,
    `Keep other processes from changing it and ${AGAIN}`,
  ],
  'manifest deleted': [
    'manifest_lost',
    (path: string) => `${path} was deleted while the run went on; it is written again.`,
    `Leave it there and ${AGAIN}`,
  ],
  'manifest replaced': [
    'manifest_lost',
    (path: string) => `${path} was replaced by another file while the run went on.`,
    'Restore it, or start over with --restart; rows already answered are then called again.',
  ],
} as const;

/** The place is not this run's any more; what was paid for is on disk or in the ledger. */
function outOfPlace(why: keyof typeof WORDS, path: string): StopError {
  const [code, message, hint] = WORDS[why];
  return new StopError(code, message(path), hint);
}

/** The part file is not where it was, or not what it was. What it held is put on disk again where it would be gone. */
async function lostPart(loss: Loss, path: string, part: PartFile): Promise<StopError> {
  const stop = (message: string, hint: string): StopError =>
    new StopError('part_lost', `${path} ${message} while the run went on.`, hint);
  switch (loss) {
    case 'moved':
      return stop('was moved away', `Put it back and ${AGAIN}`);
    case 'resized':
      return stop('was changed by another process', `Keep other processes from changing it and ${AGAIN}`);
    case 'deleted':
      await part.rescue(path);
      return stop('was deleted', `It is written again: leave it there and ${AGAIN}`);
    case 'replaced': {
      const rescued = `${path}.rescued`;
      await part.rescue(rescued);
      return stop(
        'was replaced by another file',
        `What the run had written is in ${rescued}: give it the name ${path} and ${AGAIN}`,
      );
    }
  }
}
