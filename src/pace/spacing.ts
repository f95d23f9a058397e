/** The service counts requests over windows of this length, in milliseconds. */
const WINDOW_MS = 1_000;

/**
 * Keeps calls that come late from coming together. Turns are at even distances, but a busy machine makes a call later than
 * its turn, and the calls after it come on time: then a window has one call too many. So of two calls whose turns are a
 * window apart the later one is made a window after the earlier one at least. Then no window has more calls than it has
 * turns, and nothing is lost as long as the rate leaves the least room.
 *
 * One process keeps its own calls apart. Times are milliseconds of its clock.
 */
export class Spacing {
  /** Calls of the last windows, in the order of their turns. */
  #made: { readonly turn: number; readonly at: number }[] = [];

  /** When a call may be made whose turn has come; counts it as made then. */
  at(turn: number, now: number): number {
    const before = this.#made.filter((call) => call.turn <= turn - WINDOW_MS);
    const at = before.reduce((latest, call) => Math.max(latest, call.at + WINDOW_MS), now);
    // Of those a window before this turn the latest is enough for all that follow.
    this.#made = this.#made.filter((call) => call.turn > turn - 2 * WINDOW_MS || call.at > now - WINDOW_MS);
    this.#made.push({ turn, at });
    return at;
  }
}
