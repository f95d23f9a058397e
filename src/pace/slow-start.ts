/** Calls at once in the beginning: as many as the smallest quotas admit in a second. */
const FIRST = 10;
/** Time after a failed call during which the limit does not grow, in milliseconds, unless so many answers came since. */
const CALM_MS = 5_000;
const CALM_ANSWERS = 10;
/** Time after which one call more is tried again where they were too many, at first and at most, in milliseconds. */
const STEP_MS = { first: 60_000, most: 1_800_000 };

/**
 * How many calls one process makes at once, from a few up to its ceiling: each answer adds one, which doubles the
 * limit with each round of calls (RFC 5681, slow start). A refusal comes at once, so a second that brought none
 * doubles the limit also where calls take longer than that.
 *
 * It begins again after a pause of which no rate was learned. Where a rate is known the limit stays, because the service
 * counts calls a second and not calls at once. A 5xx only stops the growth for a while, or until ten calls were answered:
 * a service that fails at one call in thirty, whatever the load, would else be called by ten at once for hours.
 *
 * Where the calls at once are too many for the server, the ceiling is lowered, and then rises by one a minute, or as soon as the
 * reason allows. Where the first one more proves too many again, the steps take twice as long.
 */
export class SlowStart {
  #limit: number;
  #pausedUntil = 0;
  #failedUntil = 0;
  /** Answers since the last failed call. */
  #since = 0;

  /** The ceiling, or less where that was too much for the server. */
  #most: number;
  /** When the ceiling was lowered last, and from where; null where it never was. */
  #lowered: { readonly at: number; readonly from: number } | null = null;
  /** Time between two steps back, now and at first. */
  #stepMs = 0;
  #firstMs = STEP_MS.first;
  #stepAt = Number.POSITIVE_INFINITY;
  /** How often it was raised since. */
  #raises = 0;

  /** @param ceiling the concurrency that the user set */
  constructor(private readonly ceiling: number) {
    this.#limit = Math.min(FIRST, ceiling);
    this.#most = ceiling;
  }

  /** Calls that may be made at once. */
  get limit(): number {
    return this.#limit;
  }

  /** End of the last pause. */
  get pausedUntil(): number {
    return this.#pausedUntil;
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

  /**
   * The calls at once are too many for the server.
   * @param most how many are not
   * @param startedAt of the call that shows it: one that began before the last cut shows nothing of what came after
   * @param firstMs time after which one more is tried, unless that has proved too many before
   * @returns true when the limit fell
   */
  lower(most: number, startedAt: number, now: number, firstMs = STEP_MS.first): boolean {
    if (startedAt < (this.#lowered?.at ?? 0) || most >= this.#limit) return false;
    // The first one more was too many. After several it is chance, or something else has changed.
    const factor = this.#raises === 0 ? 1 : this.#raises === 1 ? 2 : 1 / 2;
    this.#stepMs = Math.max(firstMs, Math.min(this.#stepMs * factor, STEP_MS.most));
    this.#firstMs = firstMs;
    this.#lowered = { at: now, from: this.#limit };
    this.#limit = Math.max(1, most);
    this.#most = this.#limit;
    this.#raises = 0;
    this.#stepAt = now + this.#stepMs;
    return true;
  }

  /** They were not: the ceiling is at least so high again. */
  raise(most: number, now: number): void {
    this.#most = Math.min(Math.max(this.#most, most), this.ceiling);
    this.#stepAt = now + this.#stepMs;
  }

  /** More calls at once would be answered too late. */
  late(now: number): void {
    this.#stepAt = Math.max(this.#stepAt, now + this.#stepMs);
  }

  #grow(limit: number, now: number): boolean {
    if (now >= this.#stepAt && this.#most < this.ceiling) {
      this.#most++;
      this.#raises++;
      if (this.#most > (this.#lowered?.from ?? 0)) this.#stepMs = this.#firstMs;
      this.#stepAt = now + this.#stepMs;
    }
    if (now < this.#pausedUntil || this.#limit >= this.#most) return false;
    if (now < this.#failedUntil && this.#since < CALM_ANSWERS) return false;
    this.#limit = Math.min(limit, this.#most);
    return true;
  }
}
