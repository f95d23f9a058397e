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
}

/** What a worker must know before it calls the service for a chunk. */
export interface Standing {
  /**
   * False when nobody collects this run at present (it finished, or its collector is gone), when the chunk
   * belongs to an earlier execution of it, or when the chunk is already written: the worker drops the chunk.
   */
  readonly wanted: boolean;
  /** Rows of the chunk whose outcome is already known: never called again. */
  readonly known: ReadonlySet<number>;
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
   * @param calls seeds the counters where the store has none (a new run, or a store that came back empty)
   */
  open(run: string, execution: number, committed: number, calls: Counters): Promise<void>;

  /** Asked before every call, and again when the answer is older than a few seconds. */
  standing(chunk: ChunkKey, execution: number): Promise<Standing>;

  /**
   * Records outcomes. The first outcome recorded for a row wins; a later one, or one for a committed row, is
   * dropped and counted in `repeated`.
   *
   * Outcomes of a run that nobody collects at present are kept: they are paid for. A write that the driver sends
   * again after a lost reply counts once; a second call of this method does not know of the first.
   * @param calls what to add to the run's counters, by run
   */
  record(entries: readonly Entry[], calls: ReadonlyMap<string, Partial<Counters>>): Promise<void>;

  /** Tells the collector of a run to stop it. The first reason wins; one of an earlier execution means nothing. */
  stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void>;

  /** What the collector polls: how full the given chunks are, the counters, a reason to stop. Renews nothing. */
  progress(run: string, firsts: readonly number[]): Promise<Progress>;

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
