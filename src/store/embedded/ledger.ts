import { existsSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Counts } from '../../core/counters.js';
import { errorText, isDiskFull, StopError, UsageError } from '../../core/errors.js';
import type { Lock } from '../../core/lock.js';
import type { CalledOutcome } from '../../core/model.js';
import {
  type Answer,
  type Batch,
  type ChunkKey,
  LEDGER_TIMES,
  type Ledger,
  type LedgerTimes,
  NO_ANSWER,
  type Progress,
  type Reservation,
  SettledRows,
} from '../ledger.js';
import { MOST_CACHED } from '../outcome-cache.js';
import { LedgerFile } from './ledger-file.js';
import { type Change, LedgerState, type OutcomeLocation, settledAt, withOutcome } from './ledger-state.js';

/** The file is rewritten when it is this many bytes larger than twice its kept outcomes. */
const FORGOTTEN = 4 * 2 ** 20;
/** Bytes of outcomes copied at a time. */
const COPIED = 2 ** 20;

/**
 * A file of changes, and in memory their result. A change is in the file before it is applied and answered.
 *
 * The disk is shared with the rest of the machine. When it runs full, the run is asked to stop while there is
 * room for the answers being paid for (fault 39); a server waits (fault 34): somebody looks after it.
 */
export class EmbeddedLedger implements Ledger {
  readonly isShared = false;
  readonly settled = new SettledRows();
  readonly #state = new LedgerState();
  readonly #directory: string;
  #file: LedgerFile;
  /** The file has changes since it was rewritten, so it may hold forgotten outcomes. */
  #isChanged = false;
  /** File size, in bytes, above which it is rewritten. */
  #enough = 0;
  #refusal: StopError | null = null;

  /**
   * @param onWarning told when the file cannot be rewritten, and grows meanwhile
   * @throws UsageError when the file is damaged, or of another version
   * @throws the file system's error when a file that was taken over cannot be rewritten
   */
  constructor(
    private readonly path: string,
    private readonly lock: Pick<Lock, 'isHeld' | 'tookOver'>,
    private readonly onWarning: (message: string) => void,
    private readonly times: LedgerTimes = LEDGER_TIMES,
  ) {
    this.#directory = dirname(path);
    if (statSync(path, { throwIfNoEntry: false }) === undefined) LedgerFile.begin(path);
    this.#file = LedgerFile.open(path, (change, places) => {
      this.#isChanged ||= !AS_WRITTEN_ANEW.has(change.do);
      this.#state.apply(change, places);
    });
    this.#setEnough();
    const expired = Date.now() - this.times.outcomeTtlMs;
    for (const run of this.#state.runs) {
      if (this.#state.factsOf(run).seenAt < expired) this.#close(run);
    }
    // The process that lost the directory to this one may be in the middle of a change.
    if (lock.tookOver) this.#writeAnew();
    else if (this.#isChanged) this.#rewrite();
  }

  /** @throws StopError when the last change was refused, and one would be refused now */
  async probe(): Promise<void> {
    if (this.#refusal === null) return;
    // A disk without room for answers may have room for this change.
    if ((await shortageOf(this.#directory)) !== null) throw this.#refusal;
    this.#append(NO_CHANGE);
  }

  async open(
    run: string,
    execution: number,
    committed: number,
    calls: Counts | null,
    isLostRepeated = true,
  ): Promise<boolean> {
    const { leaseMs } = this.times;
    const opening = { at: Date.now(), run, execution, committed, calls, isLostRepeated, leaseMs };
    this.#append({ do: 'open', ...opening });
    return this.#state.open(opening);
  }

  async write(batch: Batch): Promise<readonly Answer[]> {
    const at = Date.now();
    const { counts, atLeast } = batch;
    const reservations = batch.reservations.filter(({ looks }) => !looks);
    const outcomes = batch.settled.flatMap(({ outcome }) => (outcome === null ? [] : [outcome]));
    let places: readonly OutcomeLocation[] = [];
    if (batch.settled.length + counts.size + reservations.length > 0) {
      const settled = batch.settled.map((each) =>
        withOutcome(each, each.outcome === null ? null : (true as const)),
      );
      const change = { at, settled, counts: [...counts], reservations, atLeast: [...atLeast] };
      places = this.#append({ do: 'write', ...change }, outcomes);
    }
    const answers = this.#state.write({ ...batch, settled: settledAt(batch.settled, places) }, at);
    if (this.#state.keptBytes <= MOST_CACHED) {
      for (const [i, place] of places.entries()) place.own = outcomes[i] ?? null;
    }
    this.settled.tell(batch.settled);
    return batch.reservations.map((each, i) => this.#withInterim(each, answers[i] ?? NO_ANSWER));
  }

  #withInterim({ run, rows, looks }: Reservation, answer: Answer): Answer {
    if (!looks) return answer;
    const open = rows.filter((_, i) => answer.rows[i] === 'granted').map(({ row }) => row);
    return { ...answer, interim: this.#interimOf(run, open) };
  }

  async stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void> {
    const stopping = { at: Date.now(), run, execution, reason };
    this.#append({ do: 'stop', ...stopping });
    this.#state.stop(stopping);
  }

  async progress(run: string, firsts: readonly number[]): Promise<Progress> {
    this.#assertHeld();
    const shortage = await shortageOf(this.#directory);
    this.#assertHeld();
    const found = this.#state.progress(run, firsts);
    const full = shortage === null ? this.#refusal : new StopError('state_dir_full', shortage, REMEDY);
    if (full === null || found.stop !== null) return found;
    return { ...found, stop: { code: full.code, message: `${full.message} ${full.hint}` } };
  }

  async deaths(run: string): Promise<ReadonlyMap<number, number>> {
    return new Map(this.#state.factsOf(run).deaths);
  }

  async waiting(run: string): Promise<number> {
    let waiting = 0;
    for (const chunk of this.#state.chunksOf(run).values()) waiting += chunk.size;
    return waiting;
  }

  async outcomes({ run, first }: ChunkKey): Promise<ReadonlyMap<number, CalledOutcome>> {
    const places = this.#state.chunksOf(run).get(first) ?? NO_PLACES;
    return new Map([...places].map(([row, place]) => [row, this.#outcomeAt(place)]));
  }

  async interim(run: string, rows: readonly number[]): Promise<ReadonlyMap<number, CalledOutcome>> {
    return this.#interimOf(run, rows);
  }

  #interimOf(run: string, rows: readonly number[]): ReadonlyMap<number, CalledOutcome> {
    const known = this.#state.interimOf(run);
    const found = new Map<number, CalledOutcome>();
    for (const row of rows) {
      const interim = known.get(row);
      if (interim !== undefined) found.set(row, this.#outcomeAt(interim.place));
    }
    return found;
  }

  async forget(run: string, committed: number, firsts: readonly number[]): Promise<void> {
    const forgetting = { at: Date.now(), run, committed, firsts, leaseMs: this.times.leaseMs };
    this.#append({ do: 'forget', ...forgetting });
    this.#state.forget(forgetting);
  }

  async close(run: string): Promise<void> {
    this.#close(run);
  }

  /** Closes the file, without what was forgotten. */
  leave(): void {
    this.#state.leave();
    if (this.#isChanged && this.lock.isHeld()) this.#rewrite();
    this.#file.close();
  }

  #outcomeAt(place: OutcomeLocation): CalledOutcome {
    return place.own ?? JSON.parse(this.#file.read(place));
  }

  #close(run: string): void {
    this.#append({ do: 'close', run });
    this.#state.close(run);
  }

  /** @throws StopError when the disk refuses or the directory is taken; then nothing has changed */
  #append(change: Change, outcomes: readonly CalledOutcome[] = []): readonly OutcomeLocation[] {
    this.#assertHeld();
    if (this.#file.bytes > this.#enough) this.#rewrite();
    try {
      const places = this.#file.append(
        change,
        outcomes.map((outcome) => JSON.stringify(outcome)),
      );
      this.#refusal = null;
      this.#isChanged = true;
      // A process frozen on the way here may have written behind what the other process has read.
      this.#assertHeld();
      return places;
    } catch (error) {
      if (error instanceof StopError) throw error;
      const message = `cannot keep the queue in ${this.#directory}: ${errorText(error)}.`;
      this.#refusal = isDiskFull(error)
        ? new StopError('state_dir_full', message, REMEDY)
        : new StopError('bad_state_dir', message, 'Make it writable and run the same command.');
      throw this.#refusal;
    }
  }

  #assertHeld(): void {
    if (!this.lock.isHeld()) throw lockLost(this.#directory);
  }

  /** Rewrites the file if possible. Otherwise, for example without room for a second one, it grows. */
  #rewrite(): void {
    try {
      this.#writeAnew();
    } catch (error) {
      this.#setEnough();
      // The next change reports a full disk, and stops the run.
      if (isDiskFull(error) || !this.lock.isHeld()) return;
      this.onWarning(`cannot write ${this.path} anew, so it grows: ${errorText(error)}`);
    }
  }

  /** Writes what is known to another file, which replaces this one. */
  #writeAnew(): void {
    const moved = new Map<OutcomeLocation, OutcomeLocation>();
    const draft = LedgerFile.draft(this.path);
    try {
      this.#copyTo(draft, moved);
      this.#assertHeld();
      draft.put();
    } catch (error) {
      draft.discard();
      throw error;
    }
    this.#file.close();
    this.#file = draft;
    for (const [place, { offset }] of moved) place.offset = offset;
    this.#isChanged = false;
    this.#setEnough();
  }

  #setEnough(): void {
    this.#enough = this.#file.bytes + this.#state.keptBytes + FORGOTTEN;
  }

  /** @param moved receives the place of each outcome in the other file */
  #copyTo(next: LedgerFile, moved: Map<OutcomeLocation, OutcomeLocation>): void {
    const copy = (
      kept: ReadonlyMap<number, OutcomeLocation>,
      changeFor: (rows: readonly number[]) => Change,
    ): void => {
      for (const part of partsOf(kept)) {
        const places = part.map(([, place]) => place);
        const copies = next.copy(changeFor(part.map(([row]) => row)), this.#file, places);
        copies.forEach((copy, i) => {
          const place = places[i];
          if (place !== undefined) moved.set(place, copy);
        });
      }
    };
    for (const run of this.#state.runs) {
      for (const [first, chunk] of this.#state.chunksOf(run)) {
        copy(chunk, (rows) => ({ do: 'keep', run, first, rows }));
      }
      const interim = this.#state.interimOf(run);
      const asks = (rows: readonly number[]): number[] => rows.map((row) => interim.get(row)?.asks ?? 0);
      copy(new Map([...interim].map(([row, { place }]) => [row, place])), (rows) => ({
        ...{ do: 'keep interim', run, rows, asks: asks(rows) },
      }));
      next.append({ do: 'restore', run, facts: this.#state.factsOf(run) });
    }
  }
}

/** Another process took over what was recorded, while this one was frozen; or the directory was moved. */
export function lockLost(directory: string): StopError {
  return existsSync(directory)
    ? new StopError(
        'lock_lost',
        `another process uses the queue in ${directory} now, because this one gave no sign of life, or its lock was removed.`,
        'Run the same command when that one has ended: it goes on where it stopped.',
      )
    : new StopError(
        'lock_lost',
        `${directory}, which has the queue, was moved or removed.`,
        'Put it back if you can, and run the same command: it goes on where it stopped.',
      );
}

const AS_WRITTEN_ANEW: ReadonlySet<Change['do']> = new Set(['keep', 'keep interim', 'restore']);

const NO_CHANGE: Change = {
  ...{ do: 'write', at: 0, settled: [], counts: [], reservations: [], atLeast: [] },
};

const REMEDY = 'Free some space and run the same command: it goes on where it stopped.';

const NO_PLACES: ReadonlyMap<number, OutcomeLocation> = new Map();

/** Parts that fit into memory. */
function partsOf(kept: ReadonlyMap<number, OutcomeLocation>): (readonly [row: number, OutcomeLocation])[][] {
  const parts: (readonly [row: number, OutcomeLocation])[][] = [];
  let bytes = COPIED;
  for (const each of kept) {
    if (bytes >= COPIED) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)?.push(each);
    bytes += each[1].bytes;
  }
  return parts;
}

const MIB = 2 ** 20;
/** Kept free for the outcomes of calls in flight: with less, a run stops. */
const RESERVE = 16 * MIB;

/** @throws UsageError when there is less space than a run needs */
export async function assertSpace(directory: string): Promise<void> {
  const free = await freeBytes(directory);
  if (free >= RESERVE) return;
  throw new UsageError(
    'state_dir_full',
    `cannot keep the queue in ${directory}: ${mib(free)} MiB are free there, and ${mib(RESERVE)} MiB are needed`,
    'Free some space, or name another directory with PROMPTMILL_STATE_DIR.',
  );
}

/** Why there is too little space to go on; null while there is enough. */
async function shortageOf(directory: string): Promise<string | null> {
  const free = await freeBytes(directory);
  if (free >= RESERVE) return null;
  return `only ${mib(free)} MiB are free for the queue in ${directory}; what is paid for needs ${mib(RESERVE)}.`;
}

/** Infinity where the file system does not tell. */
async function freeBytes(directory: string): Promise<number> {
  try {
    const { bavail, bsize, blocks } = await statfs(directory);
    return blocks === 0 ? Number.POSITIVE_INFINITY : bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

const mib = (bytes: number): number => Math.floor(bytes / MIB);
