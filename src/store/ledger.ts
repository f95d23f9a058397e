import type { CalledOutcome, Counters } from '../model.js';

/** A chunk is known by its run and the number of its first row. */
export interface ChunkKey {
  readonly run: string;
  readonly first: number;
}

/** An outcome on its way into the ledger. */
export interface Entry extends ChunkKey {
  readonly row: number;
  readonly outcome: CalledOutcome;
  /** The call that it came of, where that one is in flight until this is recorded. */
  readonly call?: string;
}

/** A row that is about to be called. */
export interface Announced extends ChunkKey {
  readonly row: number;
  readonly execution: number;
  /** Name of the call: that of the visit to the chunk, which calls a row once at a time. */
  readonly call: string;
  /** The row must not be called while another call for it is in flight (`limits.unknown_outcome: hold`). */
  readonly hold: boolean;
}

/** A call that has ended, for one of its rows, or was not made after all. */
export interface Settled {
  readonly run: string;
  readonly row: number;
  readonly call: string;
}

/** What is to become of the rows in flight. */
export interface Flights {
  readonly announced: readonly Announced[];
  readonly settled: readonly Settled[];
}

export const NO_FLIGHTS: Flights = { announced: [], settled: [] };

/** How the names of calls begin that the process makes which works on the run; there is one at a time. */
export const OWN = 'own:';

/** A row whose call was announced, and of which nobody has told the end. */
export interface InFlight {
  readonly call: string;
  /** Since it was announced, in milliseconds of the store's clock. */
  readonly ageMs: number;
}

/** The code of a row of which nobody can tell whether it was answered and billed, and which is not called again. */
export const OUTCOME_UNKNOWN = 'outcome_unknown';

/**
 * Found in the JSON of such outcomes and of no other: inside a text the quotes would be escaped. A real outcome takes
 * the place of one until it is written.
 */
export const UNKNOWN_TEXT = `"code":"${OUTCOME_UNKNOWN}"`;

/** What a worker must know before it calls the service for a chunk. */
export interface Standing {
  /**
   * False when nobody collects this run at present (it finished, or its collector is gone), when the chunk
   * belongs to an earlier execution of it, or when the chunk is already written: the worker drops the chunk.
   */
  readonly wanted: boolean;
  /** Rows of the chunk whose outcome is already known: never called again. */
  readonly known: ReadonlySet<number>;
  /** Of the rows asked for those in flight, by row number; of several calls for one row, the first. */
  readonly inFlight: ReadonlyMap<number, InFlight>;
}

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
 * Implementations: Redis and PostgreSQL. One conformance suite proves both.
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
    calls: Counters | null,
    isLostRepeated?: boolean,
  ): Promise<boolean>;

  /**
   * Asked when a chunk is taken, and again when the answer is older than a few seconds.
   * @param rows rows of which to tell whether they are in flight. @default none
   */
  standing(chunk: ChunkKey, execution: number, rows?: readonly number[]): Promise<Standing>;

  /**
   * Records outcomes, and which rows are in flight, in this order: calls that ended, outcomes, calls that are about to
   * be made.
   *
   * The first outcome recorded for a row wins; a later one, or one for a committed row, is dropped and counted in
   * `repeated`. Other calls for a row that are in flight when its outcome is recorded count there at once, and not again
   * when they are heard of. An outcome that is unknown counts nothing, and a real one takes its place.
   *
   * A row may be called when its run is wanted by this execution, it has no outcome, and, with `hold`, no other call
   * for it is in flight. Only then it is in flight from now on. Asking again for the same call answers the same.
   *
   * Outcomes of a run that nobody collects at present are kept: they are paid for. A write that the driver sends
   * again after a lost reply counts once; a second call of this method does not know of the first.
   * @param calls what to add to the run's counters, by run
   * @returns for each announced row whether it may be called
   */
  record(
    entries: readonly Entry[],
    calls: ReadonlyMap<string, Partial<Counters>>,
    flights?: Flights,
  ): Promise<readonly boolean[]>;

  /** Tells the collector of a run to stop it. The first reason wins; one of an earlier execution means nothing. */
  stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void>;

  /** What the collector polls: how full the given chunks are, the counters, a reason to stop. Renews nothing. */
  progress(run: string, firsts: readonly number[]): Promise<Progress>;

  /** How many outcomes of a run are not on disk. */
  waiting(run: string): Promise<number>;

  /** The outcomes of a chunk, by row number. */
  outcomes(chunk: ChunkKey): Promise<ReadonlyMap<number, CalledOutcome>>;

  /**
   * After the manifest is on disk: moves the committed mark, renews the lease, and drops the given chunks. In a
   * store that came back empty there is no run to renew; that takes `open`.
   */
  forget(run: string, committed: number, firsts: readonly number[]): Promise<void>;

  /** Ends a run: its lease, counters and outcomes go. */
  close(run: string): Promise<void>;
}

/** A collector that does not renew its lease for this long is taken for gone, and its chunks are not called. */
export const LEASE_MS = 60_000;

/** Outcomes of a run that nobody continues are dropped after this time: 14 days. */
export const OUTCOME_TTL_MS = 14 * 24 * 3_600_000;
