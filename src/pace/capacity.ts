import { steadyNow } from '../core/clock.js';

/** Shortest and longest wait of a row that found no capacity, in ms. */
const SHORTEST_MS = 1_000;
const LONGEST_MS = 60_000;
/** Below this share of calls that find capacity, all rows wait. */
const SCARCE = 0.1;
/** Calls that the share is learned from, besides those in flight: refusals come sooner than answers. */
const REMEMBERED = 20;

/**
 * The capacity of the flex tier, as the calls of one process find it. A call that finds none costs nothing and counts on
 * no quota, so it changes no pace: its row waits, the longer the fewer calls find capacity.
 */
export class Capacity {
  /** Of the calls that find capacity, from 0 to 1. */
  #share = 1;
  /** Until then no row of the tier is called. */
  #until = 0;

  /** @param random in [0, 1) */
  constructor(
    private readonly clock = steadyNow,
    private readonly random = Math.random,
  ) {}

  /** How long no row of the tier is called, in ms; 0 when they are. */
  get waitingMs(): number {
    return Math.max(0, this.#until - this.clock());
  }

  /** How long a row waits that found none, in ms. */
  get rowMs(): number {
    const ms = Math.min(LONGEST_MS, SHORTEST_MS / this.#share);
    return Math.max(this.waitingMs, Math.round(ms * (1 + this.random() / 4)));
  }

  /**
   * @param inFlight other calls, which may have found capacity
   * @returns whether all rows of the tier wait from now on
   */
  lacked(inFlight: number, startedAt: number): boolean {
    this.#share *= 1 - 1 / (REMEMBERED + inFlight);
    if (this.#share >= SCARCE || startedAt < this.#until) return false;
    this.#until = this.clock() + this.rowMs;
    return true;
  }

  found(): void {
    this.#share += (1 - this.#share) / REMEMBERED;
    this.#until = 0;
  }
}
