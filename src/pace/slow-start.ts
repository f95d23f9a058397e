/** Calls at once in the beginning. */
const FIRST = 2;
/** Time after trouble during which the limit does not grow, in milliseconds. */
const CALM_MS = 5_000;

/**
 * How many calls one process makes at once, from a few up to its ceiling: each answer adds one, which doubles the
 * limit with each round of calls (RFC 5681, slow start). A refusal comes at once, so a second that brought none
 * doubles the limit also where calls take longer than that.
 *
 * It never falls: how much of it is used is decided by the pace, because the service counts calls a second and not
 * calls at once. A refusal or a 5xx only stops the growth for a while.
 */
export class SlowStart {
  #limit: number;
  #calmFrom = 0;

  /** @param ceiling the concurrency that the user set */
  constructor(private readonly ceiling: number) {
    this.#limit = Math.min(FIRST, ceiling);
  }

  /** Calls that may be made at once. */
  get limit(): number {
    return this.#limit;
  }

  /** A call was answered. @returns true when the limit grew */
  answered(now: number): boolean {
    return this.#grow(this.#limit + 1, now);
  }

  /** A second passed, and calls were under way. @returns true when the limit grew */
  waited(now: number): boolean {
    return this.#grow(this.#limit * 2, now);
  }

  /** A call failed, or was refused. */
  troubled(now: number): void {
    this.#calmFrom = now + CALM_MS;
  }

  #grow(limit: number, now: number): boolean {
    if (now < this.#calmFrom || this.#limit === this.ceiling) return false;
    this.#limit = Math.min(limit, this.ceiling);
    return true;
  }
}
