/** Calls at once in the beginning: as many as the smallest quotas admit in a second. */
const FIRST = 10;
/** Time after a failed call during which the limit does not grow, in milliseconds, unless so many answers came since. */
const CALM_MS = 5_000;
const CALM_ANSWERS = 10;
/** Time after which twice as many calls are tried again, where a server starved some of them, in milliseconds. */
const REST_MS = 1_800_000;

/**
 * How many calls one process makes at once, from a few up to its ceiling: each answer adds one, which doubles the
 * limit with each round of calls (RFC 5681, slow start). A refusal comes at once, so a second that brought none
 * doubles the limit also where calls take longer than that.
 *
 * It begins again after a pause of which no rate was learned. Where a rate is known the limit stays, because the service
 * counts calls a second and not calls at once. A 5xx only stops the growth for a while, or until ten calls were answered:
 * a service that fails at one call in thirty, whatever the load, would else be called by ten at once for hours.
 * A server that starves calls gets half as many at once, for half an hour at least.
 */
export class SlowStart {
  #limit: number;
  #pausedUntil = 0;
  #failedUntil = 0;
  /** Answers since the last failed call. */
  #since = 0;

  /** The ceiling, or less while the server starves calls. */
  #most: number;
  #raisedFrom = Number.POSITIVE_INFINITY;

  /** @param ceiling the concurrency that the user set */
  constructor(private readonly ceiling: number) {
    this.#limit = Math.min(FIRST, ceiling);
    this.#most = ceiling;
  }

  /** Calls that may be made at once. */
  get limit(): number {
    return this.#limit;
  }

  /** A call was answered. @returns true when the limit grew */
  answered(now: number): boolean {
    this.#since++;
    return this.#grow(this.#limit + 1, now);
  }

  /** A second passed, and calls were under way. @returns true when the limit grew */
  waited(now: number): boolean {
    return this.#grow(this.#limit * 2, now);
  }

  /** A call failed for another reason than the quota. */
  failed(now: number): void {
    this.#failedUntil = now + CALM_MS;
    this.#since = 0;
  }

  /** Nobody may call until then: what is answered meanwhile says nothing. */
  paused(until: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, until);
  }

  /** Begins again, so that not all calls come at once when a pause ends. @returns true when the limit fell */
  again(): boolean {
    const before = this.#limit;
    this.#limit = Math.min(FIRST, before);
    return this.#limit < before;
  }

  /** The server starves calls. @returns true when the limit fell */
  starved(now: number): boolean {
    const before = this.#limit;
    this.#limit = Math.max(1, Math.floor(before / 2));
    this.#most = this.#limit;
    this.#raisedFrom = now + REST_MS;
    return this.#limit < before;
  }

  #grow(limit: number, now: number): boolean {
    if (now >= this.#raisedFrom) {
      this.#most = Math.min(this.#most * 2, this.ceiling);
      this.#raisedFrom = this.#most < this.ceiling ? now + REST_MS : Number.POSITIVE_INFINITY;
    }
    if (now < this.#pausedUntil || this.#limit === this.#most) return false;
    if (now < this.#failedUntil && this.#since < CALM_ANSWERS) return false;
    this.#limit = Math.min(limit, this.#most);
    return true;
  }
}
