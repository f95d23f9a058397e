import { counted, duration } from '../figures.js';
import type { Fault } from '../model.js';
import { type Calling, clock, serviceWait } from '../worker/service-wait.js';

/** The ledger answers in milliseconds; after this time without an answer a person is told, in milliseconds. */
const SILENT_MS = 5_000;
/** Workers on other machines are missed after this time, in milliseconds. */
const IDLE_MS = 30_000;
/** A service that answers nothing for this time, or for this part of a call's time, is told of, in milliseconds. */
const UNANSWERED = { ms: 30_000, part: 1 / 4 };
/** Time after which an outage is put down to the rows, when hardly any others are left, in milliseconds. */
const BLAME_MS = 15 * 60_000;
/** Rows that may be left and were not called in an outage that is put down to the rows. */
const UNTRIED_ROWS = 20;
/** Rows may be in a pause between two attempts for this time, in milliseconds. */
const LONGEST_PAUSE_MS = 60_000;

/** The workers of other processes that take rows of the run's queue, as their heartbeats show them. */
export interface Fleet {
  readonly workers: number;
  /** What one of them waits for, in words. */
  readonly waiting: string | null;
}

/** The worker, as far as the watchdog looks at it. */
interface Watched extends Calling {
  /** Calls under way; each has a deadline of its own. */
  readonly inFlight: number;
  /** Takes the rows that fail, and not the service, for the cause of an outage. */
  blameRows(): void;
  /** What it waits for on the side of another deployment, in words. @default there is none */
  otherWait?(now: number): string | null;
}

interface WatchdogOptions {
  /** Null where workers on other machines make the calls. */
  readonly worker: Watched | null;
  /** What the heartbeats last showed of those workers; null before it has. @default nothing is known of them */
  readonly fleet?: () => Fleet | null;
  /** Time without an answered row after which the run is given up, in milliseconds. */
  readonly giveUpMs: number;
  /** Longest time of one call, in milliseconds. */
  readonly timeoutMs: number;
  /** Rows of the run. */
  readonly total: number;
  /** Where the queue is, for messages. */
  readonly queue: string;
  /** What the store refuses, and since when by the clock of the caller; null while it takes what it is given. */
  readonly refusal?: () => { readonly since: number; readonly message: string } | null;
  /** Since when records wait for their reader, by the clock of the caller; null while none do. @default none ever do */
  readonly unreadSince?: () => number | null;
}

/** Knows what a run waits for, since when, and when it has waited long enough. The clock is the caller's. */
export class Watchdog {
  #known: number;
  #progressAt: number;
  /** From when the patience of the run counts: waits that have a known end use none of it up. */
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

  /** Rows whose outcome is known. */
  get known(): number {
    return this.#known;
  }

  /** The ledger answered: so many rows are known. */
  looked(known: number, now: number): void {
    if (known !== this.#known) {
      this.#progressAt = now;
      this.#quietFrom = now;
    }
    this.#known = known;
    this.#lookedAt = now;
  }

  /** Time without a row answered while rows are left, in milliseconds. */
  idleMs(now: number): number {
    return this.#known < this.options.total ? now - this.#progressAt : 0;
  }

  /** What the run waits for, in words; null while it gets on. */
  waiting(now: number): string | null {
    const { worker, queue } = this.options;
    const refusal = this.options.refusal?.() ?? null;
    if (refusal !== null) return `waiting since ${clock(refusal.since)}: ${refusal.message}`;
    const unread = this.options.unreadSince?.() ?? null;
    if (unread !== null && now - unread > SILENT_MS)
      return `waiting since ${clock(unread)} for whoever reads the rows to take the next`;
    if (now - this.#lookedAt > SILENT_MS)
      return `waiting since ${clock(this.#lookedAt)}: ${queue} does not answer`;
    const idle = this.idleMs(now);
    // Only its own rows wait for another deployment; the others may get on.
    const other = (): string | null => (idle > SILENT_MS ? (worker?.otherWait?.(now) ?? null) : null);
    if (worker !== null) return serviceWait(worker, now) ?? other() ?? this.#unanswered(worker, now);
    const fleet = this.options.fleet?.() ?? null;
    if (fleet?.workers === 0 && idle > SILENT_MS)
      return `no worker listens; start one with: promptmill work --queue ${queue}`;
    if (idle <= IDLE_MS) return null;
    if (fleet !== null && fleet.workers > 0)
      return (
        fleet.waiting ?? `waiting since ${clock(this.#progressAt)} for ${counted(fleet.workers, 'worker')}`
      );
    return `waiting since ${clock(this.#progressAt)} for workers`;
  }

  /** A server that shuts down may hold its connections open: then nothing comes until the calls time out. */
  #unanswered({ inFlight }: Watched, now: number): string | null {
    const { timeoutMs } = this.options;
    // Not from before a pause that the service asked for.
    const since = Math.max(this.#progressAt, this.#quietFrom);
    if (inFlight === 0 || now - since <= Math.min(UNANSWERED.ms, timeoutMs * UNANSWERED.part)) return null;
    return (
      `no answer since ${clock(since)}: waiting for the service with ${counted(inFlight, 'call')} in flight, ` +
      `time-out after ${timeoutMs / 1000} s (limits.timeout_seconds)`
    );
  }

  /** Why the run should stop; null while there is hope. Workers on other machines may be started at any time. */
  overdue(now: number): Fault | null {
    const { worker, giveUpMs, queue, total } = this.options;
    // A reader may take its time. The ledger is looked at again when it goes on.
    if ((this.options.unreadSince?.() ?? null) !== null) {
      this.#lookedAt = now;
      this.#quietFrom = now;
      return null;
    }
    const silent = now - this.#lookedAt > SILENT_MS;
    // The service knows when it will have quota again; the pauses of an outage look alike, and are none.
    if (!silent && (worker === null || (worker.waitingMs > 0 && worker.outage === null)))
      this.#quietFrom = now;
    const quiet = now - this.#quietFrom;
    const outage = worker?.outage;
    const few = outage?.connected === true && total - this.#known <= outage.rows + UNTRIED_ROWS;
    if (worker !== null && few && !silent && quiet >= Math.min(giveUpMs, BLAME_MS)) {
      // Nearly every row that is left was called and failed: the rows are the likelier cause, and they may fail.
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
      return { code: 'no_progress', message: `no row was answered for ${time}, and no call is under way` };
    }
    return {
      code: 'service_unavailable',
      message: `nothing was answered for ${time}: ${outage.fault.message}`,
    };
  }
}
