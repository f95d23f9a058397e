import type { CalledOutcome, Tokens } from '../model.js';
import type { Counters, Counts } from './counters.js';

/** A chunk is known by its run and the number of its first row. */
export interface ChunkKey {
  readonly run: string;
  readonly first: number;
}

/** What came of one row. `Kept` is the outcome, or where a ledger has put it. */
export interface Settlement<Kept = CalledOutcome> extends ChunkKey {
  readonly row: number;
  /** The call that has ended for the row, and is in flight no longer; null where the outcome comes of no call in flight. */
  readonly call: string | null;
  /** Null when there is none: the row is to be called again, or was not called after all. */
  readonly outcome: Kept | null;
  /** Set where `outcome` is an interim one: how often the row was asked so far. */
  readonly interim?: number;
}

/** A row, and the most that it can be billed; nothing where its run has no budget. */
export interface RowMost {
  readonly row: number;
  readonly most: Tokens;
}

/** What a run may be billed in all. Its cost is the sum of both kinds of tokens, each by its price. */
export interface Bounds {
  readonly tokens: number;
  readonly cost: number;
  readonly promptPrice: number;
  readonly completionPrice: number;
}

/** One request that is about to be made, for rows of one chunk. */
export interface Reservation extends ChunkKey {
  readonly execution: number;
  /** Name of the call: that of the chunk's lease, under which each row is called once at a time. */
  readonly call: string;
  /** A row must not be called while another call for it is in flight (`limits.unknown_outcome: hold`). */
  readonly hold: boolean;
  readonly rows: readonly RowMost[];
  /** Null where the run has no budget. */
  readonly bounds: Bounds | null;
  /** True to learn what is known of the rows; then none is reserved. */
  readonly looks: boolean;
}

/** What a process tells the ledger in one step, and asks of it. */
export interface Batch<Kept = CalledOutcome> {
  readonly settled: readonly Settlement<Kept>[];
  /** What to add to the counters, by run. */
  readonly counts: ReadonlyMap<string, Partial<Counts>>;
  readonly reservations: readonly Reservation[];
  /** What this process knows to be spent, by run: a store that came back empty may have forgotten it. */
  readonly atLeast: ReadonlyMap<string, Tokens>;
}

/** What {@link Ledger.deaths} says where nobody counts them. */
export const NO_DEATHS: ReadonlyMap<number, number> = new Map();

export const NOTHING: Batch = { settled: [], counts: new Map(), reservations: [], atLeast: new Map() };

/**
 * Whether a row may be called.
 * - `granted`: it is in flight from now on; to one who only looks: it could be called.
 * - `known`: it has an outcome.
 * - `unwanted`: nobody collects this run at present (it finished, or its collector is gone), the chunk is of an earlier
 *   execution, or it is already written.
 * - `no_room`: not now. The budget has no room for the rows of this request.
 * - otherwise the call in flight that keeps it from being called.
 */
export type RowState = 'granted' | 'known' | 'unwanted' | 'no_room' | InFlight;

/** What the ledger says to a reservation. */
export interface Answer {
  /** By the rows of the reservation, in their order. */
  readonly rows: readonly RowState[];
  /** Billed and reserved, once the whole batch was answered; only where there was no room. */
  readonly spent: Tokens;
  /** Rows of the run in flight then, of all workers; only where there was no room. */
  readonly inFlight: number;
  /** To one who looks: the interim outcomes of the rows that could be called, by row number. */
  readonly interim: ReadonlyMap<number, CalledOutcome>;
}

/** How the names of calls begin that the process makes which works on the run; there is one at a time. */
export const OWN = 'own:';

/** A call for a row that was reserved, and of which nobody has told the end; of several the first. */
export interface InFlight {
  readonly call: string;
  /** Since it was reserved, in milliseconds of the store's clock. */
  readonly ageMs: number;
}

/** The code of a row of which nobody can tell whether it was answered and billed, and which is not called again. */
export const OUTCOME_UNKNOWN = 'outcome_unknown';

/**
 * Found in the JSON of such outcomes and of no other: inside a text the quotes would be escaped. A real outcome takes
 * the place of one until it is written.
 */
export const UNKNOWN_TEXT = `"code":"${OUTCOME_UNKNOWN}"`;

/** What the collector sees of a run's chunks. */
export interface Progress {
  /** For each chunk asked for, in the order asked, the number of outcomes in the ledger. */
  readonly counts: readonly number[];
  readonly calls: Counters;
  /** False when the run was never opened here: the store came back empty, and the counters lack what was before. */
  readonly opened: boolean;
  /** Set by a worker when the run must stop: the reason's code and message. */
  readonly stop: { readonly code: string; readonly message: string } | null;
}

/**
 * The shared store of outcomes that are known but not yet on disk. It lives in the same store as the queue.
 *
 * A run is *open* while its collector renews its lease. Outcomes outlive the lease, so that a run that was
 * killed finds them again; they expire after {@link OUTCOME_TTL_MS}.
 *
 * Implementations: Redis, PostgreSQL and a file. One conformance suite proves all three.
 */
export interface Ledger {
  /**
   * Opens a run for an execution, or renews its lease. A later execution ends what a reason to stop meant for
   * the earlier one. Opening for an earlier execution than the last changes nothing, and the committed mark never
   * moves back; both hold also when the lease has run out.
   * @param execution number of the process that runs the run, from 1; a chunk of an earlier one is not wanted
   * @param committed rows up to this number are on disk: outcomes for them are refused and forgotten
   * @param calls seeds the counters where the store has none (a new run, or a store that came back empty); null opens
   *   nothing there
   * @param isLostRepeated calls of the process before that are in flight when a later execution opens will not be heard
   *   of: they count as repeated from then on, because their rows are called again. @default true
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
   * Writes down what came of calls, and which rows are about to be called: in this order, and in one step for each run.
   *
   * The first outcome recorded for a row wins; a later one, or one for a committed row, is dropped and counted in
   * `repeated`. Other calls for a row that are in flight when its outcome is recorded count there at once, and not again
   * when they are heard of. An outcome that is unknown counts nothing, and a real one takes its place. Outcomes of a run
   * that nobody collects at present are kept: they are paid for.
   *
   * An interim outcome is kept besides them until its row has an outcome, also an unknown one, or is committed, and counts as
   * an outcome nowhere: other calls for its row stay in flight. One of more asks takes its place. One of as many or fewer, or
   * of a row that has ended, is dropped, and counts as a dropped outcome does. Where the row has ended with an unknown
   * outcome, and so is not asked again, it takes the place of that.
   *
   * A row is granted when its run is wanted by this execution, it has no outcome, with `hold` no other call for it is in
   * flight, and all such rows of the request fit the budget beside what is spent and reserved. Requests are looked at in
   * their order, and a small one may take the room that is too small for one before it. What is granted counts at once:
   * the request in `sent`, its rows in `in_flight`, and the most that they can be billed in the tokens.
   *
   * A write that the driver sends again after a lost reply counts once, and is answered by what is in flight already; a
   * second call of this method does not know of the first.
   * @returns what became of each reservation
   */
  write(batch: Batch): Promise<readonly Answer[]>;

  /** Tells the collector of a run to stop it. The first reason wins; one of an earlier execution means nothing. */
  stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void>;

  /** What the collector polls: how full the given chunks are, the counters, a reason to stop. Renews nothing. */
  progress(run: string, firsts: readonly number[]): Promise<Progress>;

  /** How many outcomes of a run are not on disk. */
  waiting(run: string): Promise<number>;

  /**
   * Rows without an outcome that were in flight when processes of the run died, and how many did. On a server nobody knows: there
   * BullMQ counts the workers that an entry has lost.
   */
  deaths(run: string): Promise<ReadonlyMap<number, number>>;

  /**
   * The outcomes of a chunk, by row number.
   * @param count as `progress` says it: where this process has written as many itself, they need not be fetched.
   *   @default not known
   */
  outcomes(chunk: ChunkKey, count?: number): Promise<ReadonlyMap<number, CalledOutcome>>;

  /** The interim outcomes of rows, by row number; of any execution. */
  interim(run: string, rows: readonly number[]): Promise<ReadonlyMap<number, CalledOutcome>>;

  /**
   * After the manifest is on disk: moves the committed mark, renews the lease, and drops the given chunks. In a
   * store that came back empty there is no run to renew; that takes `open`.
   */
  forget(run: string, committed: number, firsts: readonly number[]): Promise<void>;

  /** Ends a run: its lease, counters and outcomes go, interim ones too. */
  close(run: string): Promise<void>;
}

/** A collector that does not renew its lease for this long is taken for gone, and its chunks are not called. */
export const LEASE_MS = 60_000;

/** Outcomes of a run that nobody continues are dropped after this time: 14 days. */
export const OUTCOME_TTL_MS = 14 * 24 * 3_600_000;
