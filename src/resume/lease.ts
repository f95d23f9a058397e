import { UsageError } from '../errors.js';
import type { Halt } from '../halt.js';
import type { ChunkQueue } from '../queue/chunk-queue.js';
import type { Counters } from '../store/counters.js';
import { LEASE_MS, type Ledger } from '../store/ledger.js';
import type { Store } from '../store/store.js';
import type { Committer } from './committer.js';

/**
 * Most rows between the queue and the output, and so the most that may be known and not on disk: enough that a row in its
 * longest pause holds nothing back.
 */
export const WINDOW_ROWS = 10_000;

/** The rows behind one of which the ledger may know something. */
const windowBehind = (row: number): number[] => Array.from({ length: WINDOW_ROWS }, (_, i) => row + 1 + i);

/**
 * Answers that the ledger keeps for rows behind one. Of a row that was asked again and has ended it counts one.
 */
export async function unwrittenIn(ledger: Ledger, run: string, row: number): Promise<number> {
  const interim = await ledger.interim(run, windowBehind(row));
  const asked = [...interim.values()].reduce((sum, outcome) => sum + (outcome.asked ?? 1), 0);
  return (await ledger.waiting(run)) + asked;
}

/** The run as the ledger has it: open for this execution, as long as the lease is renewed. */
export class RunLease {
  #renewAt = 0;

  /**
   * @param hold `limits.unknown_outcome: hold`: no row may be called twice
   * @param halt ends the wait for a store that is away; pulled when the ledger has forgotten the run, and rows might be
   *   called twice
   */
  constructor(
    private readonly store: Store,
    private readonly committer: Committer,
    private readonly hold: boolean,
    private readonly halt: Halt,
  ) {}

  /**
   * Opens the run for this execution. What an earlier one left in the queue is not wanted any more; its outcomes are in
   * the ledger. A halt ends the wait for the store, and never a write to the disk.
   * @param total rows that the run is to have
   * @returns the counters of the executions before, how many outcomes wait to be written, how many answers were not written and
   *   are lost because the store has none at all, and the rows of which processes of the run may have died
   * @throws UsageError `ledger_lost`, `limit_too_small`
   */
  async take(
    queue: ChunkQueue,
    total: number,
  ): Promise<{ before: Counters; waiting: number; lost: number; deaths: ReadonlyMap<number, number> }> {
    const { ledger } = this.store;
    const { run, execution, opened, calls, rows, unwritten } = this.committer.manifest;
    if (execution > 1) await this.halt.orHalted(queue.withdraw(run));
    const seed = this.hold && opened ? null : withLost(calls);
    if (!(await this.halt.orHalted(this.#open(seed)))) throw this.#forgotten();
    await this.committer.opened();
    const { calls: before } = await this.halt.orHalted(ledger.progress(run, []));
    this.committer.count(before);
    const waiting = await this.halt.orHalted(ledger.waiting(run));
    const found = execution === 1 ? 0 : await this.halt.orHalted(unwrittenIn(ledger, run, rows));
    this.committer.owes(found);
    const lost = found === 0 ? unwritten : 0;
    const inFlight = this.hold ? Math.max(0, before.in_flight) : 0;
    await this.halt.orHalted(this.#assertNoneBehind(total, waiting, inFlight));
    return { before, waiting, lost, deaths: await this.halt.orHalted(ledger.deaths(run)) };
  }

  /**
   * A run that finishes with its first rows forgets what is known of those behind them, and they would be called again.
   * @param waiting outcomes in the ledger
   * @param inFlight rows that were called, and are not to be called again though nothing came of it
   * @throws UsageError when an execution with a larger limit has called rows that this one leaves out
   */
  async #assertNoneBehind(total: number, waiting: number, inFlight: number): Promise<void> {
    const { ledger } = this.store;
    const { run, rows, reach, chunk_size } = this.committer.manifest;
    if (reach === undefined || reach <= total) return;
    const behind = windowBehind(rows).filter((row) => row > total);
    const asked = (await ledger.interim(run, behind)).size;
    if (waiting + inFlight + asked === 0) return;
    const length = Math.min(WINDOW_ROWS, total - rows) / chunk_size;
    const firsts = Array.from({ length: Math.ceil(length) }, (_, i) => rows + 1 + i * chunk_size);
    const { counts } = await ledger.progress(run, firsts.slice(0, -1));
    const last = firsts.at(-1);
    const atEnd = last === undefined ? [] : [...(await ledger.outcomes({ run, first: last })).keys()];
    const within = counts.reduce((sum, known) => sum + known, 0) + atEnd.filter((row) => row <= total).length;
    if (waiting <= within && inFlight + asked === 0) return;
    throw new UsageError(
      'limit_too_small',
      `the unfinished run has called rows behind row ${total}, and a run that ends there would forget their answers`,
      'Go on with a larger --limit, or without one; --restart discards what is there.',
    );
  }

  /** Renews the lease when it is time to. */
  async keep(): Promise<void> {
    if (performance.now() >= this.#renewAt) await this.renew();
  }

  /** Renews the lease; in a store that came back empty the run begins anew. */
  async renew(): Promise<void> {
    const { calls } = this.committer.manifest;
    const isOpen = await this.#open(this.hold ? null : { ...calls, in_flight: 0 });
    if (isOpen || !this.hold) return;
    const { code, message, hint } = this.#forgotten();
    this.halt.pull({ kind: 'stop', fault: { code, message: `${message}. ${hint}` } });
  }

  /** @param seed what the counters begin with in a store that does not know the run; null opens nothing there */
  async #open(seed: Counters | null): Promise<boolean> {
    const { run, execution, rows } = this.committer.manifest;
    // A store that is away is not asked a second time meanwhile.
    this.#renewAt = Number.POSITIVE_INFINITY;
    try {
      return await this.store.ledger.open(run, execution, rows, seed, !this.hold);
    } finally {
      this.#renewAt = performance.now() + LEASE_MS / 4;
    }
  }

  /** A store that came back empty does not know which rows were called. */
  #forgotten(): UsageError {
    return new UsageError(
      'ledger_lost',
      `${this.store.describe()} has forgotten the run, so it is unknown which rows after row ${this.committer.manifest.rows} were called, ` +
        'and limits.unknown_outcome is hold',
      'To go on, and call some rows again, set limits.unknown_outcome: retry; --restart starts over.',
    );
  }
}

/** In a store that does not know the run any more, calls in flight were never heard of again. */
const withLost = ({ in_flight, ...calls }: Counters): Counters => ({
  ...calls,
  repeated: calls.repeated + Math.max(0, in_flight),
  in_flight: 0,
});
