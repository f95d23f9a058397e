import { type Counters, type Counts, NO_COUNTS } from '../core/counters.js';
import type { CalledOutcome, Tokens } from '../core/model.js';

/** `first` is the number of the chunk's first row. */
export interface ChunkKey {
  readonly run: string;
  readonly first: number;
}

/** Result of one row. `Kept` is the outcome, or where a ledger keeps it. */
export interface Settlement<Kept = CalledOutcome> extends ChunkKey {
  readonly row: number;
  /** The row's call that has ended; null when the outcome comes from no call in flight. */
  readonly call: string | null;
  /** Null: the row has to be called again, or was not called after all. */
  readonly outcome: Kept | null;
  /** Set for an interim outcome: how often the row was asked so far. */
  readonly interim?: number;
}

/** A row and the most it can be billed; zero where its run has no budget. */
export interface RowMost {
  readonly row: number;
  readonly most: Tokens;
}

/** Budget of a run. Cost is the sum of both kinds of tokens, each times its price. */
export interface Bounds {
  readonly tokens: number;
  readonly cost: number;
  readonly promptPrice: number;
  readonly completionPrice: number;
}

export interface Reservation extends ChunkKey {
  readonly execution: number;
  /** Name of the call: that of the chunk's lease, under which each row is called once at a time. */
  readonly call: string;
  /** Forbids calling a row while another call for it is in flight (`limits.unknown_outcome: hold`). */
  readonly hold: boolean;
  readonly rows: readonly RowMost[];
  /** Null without a budget. */
  readonly bounds: Bounds | null;
  /** True to only look: nothing is reserved. */
  readonly looks: boolean;
}

export interface Batch<Kept = CalledOutcome> {
  readonly settled: readonly Settlement<Kept>[];
  /** Added to the counters, by run. */
  readonly counts: ReadonlyMap<string, Partial<Counts>>;
  readonly reservations: readonly Reservation[];
  /** Tokens this process knows to be spent, by run: a store that came back empty may have forgotten them. */
  readonly atLeast: ReadonlyMap<string, Tokens>;
}

export const NO_DEATHS: ReadonlyMap<number, number> = new Map();

export const NOTHING: Batch = { settled: [], counts: new Map(), reservations: [], atLeast: new Map() };

/**
 * Whether a row may be called.
 * - `granted`: it is in flight from now on; when looking: it could be called.
 * - `known`: it has an outcome.
 * - `unwanted`: nobody collects this run now (it finished, or its collector is gone), the chunk is of an
 *   earlier execution, or it is already written.
 * - `no_room`: not now; the budget has no room for the rows of this request.
 * - otherwise the call in flight that blocks it.
 */
export type RowState = 'granted' | 'known' | 'unwanted' | 'no_room' | InFlight;

export interface Answer {
  /** In the order of the reservation's rows. */
  readonly rows: readonly RowState[];
  /** Billed and reserved tokens after the whole batch; valid only when there was no room. */
  readonly spent: Tokens;
  /** Rows of the run in flight then, across all workers; valid only when there was no room. */
  readonly inFlight: number;
  /** When looking: interim outcomes of the rows that could be called, by row number. */
  readonly interim: ReadonlyMap<number, CalledOutcome>;
}

/** Prefix of the names of calls made by the run's own process; there is one such process at a time. */
export const OWN_CALL = 'own:';

/** A reserved call whose end has not been reported; the first one when there are several. */
export interface InFlight {
  readonly call: string;
  /** Time since the reservation, by the store's clock. */
  readonly ageMs: number;
}

/** Code of a row that may or may not have been answered and billed, and is not called again. */
export const OUTCOME_UNKNOWN = 'outcome_unknown';

/** Occurs in the JSON of such outcomes only: inside a text the quotes would be escaped. */
export const UNKNOWN_TEXT = `"code":"${OUTCOME_UNKNOWN}"`;

export interface Progress {
  /** Outcomes in the ledger for each chunk, in the order asked. */
  readonly counts: readonly number[];
  readonly calls: Counters;
  /** False when the store came back empty: the run was not opened there, and earlier counts are missing. */
  readonly opened: boolean;
  readonly stop: { readonly code: string; readonly message: string } | null;
}

/**
 * Outcomes that are known but not yet on disk, in the store of the queue: Redis or a file, with one
 * conformance suite for both. A run is *open* while its collector renews its lease. Outcomes outlive the
 * lease, so a killed run finds them again; they expire after {@link OUTCOME_TTL_MS}.
 */
export interface Ledger {
  /** Workers of other processes may settle rows too, and only a look at the ledger shows theirs. */
  readonly isShared: boolean;

  /** Rows that this process has settled, told as soon as the ledger has them. */
  readonly settled: SettledRows;

  /**
   * Opens a run for an execution, or renews its lease. A later execution clears an earlier reason to stop.
   * One before the last changes nothing, and the committed mark never moves back, even after the lease
   * expired.
   * @param execution number of the process that runs the run, from 1; chunks of an earlier one are unwanted
   * @param committed rows up to this number are on disk: their outcomes are refused and dropped
   * @param calls seeds the counters of a new run or an emptied store; with null such a run is not opened
   * @param isLostRepeated calls in flight when a later execution opens count as repeated, because their rows
   *   are called again. @default true
   * @returns whether the run is open for this execution
   */
  open(
    run: string,
    execution: number,
    committed: number,
    calls: Counts | null,
    isLostRepeated?: boolean,
  ): Promise<boolean>;

  /**
   * Records what came of calls, then reserves rows: in this order, and in one step per run. Idempotent per
   * driver retry, which is answered by what is in flight already; not per call.
   *
   * The first outcome of a row wins; a later one, or one for a committed row, is dropped and counted in
   * `repeated`. Other calls for the row still in flight count there at once, and not again when they end. An
   * unknown outcome counts nothing, and a real one replaces it. Outcomes of a run that nobody collects now
   * are kept: they are paid for.
   *
   * An interim outcome is kept apart until its row gets an outcome, even an unknown one, or is committed. It
   * never counts as an outcome: other calls for its row stay in flight. One with more asks replaces it. One
   * with as many or fewer, or for a row that has ended, is dropped and counts like a dropped outcome. But it
   * replaces an unknown outcome, whose row is not asked again.
   *
   * A row is granted when this execution wants its run, it has no outcome, with `hold` no other call for it
   * is in flight, and all such rows of the request fit the budget beside what is spent and reserved. Requests
   * are checked in order, and a small one may take room that was too small for an earlier one. A grant counts
   * at once: the request in `sent`, its rows in `in_flight`, and their maximum in the tokens.
   */
  write(batch: Batch): Promise<readonly Answer[]>;

  /** The first reason wins; one of an earlier execution is ignored. */
  stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void>;

  /** Polled by the collector. Renews nothing. */
  progress(run: string, firsts: readonly number[]): Promise<Progress>;

  /** Outcomes of a run that are not on disk. */
  waiting(run: string): Promise<number>;

  /** Row in flight when processes of the run died → deaths. Empty on Redis: BullMQ counts lost workers. */
  deaths(run: string): Promise<ReadonlyMap<number, number>>;

  /** @param count as `progress` has it: if this process wrote as many, none is fetched. @default not known */
  outcomes(chunk: ChunkKey, count?: number): Promise<ReadonlyMap<number, CalledOutcome>>;

  /** From any execution. */
  interim(run: string, rows: readonly number[]): Promise<ReadonlyMap<number, CalledOutcome>>;

  /** Called once the manifest is on disk. An emptied store has no lease to renew: that takes `open`. */
  forget(run: string, committed: number, firsts: readonly number[]): Promise<void>;

  /** Ends a run: drops everything kept of it. */
  close(run: string): Promise<void>;
}

/** Wakes the collector of a run in the process that settles its rows. */
export class SettledRows {
  readonly #listeners = new Map<string, () => void>();

  /** @param listener called once for each row; one a run */
  listen(run: string, listener: () => void): void {
    this.#listeners.set(run, listener);
  }

  tell(settled: readonly Settlement<unknown>[]): void {
    for (const { run, outcome, interim } of settled)
      if (outcome !== null && !interim) this.#listeners.get(run)?.();
  }
}

/** A collector that does not renew its lease for this long counts as gone, and its chunks are not called. */
export const LEASE_MS = 60_000;

/** Outcomes of a run that nobody continues expire after this time: 14 days. */
export const OUTCOME_TTL_MS = 14 * 24 * 3_600_000;

export interface LedgerTimes {
  /** A lease that is not renewed expires after this time. @default LEASE_MS */
  readonly leaseMs: number;
  /** Outcomes of a run that nobody continues expire after this time. @default OUTCOME_TTL_MS */
  readonly outcomeTtlMs: number;
}

export const LEDGER_TIMES: LedgerTimes = { leaseMs: LEASE_MS, outcomeTtlMs: OUTCOME_TTL_MS };

export interface RunBatch<Kept = CalledOutcome> {
  readonly run: string;
  readonly settled: readonly Settlement<Kept>[];
  readonly counts: Counts;
  readonly reservations: readonly Reservation[];
  readonly atLeast: Tokens;
  /** False when it only looks. */
  readonly changes: boolean;
}

const NO_TOKENS: Tokens = { prompt_tokens: 0, completion_tokens: 0 };

export function byRun<Kept>({
  settled,
  counts,
  reservations,
  atLeast,
}: Batch<Kept>): readonly RunBatch<Kept>[] {
  const named = [...settled, ...reservations].map(({ run }) => run);
  return [...new Set([...counts.keys(), ...named])].map((run) => {
    const ofRun = settled.filter((each) => each.run === run);
    const asked = reservations.filter((each) => each.run === run);
    return {
      run,
      settled: ofRun,
      counts: { ...NO_COUNTS, ...counts.get(run) },
      reservations: asked,
      atLeast: atLeast.get(run) ?? NO_TOKENS,
      changes: ofRun.length > 0 || counts.has(run) || asked.some(({ looks }) => !looks),
    };
  });
}

export const NO_ANSWER: Answer = { rows: [], spent: NO_TOKENS, inFlight: 0, interim: new Map() };
