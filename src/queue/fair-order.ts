/** BullMQ's last priority; 1 is the first. */
const LAST = 2 ** 21 - 1;
/** Rows that share a priority, so that there is room for the order of a hundred million rows. */
const ROWS_PER_PRIORITY = 50;

/**
 * Priorities of one run's chunks among those of other runs of its queue: start-time fair queueing (Goyal, Vin
 * and Cheng, SIGCOMM 1996). A run begins where the queue is and advances by its own rows. So runs that began
 * at different times take turns, row for row, and none waits for the others to end.
 *
 * Within a run earlier rows go first, also after a retry or a wait. Without a priority they would queue
 * behind the whole window, and the output would stand still until all of it is called.
 *
 * Beyond the last priority, after a hundred million rows during which the queue was never empty, entries go
 * in the order they were added.
 */
export class FairOrder {
  /** Priority of row 0, if there were one; null before the first chunk. */
  #offset: number | null = null;
  #last = 0;

  /** Whether the queue has not had this chunk before. */
  isNew(first: number): boolean {
    return first > this.#last;
  }

  /**
   * A run that added nothing for a while begins at the queue's progress again: it does not get unused turns
   * later, at the cost of the others.
   * @param reached priority of an entry being worked on or next; null in an empty queue
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
