import { counted, duration } from '../core/figures.js';
import type { Problem } from '../core/model.js';
import { shellWord } from '../core/started.js';
import { type Calling, clock, serviceWait } from '../pace/pauses.js';

/** Milliseconds without an answer from the ledger (usually a few) after which the run reports it. */
const SILENT_MS = 5_000;
/** Milliseconds after which workers on other machines are reported missing. */
const IDLE_MS = 30_000;
/** Silence of the service is reported after `ms` milliseconds, or this part of a call's time-out. */
const UNANSWERED = { ms: 30_000, part: 1 / 4 };
/** Milliseconds after which an outage is blamed on the rows, when hardly any others are left. */
const BLAME_MS = 15 * 60_000;
/** Most untried rows that may be left when an outage is blamed on the rows. */
const UNTRIED_ROWS = 20;
/** Longest pause of rows between two attempts, in milliseconds. */
const LONGEST_PAUSE_MS = 60_000;

export interface Fleet {
  readonly workers: number;
  /** What one of them waits for, as text. */
  readonly waiting: string | null;
}

interface Watched extends Calling {
  /** Calls in flight; each has its own deadline. */
  readonly inFlight: number;
  /** Treats the failing rows, not the service, as the cause of an outage. */
  blameRows(): void;
  /** What it waits for at another deployment, as text. @default never waits */
  otherWait?(now: number): string | null;
  /** How it waits for capacity, as text. @default never waits */
  capacityWait?(now: number): string | null;
}

interface WatchdogOptions {
  /** Null when workers on other machines make the calls. */
  readonly worker: Watched | null;
  /** Null before the first heartbeats. @default unknown */
  readonly fleet?: () => Fleet | null;
  /** The job file that its workers need, of a job with several endpoints. */
  readonly workFile?: string | null;
  /** Milliseconds in which no row becomes known, after which the run gives up. */
  readonly giveUpMs: number;
  readonly timeoutMs: number;
  readonly total: number;
  readonly queue: string;
  /** What the store refuses, and since when by the caller's clock; null while it accepts writes. */
  readonly refusal?: () => { readonly since: number; readonly message: string } | null;
  /** How the run waits for batches of the service, as text; null while it does not. @default never */
  readonly batches?: () => string | null;
  /** Since when records wait for their reader, by the caller's clock; null while none do. @default never */
  readonly unreadSince?: () => number | null;
}

/** Knows what a run waits for, since when, and when to give up. The clock is the caller's. */
export class Watchdog {
  #known: number;
  #progressAt: number;
  /** Start of the silence that counts towards giving up; waits with a known end do not count. */
  #quietFrom: number;
  #lookedAt: number;

  constructor(
    private readonly options: WatchdogOptions,
    done: number,
    now: number,
  ) {
    this.#known = done;
    this.#progressAt = now;
    this.#quietFrom = now;
    this.#lookedAt = now;
  }

  get known(): number {
    return this.#known;
  }

  looked(known: number, now: number): void {
    if (known !== this.#known) {
      this.#progressAt = now;
      this.#quietFrom = now;
    }
    this.#known = known;
    this.#lookedAt = now;
  }

  /** Milliseconds since a row became known; 0 when no rows are left. */
  idleMs(now: number): number {
    return this.#known < this.options.total ? now - this.#progressAt : 0;
  }

  /** Null while the run makes progress. */
  waiting(now: number): string | null {
    const { worker, queue, workFile = null } = this.options;
    const refusal = this.options.refusal?.() ?? null;
    if (refusal !== null) return `waiting since ${clock(refusal.since)}: ${refusal.message}`;
    const unread = this.options.unreadSince?.() ?? null;
    if (unread !== null && now - unread > SILENT_MS)
      return `waiting since ${clock(unread)} for whoever reads the rows to take the next`;
    if (now - this.#lookedAt > SILENT_MS)
      return `waiting since ${clock(this.#lookedAt)}: ${queue} does not answer`;
    const idle = this.idleMs(now);
    const batches = idle > SILENT_MS ? (this.options.batches?.() ?? null) : null;
    if (batches !== null) return batches;
    // Only some rows wait for another deployment; the others may make progress.
    const other = (): string | null => (idle > SILENT_MS ? (worker?.otherWait?.(now) ?? null) : null);
    if (worker !== null)
      return (
        serviceWait(worker, now) ?? worker.capacityWait?.(now) ?? other() ?? this.#unanswered(worker, now)
      );
    const fleet = this.options.fleet?.() ?? null;
    if (fleet?.workers === 0 && idle > SILENT_MS)
      return `no worker listens; start one with: promptmill work${workFile === null ? '' : ` --job ${shellWord(workFile)}`} --queue ${queue}`;
    if (idle <= IDLE_MS) return null;
    if (fleet !== null && fleet.workers > 0)
      return (
        fleet.waiting ?? `waiting since ${clock(this.#progressAt)} for ${counted(fleet.workers, 'worker')}`
      );
    return `waiting since ${clock(this.#progressAt)} for workers`;
  }

  /** A server that shuts down may keep connections open; then nothing arrives until the calls time out. */
  #unanswered({ inFlight }: Watched, now: number): string | null {
    const { timeoutMs } = this.options;
    // Does not count a pause that the service asked for.
    const since = Math.max(this.#progressAt, this.#quietFrom);
    if (inFlight === 0 || now - since <= Math.min(UNANSWERED.ms, timeoutMs * UNANSWERED.part)) return null;
    return (
      `no answer since ${clock(since)}: waiting for the service with ${counted(inFlight, 'call')} in flight, ` +
      `time-out after ${timeoutMs / 1000} s (limits.timeout_seconds)`
    );
  }

  /** Why the run should stop; null to continue. Workers on other machines may be started at any time. */
  overdue(now: number): Problem | null {
    const { worker, giveUpMs, queue, total } = this.options;
    // A reader may take its time; the ledger is read again when it continues.
    if ((this.options.unreadSince?.() ?? null) !== null) {
      this.#lookedAt = now;
      this.#quietFrom = now;
      return null;
    }
    const silent = now - this.#lookedAt > SILENT_MS;
    // The service knows when it will have quota again; the pauses of an outage have no known end.
    if (!silent && (worker === null || (worker.waitingMs > 0 && worker.outage === null)))
      this.#quietFrom = now;
    // They take up to a day, and their looks have a limit of their own.
    if (!silent && (this.options.batches?.() ?? null) !== null) this.#quietFrom = now;
    const quiet = now - this.#quietFrom;
    const outage = worker?.outage;
    const few = outage?.connected === true && total - this.#known <= outage.rows + UNTRIED_ROWS;
    if (worker !== null && few && !silent && quiet >= Math.min(giveUpMs, BLAME_MS)) {
      // Nearly every row left was called and failed, so the rows are the likely cause, and may fail.
      worker.blameRows();
      this.#quietFrom = now;
      return null;
    }
    if (quiet < giveUpMs) return null;
    const time = duration(giveUpMs / 1000);
    if (silent)
      return {
        code: 'queue_unavailable',
        message: `nothing was answered for ${time}: ${queue} does not answer`,
      };
    if (!outage) {
      if ((worker?.inFlight ?? 0) > 0 || quiet < giveUpMs + LONGEST_PAUSE_MS) return null;
      const why = worker?.capacityWait?.(now) ? 'the flex tier has no capacity' : 'no call is under way';
      return { code: 'no_progress', message: `no row became known for ${time}, and ${why}` };
    }
    return {
      code: 'service_unavailable',
      message: `nothing was answered for ${time}: ${outage.problem.message}`,
    };
  }
}
