/**
 * How much one answer that asks for a stop says of those that follow. `sure`: the account itself refuses. `likely`: the
 * address, the deployment or the operation is wrong, unless a gateway sent one request astray. `vague`: a web page, which
 * is also what a gateway sends while it starts.
 */
export type Certainty = 'sure' | 'likely' | 'vague';

/** Pages in a row, before anything was answered, that make a wrong address of it. */
const PAGES = 3;
/** Refusals in a row, after something was answered, that make more of it than answers gone astray. */
const REFUSALS = 10;

/**
 * Tells a service that cannot answer from one odd answer among good ones (fault 80). While nothing was answered, the first
 * refusal stops the run: a wrong address is best said at once. Later, one of many machines behind a gateway may be the
 * cause, and it takes several in a row. Pages that come later are an outage.
 */
export class StopStreak {
  #answered = false;
  #inRow = 0;
  /** Calls whose answers were of no use, by their first rows, since the last good one. */
  #useless = new Set<string>();

  /** The service answered as it should. */
  answered(): void {
    this.#answered = true;
    this.#inRow = 0;
    this.#useless.clear();
  }

  /**
   * A call was answered in a way that no pause mends, such as without a text. A few such rows are tried again and fail;
   * when it is one row after the other, the service is the cause.
   * @param row name of the first row of the call
   * @returns whether the run must stop
   */
  stopsAfter(row: string): boolean {
    this.#useless.add(row);
    return this.#useless.size >= REFUSALS;
  }

  /**
   * A call ended in a way that asks for a stop.
   * @returns whether the run must stop; else the rows of the call are tried again
   */
  stops(certainty: Certainty): boolean {
    if (certainty === 'sure') return true;
    this.#inRow++;
    if (this.#answered) return certainty === 'likely' && this.#inRow >= REFUSALS;
    return certainty === 'likely' || this.#inRow >= PAGES;
  }
}
