import { UsefulCalls } from './useful-calls.js';

/** Initial calls at once: what the smallest quotas admit in a second. */
const FIRST = 5;
/** Share of the calls at once that may wait for the store or a permit while all count as in flight. */
const AWAY = 1 / 8;
/** Time without growth after a failed call, in ms, unless so many answers came since. */
const CALM_MS = 5_000;
const CALM_ANSWERS = 10;
/** After a lowered limit, time until one more call is tried, in ms. */
const STEP_MS = { first: 60_000, most: 1_800_000 };

/**
 * The concurrency of one process: each answer adds one, which doubles it each round (RFC 5681, slow start).
 * Refusals come at once, so a second without one also doubles it, even when calls take longer; up to
 * `untilAnswered`.
 *
 * It restarts after a pause that revealed no rate. With a known rate it stays, because the service counts
 * calls per second, not concurrent calls. A 5xx only stops growth for a while, or until ten answers: else a
 * service that fails one call in thirty would get ten at once for hours.
 *
 * When the calls are too many for the server, the ceiling drops, and then rises by one per minute, or as fast
 * as the cause allows. If the first step is too much again, steps take twice as long. Calls that bring no more
 * answers may not be made either (`useful-calls.ts`).
 */
export class SlowStart {
  #limit: number;
  /** Null when all calls up to the ceiling are wanted. */
  readonly #useful: UsefulCalls | null;
  #pausedUntil = 0;
  #failedUntil = 0;
  /** Since the last failed call. */
  #since = 0;

  /** The ceiling, or less when that was too much for the server. */
  #most: number;
  /** The last lowering of the ceiling, and the limit before; null for none. */
  #lowered: { readonly at: number; readonly from: number } | null = null;
  /** Time between two steps up: current and initial. */
  #stepMs = 0;
  #firstMs = STEP_MS.first;
  #stepAt = Number.POSITIVE_INFINITY;
  #raises = 0;

  /** @param untilAnswered most calls before they are answered; below the ceiling, the useful number is searched */
  constructor(
    private readonly ceiling: number,
    private readonly untilAnswered = ceiling,
  ) {
    this.#limit = Math.min(FIRST, ceiling);
    this.#most = ceiling;
    this.#useful = untilAnswered < ceiling ? new UsefulCalls(ceiling) : null;
  }

  get limit(): number {
    return this.#limit;
  }

  get pausedUntil(): number {
    return this.#pausedUntil;
  }

  /**
   * @param ms time that the answer took
   * @param calls in flight, this one included
   * @returns true when the limit changed
   */
  answered(ms: number, calls: number, now: number): boolean {
    const before = this.#limit;
    this.#since++;
    if (this.#useful !== null && now >= this.#pausedUntil) {
      // A ceiling that was lowered finds its own way up.
      const isFull =
        calls + Math.max(1, before * AWAY) >= before &&
        Math.min(this.#useful.most, this.ceiling) <= this.#most;
      this.#useful.answered(ms, before, isFull, now);
      this.#limit = Math.min(before, this.#useful.most);
    }
    this.#grow(this.#limit + 1, now);
    return this.#limit !== before;
  }

  /** A second passed with calls in flight. @returns true when the limit grew */
  waited(now: number): boolean {
    return this.#limit < this.untilAnswered && this.#grow(Math.min(this.#limit * 2, this.untilAnswered), now);
  }

  failed(now: number): void {
    this.#failedUntil = now + CALM_MS;
    this.#since = 0;
  }

  /** Answers during the pause do not count. */
  paused(until: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, until);
    this.#useful?.disturbed();
  }

  /** Restarts, so that calls do not all come at once after a pause. @returns true when the limit fell */
  again(): boolean {
    const before = this.#limit;
    this.#limit = Math.min(FIRST, before);
    return this.#limit < before;
  }

  /**
   * Too many calls at once for the server.
   * @param most how many are not
   * @param startedAt of the call that showed it: one from before the last cut proves nothing about it
   * @param firstMs time until one more is tried, unless that was too much before
   * @returns true when the limit fell
   */
  lower(most: number, startedAt: number, now: number, firstMs = STEP_MS.first): boolean {
    if (startedAt < (this.#lowered?.at ?? 0) || most >= this.#limit) return false;
    // The first extra call was too many. After several it is chance, or something else changed.
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

  /** They were not too many. */
  raise(most: number, now: number): void {
    this.#most = Math.min(Math.max(this.#most, most), this.ceiling);
    this.#stepAt = now + this.#stepMs;
  }

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
    const most = Math.min(this.#most, this.#useful?.most ?? this.#most);
    if (now < this.#pausedUntil || this.#limit >= most) return false;
    if (now < this.#failedUntil && this.#since < CALM_ANSWERS) return false;
    this.#limit = Math.min(limit, most);
    return true;
  }
}
