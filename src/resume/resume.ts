import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { thisProcess } from '../lock.js';
import type { Fault } from '../model.js';
import type { ChunkQueue } from '../queue/chunk-queue.js';
import { emptyTally } from '../report/tally.js';
import { passOnOutcomes } from '../reuse/outcome.js';
import { type Counters, NO_CALLS } from '../store/counters.js';
import { LEASE_MS, type Ledger } from '../store/ledger.js';
import type { Store } from '../store/store.js';
import type { Committer } from './committer.js';
import { assertSame, partValues } from './fingerprint.js';
import type { Manifest } from './manifest.js';
import { newRun } from './output-place.js';
import type { OutputTarget } from './output-target.js';

/** The manifest to work with: the unfinished one, counted up, or a new one. */
export function beginManifest(
  target: OutputTarget | null,
  settings: Settings,
  print: Record<string, string>,
  now: Date,
): Manifest {
  const { unfinished, files } = target ?? {};
  if (unfinished && files) {
    const values = { before: unfinished.values ?? {}, now: partValues(settings) };
    assertSame(unfinished.fingerprint, print, files.manifest, unfinished.finished !== undefined, values);
    const { finished, opened, reach, ...left } = unfinished;
    return {
      ...left,
      execution: unfinished.execution + 1,
      process: thisProcess(),
      overwrite: settings.overwrite || (finished === undefined && (unfinished.overwrite ?? true)),
      // The ledger forgets a run that has finished, and then no call of it is unwritten.
      ...(finished === undefined && opened !== undefined && { opened }),
      ...(finished === undefined && reach !== undefined && { reach }),
    };
  }
  return {
    v: 1,
    run: target?.run ?? newRun(now),
    job: settings.job,
    execution: 1,
    process: thisProcess(),
    started_at: now.toISOString(),
    worked_ms: 0,
    fingerprint: print,
    values: partValues(settings),
    chunk_size: settings.limits.chunkSize,
    store: null,
    rows: 0,
    bytes: 0,
    overwrite: settings.overwrite,
    finishing: false,
    calls: NO_CALLS,
    tally: emptyTally(),
  };
}

/**
 * Most rows between the queue and the output, and so the most that may be known and not on disk: enough that a row in its
 * longest pause holds nothing back.
 */
export const WINDOW_ROWS = 10_000;

/** What a run that is given up is known by elsewhere. */
interface Traces {
  readonly stateDir: string;
  readonly queue: ChunkQueue;
  readonly ledger: Ledger;
  /** Takes down what it said of itself. */
  readonly heartbeat: { replaces(run: string): Promise<void> };
}

/**
 * Gives up the run whose place this one takes: its outcomes for other rows, its heartbeat, its entries in the queue, and what
 * the ledger has of it. One that goes on under another name, after its part file was repaired, passes its outcomes on; its
 * answers that are not on disk will be asked for again, and count as repeated.
 */
export async function giveUp(
  { discarded, unfinished }: OutputTarget,
  committer: Committer,
  { stateDir, queue, ledger, heartbeat }: Traces,
): Promise<void> {
  if (discarded === null) return;
  const { run, execution, rows } = discarded;
  await passOnOutcomes(stateDir, run, unfinished?.run ?? null);
  await heartbeat.replaces(run);
  await queue.withdraw(run);
  if (unfinished !== null) {
    // As its next execution would: rows on disk are forgotten, and calls in flight count as repeated.
    await ledger.open(run, execution + 1, rows, null);
    const { calls } = await ledger.progress(run, []);
    const known = calls.sent > discarded.calls.sent ? calls : discarded.calls;
    const lost = unfinished.calls.repeated - discarded.calls.repeated + (await ledger.waiting(run));
    committer.count({ ...known, repeated: known.repeated + lost });
  }
  await ledger.close(run);
}

/** What is known of a run when an execution of it begins to call. */
interface Begun {
  /** The counters of the executions before. */
  readonly before: Counters;
  /** Outcomes that are not on disk yet. */
  readonly waiting: number;
}

/** The run as the ledger has it: open for this execution, as long as the lease is renewed. */
export class RunLease {
  #renewAt = 0;

  /**
   * @param hold `limits.unknown_outcome: hold`: no row may be called twice
   * @param stop told why the run must stop: the ledger has forgotten it, and rows might be called twice
   */
  constructor(
    private readonly store: Store,
    private readonly committer: Committer,
    private readonly hold: boolean,
    private readonly stop: (fault: Fault) => void,
  ) {}

  /**
   * Opens the run for this execution. What an earlier one left in the queue is not wanted any more; its outcomes are in
   * the ledger.
   * @param total rows that the run is to have
   * @throws UsageError `ledger_lost`, `limit_too_small`
   */
  async take(queue: ChunkQueue, total: number): Promise<Begun> {
    const { ledger } = this.store;
    const { run, execution, opened, calls } = this.committer.manifest;
    if (execution > 1) await queue.withdraw(run);
    if (!(await this.#open(this.hold && opened ? null : withLost(calls)))) throw this.#forgotten();
    await this.committer.opened();
    const { calls: before } = await ledger.progress(run, []);
    this.committer.count(before);
    const waiting = await ledger.waiting(run);
    await this.#assertNoneBehind(total, waiting, this.hold ? Math.max(0, before.in_flight) : 0);
    return { before, waiting };
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
    if (reach === undefined || reach <= total || waiting + inFlight === 0) return;
    const length = Math.min(WINDOW_ROWS, total - rows) / chunk_size;
    const firsts = Array.from({ length: Math.ceil(length) }, (_, i) => rows + 1 + i * chunk_size);
    const { counts } = await ledger.progress(run, firsts.slice(0, -1));
    const last = firsts.at(-1);
    const atEnd = last === undefined ? [] : [...(await ledger.outcomes({ run, first: last })).keys()];
    const within = counts.reduce((sum, known) => sum + known, 0) + atEnd.filter((row) => row <= total).length;
    if (waiting <= within && inFlight === 0) return;
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
    this.stop({ code, message: `${message}. ${hint}` });
  }

  /** @param seed what the counters begin with in a store that does not know the run; null opens nothing there */
  #open(seed: Counters | null): Promise<boolean> {
    const { run, execution, rows } = this.committer.manifest;
    this.#renewAt = performance.now() + LEASE_MS / 4;
    return this.store.ledger.open(run, execution, rows, seed, !this.hold);
  }

  /** A store that came back empty does not know which rows were called. */
  #forgotten(): UsageError {
    return new UsageError(
      'ledger_lost',
      `${this.store.describe()} has forgotten the run: which of the rows after row ${this.committer.manifest.rows} were called is not known any more, ` +
        'and limits.unknown_outcome is hold',
      'To go on, and call some rows again, set limits.unknown_outcome: retry; --restart begins anew.',
    );
  }
}

/** In a store that does not know the run any more, calls in flight were never heard of again. */
const withLost = ({ in_flight, ...calls }: Counters): Counters => ({
  ...calls,
  repeated: calls.repeated + Math.max(0, in_flight),
  in_flight: 0,
});
