import type { Fault } from '../model.js';
import type { OutageView } from '../pace/outage.js';
import { duration } from '../report/figures.js';

/** The ledger answers in milliseconds; after this time without an answer a person is told, in milliseconds. */
const SILENT_MS = 5_000;
/** Workers on other machines are missed after this time, in milliseconds. */
const IDLE_MS = 30_000;
/** Time after which an outage is put down to the rows, when hardly any others are left, in milliseconds. */
const BLAME_MS = 15 * 60_000;
/** Rows that may be left and were not called in an outage that is put down to the rows. */
const UNTRIED_ROWS = 20;
/** Rows may be in a pause between two attempts for this time, in milliseconds. */
const LONGEST_PAUSE_MS = 60_000;

/** The worker, as far as the vigil looks at it. */
interface Watched {
  /** Milliseconds for which the service asked to wait. */
  readonly waitingMs: number;
  /** Calls under way; each has a deadline of its own. */
  readonly inFlight: number;
  readonly outage: OutageView | null;
  /** Takes the rows that fail, and not the service, for the cause of an outage. */
  blameRows(): void;
}

export interface VigilOptions {
  /** Null where workers on other machines make the calls. */
  readonly worker: Watched | null;
  /** Time without an answered row after which the run is given up, in milliseconds. */
  readonly giveUpMs: number;
  /** Rows of the run. */
  readonly total: number;
  /** Where the queue is, for messages. */
  readonly queue: string;
}

/** Knows what a run waits for, since when, and when it has waited long enough. The clock is the caller's. */
export class Vigil {
  #known: number;
  #progressAt: number;
  #lookedAt: number;

  constructor(
    private readonly options: VigilOptions,
    done: number,
    now: number,
  ) {
    this.#known = done;
    this.#progressAt = now;
    this.#lookedAt = now;
  }

  /** Rows whose outcome is known. */
  get known(): number {
    return this.#known;
  }

  /** The ledger answered: so many rows are known. */
  looked(known: number, now: number): void {
    if (known !== this.#known) this.#progressAt = now;
    this.#known = known;
    this.#lookedAt = now;
  }

  /** What the run waits for, in words; null while it gets on. */
  waiting(now: number): string | null {
    const { worker, queue } = this.options;
    if (now - this.#lookedAt > SILENT_MS)
      return `waiting since ${clock(this.#lookedAt)}: ${queue} does not answer`;
    const outage = worker?.outage;
    if (outage) {
      const next = outage.until > now ? `next call at ${clock(outage.until)}` : 'one call tries it';
      return `waiting since ${clock(outage.since)}: ${outage.fault.message}; ${next}`;
    }
    const asked = worker?.waitingMs ?? 0;
    if (asked >= 1000) return `the service asked to wait until ${clock(now + asked)}`;
    if (worker === null && this.#known < this.options.total && now - this.#progressAt > IDLE_MS)
      return `waiting since ${clock(this.#progressAt)} for workers`;
    return null;
  }

  /** Why the run should stop; null while there is hope. Workers on other machines may be started at any time. */
  overdue(now: number): Fault | null {
    const { worker, giveUpMs, queue, total } = this.options;
    const silent = now - this.#lookedAt > SILENT_MS;
    // The service knows when it will have quota again; the pauses of an outage look alike, and are none.
    if (!silent && (worker === null || (worker.waitingMs > 0 && worker.outage === null)))
      this.#progressAt = now;
    const quiet = now - this.#progressAt;
    const outage = worker?.outage;
    const few = outage?.connected === true && total - this.#known <= outage.rows + UNTRIED_ROWS;
    if (worker !== null && few && !silent && quiet >= Math.min(giveUpMs, BLAME_MS)) {
      // Nearly every row that is left was called and failed: the rows are the likelier cause, and they may fail.
      worker.blameRows();
      this.#progressAt = now;
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

/** `10:42:05`, in the time zone of whoever looks on. */
const clock = (at: number): string => new Date(at).toTimeString().slice(0, 8);
