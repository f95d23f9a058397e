import type { Counters } from '../core/counters.js';
import { UsageError } from '../core/errors.js';
import type { Halt } from '../core/halt.js';
import type { ChunkQueue } from '../queue/chunk-queue.js';
import { LEASE_MS, type Ledger } from '../store/ledger.js';
import type { Store } from '../store/store.js';
import type { Committer } from './committer.js';

/** Most rows that may be known and not written. Enough that a row in its longest pause blocks nothing. */
export const WINDOW_ROWS = 10_000;

const windowBehind = (row: number): number[] => Array.from({ length: WINDOW_ROWS }, (_, i) => row + 1 + i);

/** Answers in the ledger for the rows after one. A row that was asked again and has ended counts once. */
export async function unwrittenIn(ledger: Ledger, run: string, row: number): Promise<number> {
  const interim = await ledger.interim(run, windowBehind(row));
  const asked = [...interim.values()].reduce((sum, outcome) => sum + (outcome.asked ?? 1), 0);
  return (await ledger.waiting(run)) + asked;
}

export class RunLease {
  #renewAt = 0;

  /**
   * @param hold `limits.unknown_outcome: hold`: no row may be called twice
   * @param halt ends the wait for an unreachable store; requested when the ledger has forgotten the run, as rows
   * might then be called twice
   */
  constructor(
    private readonly store: Store,
    private readonly committer: Committer,
    private readonly hold: boolean,
    private readonly halt: Halt,
  ) {}

  /**
   * Opens the run for this execution. Old queue entries are withdrawn; their outcomes are in the ledger. A
   * halt ends the wait for the store, never a write to disk.
   * @param total rows of the run
   * @returns the counters of earlier executions, outcomes waiting to be written, unwritten answers lost with
   * the store, and the rows that may have crashed processes of the run
   * @throws UsageError `ledger_lost`, `limit_too_small`
   */
  async take(
    queue: ChunkQueue,
    total: number,
  ): Promise<{ before: Counters; waiting: number; lost: number; deaths: ReadonlyMap<number, number> }> {
    const { ledger } = this.store;
    const { run, execution, opened, calls, rows, reach = total, unwritten } = this.committer.manifest;
    if (execution > 1) await this.halt.orHalted(queue.withdraw(run));
    // When every row that may have been called is written, none can be called twice: the run had ended, and closed its
    // ledger, when it was killed.
    const seed = this.hold && opened && rows < reach ? null : withLost(calls);
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
   * A run that ends with its first rows forgets the answers of later rows, which would be called again.
   * @param waiting outcomes in the ledger
   * @param inFlight rows called without an outcome that may not be called again
   * @throws UsageError when an execution with a larger limit has called rows beyond `total`
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

  async keep(): Promise<void> {
    if (performance.now() >= this.#renewAt) await this.renew();
  }

  /** The run begins again in a store that came back empty. */
  async renew(): Promise<void> {
    const { calls } = this.committer.manifest;
    const isOpen = await this.#open(this.hold ? null : { ...calls, in_flight: 0 });
    if (isOpen || !this.hold) return;
    const { code, message, hint } = this.#forgotten();
    this.halt.request({ kind: 'stop', problem: { code, message: `${message}. ${hint}` } });
  }

  /** @param seed initial counters in a store that does not know the run; null does not open the run there */
  async #open(seed: Counters | null): Promise<boolean> {
    const { run, execution, rows } = this.committer.manifest;
    // Does not ask an unreachable store a second time meanwhile.
    this.#renewAt = Number.POSITIVE_INFINITY;
    try {
      return await this.store.ledger.open(run, execution, rows, seed, !this.hold);
    } finally {
      this.#renewAt = performance.now() + LEASE_MS / 4;
    }
  }

  /** An emptied store does not know which rows were called. */
  #forgotten(): UsageError {
    return new UsageError(
      'ledger_lost',
      `${this.store.describe()} has forgotten the run, so it is unknown which rows after row ${this.committer.manifest.rows} were called, ` +
        'and limits.unknown_outcome is hold',
      'To go on, and call some rows again, set limits.unknown_outcome: retry; --restart starts over.',
    );
  }
}

/** In a store that no longer knows the run, calls in flight never get an outcome. */
const withLost = ({ in_flight, ...calls }: Counters): Counters => ({
  ...calls,
  repeated: calls.repeated + Math.max(0, in_flight),
  in_flight: 0,
});
