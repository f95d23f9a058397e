/** The part of its time that a call waits before a connection is hung up for it, and the longest such wait in milliseconds. */
const PATIENCE = { part: 1 / 8, ms: 15_000 };

/**
 * The calls of a client that wait on connections over which nothing was ever heard, to find those that others overtake.
 *
 * A server with a fixed number of threads (llama.cpp's own) has each stay with one connection for as long as calls come over
 * it, and looks at no others. A client that has all its connections in use cannot choose another one for its next call: it
 * has to hang up one that was just answered, so that its thread takes the connection that has waited longest. That happens
 * once for each call that waits. A call that is lost, or takes long, on a connection that was heard costs no connection.
 */
export class WaitingCalls {
  /** With when each was sent, oldest first. */
  readonly #waiting = new Map<object, number>();
  /** When the newest call was sent that was answered. */
  #newest = Number.NEGATIVE_INFINITY;
  readonly #patienceMs: number;

  /** @param timeoutMs longest time for one call */
  constructor(timeoutMs: number) {
    this.#patienceMs = Math.min(timeoutMs * PATIENCE.part, PATIENCE.ms);
  }

  /** A call was sent over a connection on which nothing was ever heard. */
  add(call: object, now: number): void {
    this.#waiting.set(call, now);
  }

  /** Its answer begins, or it has ended. */
  delete(call: object): void {
    this.#waiting.delete(call);
  }

  /**
   * A call was answered.
   * @returns true when its connection is to be hung up for one that was sent before others that were answered
   */
  answered(sentAt: number, now: number): boolean {
    this.#newest = Math.max(this.#newest, sentAt);
    const [oldest] = this.#waiting;
    if (oldest === undefined) return false;
    const [call, waitsSince] = oldest;
    if (now - waitsSince < this.#patienceMs || waitsSince >= this.#newest) return false;
    return this.#waiting.delete(call);
  }
}
