import { doubledMs } from '../core/backoff.js';

/** Longest pause for one hint, in ms: after an hour a call asks again. */
const LONGEST_HINT_MS = 3_600_000;
/** Shortest pause, in ms, even when the service asks for none. */
const SHORTEST_PAUSE_MS = 1_000;
/** Consecutive refusals, with no call admitted between them, after which a run stops (fault 18). */
const MOST_IN_A_ROW = 30;

/**
 * Until when this process makes no call: the service refused one, or is down, here or at another worker of the
 * queue. However many calls in flight see the same refusal, it is one episode; only a later hint extends the
 * pause.
 */
export class Pause {
  #until = 0;
  #episodes = 0;

  /** Rest of the current pause, in ms; 0 when calls may be made. */
  remaining(now: number): number {
    return Math.max(0, this.#until - now);
  }

  /**
   * @param hint milliseconds the service asked to wait; null for none: 1 s, doubling to 60 s
   * @param startedAt of the call: one made before the pause began is no new refusal
   * @returns milliseconds to wait, or null when the run should stop
   */
  refused(hint: number | null, startedAt: number, now: number): number | null {
    if (startedAt >= this.#until) this.#episodes++;
    if (this.#episodes > MOST_IN_A_ROW) return null;
    const guess = doubledMs(1_000, this.#episodes - 1, 60_000);
    const ms = Math.min(LONGEST_HINT_MS, Math.max(SHORTEST_PAUSE_MS, hint ?? guess));
    this.#until = Math.max(this.#until, now + ms);
    return this.#until - now;
  }

  joined(ms: number, now: number): void {
    this.#until = Math.max(this.#until, now + Math.min(LONGEST_HINT_MS, ms));
  }

  admitted(): void {
    this.#episodes = 0;
  }
}

/** Different rows failing in a row, with no answer between them, before the service counts as down. */
const FAILURES = 10;
/** The same, counting rows that failed earlier while others were answered. */
const SUSPECT_FAILURES = 30;
/** Longest pause between two probes, in ms. */
const LONGEST_PROBE_MS = 20_000;
const FIRST_PROBE_MS = 1_000;

export interface FailedCall {
  readonly rows: readonly string[];
  readonly problem: { readonly code: string; readonly message: string };
  /** False when no connection was made: that is never the fault of a row. */
  readonly connected: boolean;
  readonly mayBeRequest: boolean;
  /** In milliseconds. */
  readonly startedAt: number;
}

export interface OutageView {
  readonly since: number;
  readonly until: number;
  readonly problem: FailedCall['problem'];
  /** True when calls reached the service, so that the rows may be the cause. */
  readonly connected: boolean;
  readonly rows: number;
}

/**
 * Tells an outage from rows that fail. In an outage only one call at a time probes the service, after pauses
 * of 1 to 20 s, and rows use no attempts.
 *
 * Consecutive failures are an outage when they hit ten different rows, or one did not even connect. Rows that
 * failed before, while others were answered, count from thirty on: at the end of a run a few are left, and
 * must be able to use up their attempts.
 *
 * When the service says the same about all rows, a plain call decides whether their requests are the cause,
 * and no other call is made. Each process judges by itself; pauses hold for all workers of the queue.
 */
export class Outage {
  /** Since the last answer, without the suspects. */
  #failing = new Set<string>();
  /** Since the last answer. */
  #all = new Set<string>();
  /** Failed before an answer came, and still without an outcome. */
  readonly #suspects = new Set<string>();
  /** Of those failing: they have their outcome, so they are not the cause. */
  readonly #innocent = new Set<string>();
  #since = 0;
  #last: FailedCall | null = null;
  #pauses = 0;
  /** End of its last pause: calls that began before belong to that. */
  #until = 0;
  /** What all calls since the last answer got, if their requests may be the cause; null when it differs. */
  #said: string | null = null;
  /** Set while a plain call decides. */
  #doubt: { readonly over: Promise<void>; readonly end: () => void } | null = null;

  get view(): OutageView | null {
    if (this.#pauses === 0 || this.#last === null) return null;
    const { problem, connected } = this.#last;
    return { since: this.#since, until: this.#until, problem, connected, rows: this.#all.size };
  }

  /** Resolves when the plain call has decided. */
  get certain(): Promise<void> | undefined {
    return this.#doubt?.over;
  }

  /**
   * @param random in [0, 1)
   * @returns milliseconds without calls; null when this is no outage; `doubt` when a plain call must be made,
   *   and reported to `decided`
   */
  failed(call: FailedCall, now: number, random: number): number | 'doubt' | null {
    const said = call.mayBeRequest ? call.problem.message : null;
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
    // Calls in flight when the pause began belong to it.
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
   * @param passed whether the plain call was answered: then the requests are the cause
   * @returns milliseconds without calls; null when this is no outage
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

  /** Any response counts, even a refusal. */
  answered(): void {
    if (this.#last === null) return;
    for (const row of this.#failing) if (!this.#innocent.has(row)) this.#suspects.add(row);
    this.#innocent.clear();
    this.#failing = new Set();
    this.#all = new Set();
    this.#last = null;
    this.#pauses = 0;
    this.#until = 0;
  }

  /** True when the last call failed. */
  get isFailing(): boolean {
    return this.#last !== null;
  }

  /**
   * The row has its outcome.
   * @param isOneOfSeveral whether others have rows of the same run: what they answer does not undo that this one
   *   failed. @default false
   */
  settled(row: string, isOneOfSeveral = false): void {
    this.#suspects.delete(row);
    if (isOneOfSeveral) {
      if (this.#failing.has(row)) this.#innocent.add(row);
      return;
    }
    this.#failing.delete(row);
    this.#all.delete(row);
  }
}

/** What a worker's own calls wait for. */
export interface Calling {
  readonly waitingMs: number;
  readonly outage: OutageView | null;
}

/** In words; null while it calls. */
export function serviceWait({ outage, waitingMs }: Calling, now: number): string | null {
  if (outage) {
    const next = outage.until > now ? `next call at ${clock(outage.until)}` : 'one call tries it';
    return `waiting since ${clock(outage.since)}: ${outage.problem.message}; ${next}`;
  }
  return waitingMs >= 1000 ? `the service asked to wait until ${clock(now + waitingMs)}` : null;
}

/** `10:42:05` in local time. */
export const clock = (at: number): string => new Date(at).toTimeString().slice(0, 8);
