/** How long a call waits before a connection is closed for it: part of its deadline, at most so many ms. */
const PATIENCE = { part: 1 / 8, ms: 15_000 };

/**
 * Finds calls on connections that never got a response while later calls are answered.
 *
 * A server with a fixed number of threads (llama.cpp) keeps each on one connection while calls arrive there,
 * and ignores the others. When all connections are in use, the client closes one that was just answered, so
 * that its thread takes the one that has waited longest: once for each waiting call. A lost or slow call on a
 * connection with earlier responses closes nothing.
 */
export class WaitingCalls {
  /** Call → time sent, oldest first. */
  readonly #waiting = new Map<object, number>();
  /** When the latest answered call was sent. */
  #newest = Number.NEGATIVE_INFINITY;
  readonly #patienceMs: number;

  constructor(timeoutMs: number) {
    this.#patienceMs = Math.min(timeoutMs * PATIENCE.part, PATIENCE.ms);
  }

  /** The call was sent on a connection without any response so far. */
  add(call: object, now: number): void {
    this.#waiting.set(call, now);
  }

  delete(call: object): void {
    this.#waiting.delete(call);
  }

  /**
   * @returns true when the connection should be closed for a call that waits while later ones are answered
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
