import { doubledMs } from '../backoff.js';

/** Longest time a single hint is obeyed, in milliseconds: one hour. Then one call asks again. */
const LONGEST_HINT_MS = 3_600_000;
/** Shortest pause, in milliseconds, also where the service says that it may be called at once. */
const SHORTEST_PAUSE_MS = 1_000;
/** Refusals in a row, with no call admitted between them, after which a run stops instead of waiting on (fault 18). */
const MOST_IN_A_ROW = 30;

/**
 * Remembers refusals for lack of quota in one process. However many calls in flight see the same refusal,
 * it is one episode: the pause only ever grows by a later hint.
 */
export class QuotaWait {
  #until = 0;
  #episodes = 0;

  /** Milliseconds that remain of the current pause; 0 when calls may be made. */
  remaining(now: number): number {
    return Math.max(0, this.#until - now);
  }

  /**
   * A call was refused.
   * @param hint milliseconds the service asked to wait; null when it gave no hint: 1 s, doubling to 60 s
   * @param startedAt when the call was made: one made before the pause began is no new refusal
   * @returns milliseconds to wait, or null when the run is to be given up for now
   */
  refused(hint: number | null, startedAt: number, now: number): number | null {
    if (startedAt >= this.#until) this.#episodes++;
    if (this.#episodes > MOST_IN_A_ROW) return null;
    const guess = doubledMs(1_000, this.#episodes - 1, 60_000);
    const ms = Math.min(LONGEST_HINT_MS, Math.max(SHORTEST_PAUSE_MS, hint ?? guess));
    this.#until = Math.max(this.#until, now + ms);
    return this.#until - now;
  }

  /** Another process was told to wait, and its pause goes on. */
  joined(ms: number, now: number): void {
    this.#until = Math.max(this.#until, now + Math.min(LONGEST_HINT_MS, ms));
  }

  /** A call was admitted. */
  admitted(): void {
    this.#episodes = 0;
  }
}

/** Different rows that fail one after the other, with no answer between them, before the service counts as down. */
const FAILURES = 10;
/** The same, with rows that failed before while others were answered. */
const SUSPECT_FAILURES = 30;
/** Longest pause between two probing calls, in milliseconds. */
const LONGEST_PROBE_MS = 20_000;
/** Shortest pause, in milliseconds. */
const FIRST_PROBE_MS = 1_000;

/** A call that failed and may be made again. */
export interface FailedCall {
  /** Names of the rows that it was for. */
  readonly rows: readonly string[];
  /** Why, as a code and a message. */
  readonly fault: { readonly code: string; readonly message: string };
  /** False when no connection was made: that is never the fault of a row. */
  readonly connected: boolean;
  /** True when the request may be the cause. */
  readonly mayBeRequest: boolean;
  /** When it was made, in milliseconds. */
  readonly startedAt: number;
}

/** What is known of an outage. */
export interface OutageView {
  /** When the first call of the outage failed. */
  readonly since: number;
  /** When the next probing call is due. */
  readonly until: number;
  readonly fault: FailedCall['fault'];
  /** True when the calls reached the service, which makes it possible that the rows are the cause. */
  readonly connected: boolean;
  /** Different rows that failed in it. */
  readonly rows: number;
}

/**
 * Tells an outage of the service from rows that fail. During an outage nobody calls but one call at a time, after
 * pauses that grow from 1 to 20 s, and no attempt of a row is used up.
 *
 * Calls that fail one after the other, with no answer between them, are an outage when they are for ten different
 * rows, or when one did not even connect. Rows that failed before, while others were answered, are evidence only when
 * there are thirty of them: at the end of a run few such rows are left, and they have to use their attempts up and fail.
 *
 * Where the service says the same of all of them, their requests may be the cause: it is in doubt until a plain call tells. No
 * other call is made meanwhile.
 *
 * One process judges for itself; the pauses hold for all workers of the queue.
 */
export class Outage {
  /** Rows that failed since the last answer. */
  #failing = new Set<string>();
  /** All rows that failed since the last answer. */
  #all = new Set<string>();
  /** Rows that failed before an answer came, and have no outcome yet. */
  readonly #suspects = new Set<string>();
  #since = 0;
  #last: FailedCall | null = null;
  #pauses = 0;
  #until = 0;
  #probing: Promise<void> | null = null;
  /** What the service said to all calls since the last answer, where their requests may be the cause; null where it differs. */
  #said: string | null = null;
  /** Set while it is in doubt. */
  #doubt: { readonly over: Promise<void>; readonly end: () => void } | null = null;

  /** The outage that goes on; null when there is none. */
  get view(): OutageView | null {
    if (this.#pauses === 0 || this.#last === null) return null;
    const { fault, connected } = this.#last;
    return { since: this.#since, until: this.#until, fault, connected, rows: this.#all.size };
  }

  /** Milliseconds that remain of the pause; 0 when a call may be made. */
  remaining(now: number): number {
    return Math.max(0, this.#until - now);
  }

  /** Resolves when it is in doubt no more. */
  get certain(): Promise<void> | undefined {
    return this.#doubt?.over;
  }

  /**
   * Makes a call, or, while the service is down, waits for the one call that probes it.
   * @returns null when the service is still down: the call was not made
   */
  through<T>(now: () => number, call: () => Promise<T>): Promise<T | null> {
    if (this.#doubt !== null) return this.#doubt.over.then(() => this.through(now, call));
    return this.#pauses === 0 ? call() : this.#probe(now, call);
  }

  async #probe<T>(now: () => number, call: () => Promise<T>): Promise<T | null> {
    if (this.remaining(now()) > 0) return null;
    if (this.#probing === null) {
      const probe = call();
      this.#probing = probe.then(
        () => {},
        () => {},
      );
      return probe.finally(() => {
        this.#probing = null;
      });
    }
    await this.#probing;
    return this.through(now, call);
  }

  /**
   * A call failed in a way that may pass.
   * @param random a number in [0, 1)
   * @returns milliseconds for which nobody should call; null when this is no outage but a call to be tried again; `doubt`
   *   when a plain call is to be made now, whose end is told to `decided`
   */
  failed(call: FailedCall, now: number, random: number): number | 'doubt' | null {
    const said = call.mayBeRequest ? call.fault.message : null;
    if (this.#last === null) {
      this.#since = now;
      this.#said = said;
    }
    if (said !== this.#said) this.#said = null;
    this.#last = call;
    for (const row of call.rows) {
      this.#all.add(row);
      if (!this.#suspects.has(row)) this.#failing.add(row);
    }
    const many = this.#failing.size >= FAILURES || this.#all.size >= SUSPECT_FAILURES;
    const down = this.#pauses > 0 || !call.connected || many;
    if (!down || this.#doubt !== null) return null;
    // What was under way when the pause began belongs to it.
    if (call.startedAt < this.#until) return Math.max(1, this.#until - now);
    if (this.#said === null) return this.#pause(now, random);
    let end = (): void => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#doubt = { over, end };
    return 'doubt';
  }

  /**
   * The plain call has ended.
   * @param passed whether it was answered: then the requests are the cause, and this is no outage
   * @param random a number in [0, 1)
   * @returns milliseconds for which nobody should call; null when this is no outage
   */
  decided(passed: boolean, now: number, random: number): number | null {
    this.#doubt?.end();
    this.#doubt = null;
    if (passed) this.answered();
    return this.#last === null ? null : this.#pause(now, random);
  }

  #pause(now: number, random: number): number {
    const ceiling = doubledMs(FIRST_PROBE_MS, this.#pauses, LONGEST_PROBE_MS);
    this.#pauses++;
    this.#until = now + Math.round(ceiling * (1 - random / 4));
    return Math.max(1, this.#until - now);
  }

  /** The service answered, be it with a refusal. */
  answered(): void {
    if (this.#last === null) return;
    for (const row of this.#failing) this.#suspects.add(row);
    this.#failing = new Set();
    this.#all = new Set();
    this.#last = null;
    this.#pauses = 0;
    this.#until = 0;
  }

  /** A row has its outcome. */
  settled(row: string): void {
    this.#suspects.delete(row);
    this.#failing.delete(row);
    this.#all.delete(row);
  }
}
