/** BullMQ's last priority; 1 is the first. */
const LAST = 2 ** 21 - 1;
/** Rows that share a priority, so that the order of a hundred million rows has room. */
const ROWS_PER_PRIORITY = 50;

/**
 * The priorities of one run's chunks among those of the other runs of its queue: start-time fair queueing (Goyal, Vin
 * and Cheng, SIGCOMM 1996). A run begins where the queue has got to, and goes on by its own rows. So runs that began at
 * different times are handed out in turns, row for row, and none waits for the others to end.
 *
 * Within a run earlier rows go first, also when they come back from a retry or a wait. Without a priority they would
 * queue behind the whole window, and the output would stand still until all of it is called.
 *
 * Beyond the last priority, after a hundred million rows without a moment in which the queue was empty, entries go in
 * the order in which they were added.
 */
export class FairOrder {
  /** Priority of row 0, were there one; null before the first chunk. */
  #offset: number | null = null;
  #last = 0;

  /** Whether a chunk is one that the queue has not had before. */
  isNew(first: number): boolean {
    return first > this.#last;
  }

  /**
   * Tells how far the queue has got before new chunks are added. A run that added nothing for a while begins there
   * again: what it did not use it does not get later, at the cost of the others.
   * @param first number of the first row of the next chunk
   * @param reached priority of an entry that is worked on or comes next; null in an empty queue
   */
  begin(first: number, reached: number | null): void {
    const own = stepOf(first);
    if (this.#offset === null) this.#offset = (reached ?? 1) - own;
    else if (reached !== null) this.#offset = Math.max(this.#offset, reached - own);
    this.#last = first;
  }

  priorityOf(first: number): number {
    this.#last = Math.max(this.#last, first);
    return Math.min(LAST, Math.max(1, (this.#offset ?? 1) + stepOf(first)));
  }
}

const stepOf = (first: number): number => Math.floor(first / ROWS_PER_PRIORITY);
