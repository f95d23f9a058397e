import type { Cell, KeyValue } from '../store/key-value.js';
import { moved, newPace, PACE_TTL_MS, readPace, SET_MS, type SharedPace, textOf } from './shared-pace.js';

interface Changed<T> {
  readonly pace: SharedPace;
  readonly result: T;
}

export type PaceValues = Pick<KeyValue, 'get' | 'swap'>;

/** Most that the difference of two clocks drifts between two replies, in ms. */
const DRIFT_MS = 0.02;

/**
 * This process's copy of a queue's pace, and the only way to change it for all. A change is redone when
 * another came first. When the store refuses, calls go on with the copy.
 */
export class PaceCell {
  #text: string | null = null;
  #pace: SharedPace;
  #offset = 0;
  /** Bound of the offset's error, in ms. */
  #error = Number.POSITIVE_INFINITY;
  #seenAt = Number.NEGATIVE_INFINITY;
  /** Total by which the store's clock was adjusted, in ms. */
  #setBy = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly values: PaceValues,
    private readonly queue: string,
    private readonly clock: () => number,
    private readonly onError: (error: unknown) => void,
  ) {
    this.#pace = newPace();
  }

  get pace(): SharedPace {
    return this.#pace;
  }

  /** Milliseconds since the copy was known to be current. */
  get age(): number {
    return this.clock() - this.#seenAt;
  }

  /** The store's clock minus this process's, in ms. */
  get offset(): number {
    return this.#offset;
  }

  get now(): number {
    return this.clock() + this.#offset;
  }

  look(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#try((queue) => this.values.get('pace', queue));
    });
  }

  change<T>(by: (pace: SharedPace, now: number) => Changed<T>): Promise<T> {
    return this.#inTurn(async () => {
      for (;;) {
        const { pace, result } = by(this.#pace, this.now);
        const text = textOf(pace, this.now);
        const setBy = this.#setBy;
        const reply = await this.#try((queue) =>
          this.values.swap('pace', queue, this.#text, text, PACE_TTL_MS),
        );
        if (reply !== null && !reply.written) continue;
        // The clock may have been set meanwhile; the text says when it was written.
        this.#pace = moved(pace, this.#setBy - setBy);
        return result;
      }
    });
  }

  async #try(use: (queue: string) => Promise<Cell>): Promise<Cell | null> {
    const sent = this.clock();
    try {
      const reply = await use(this.queue);
      // The reply is at least as new as the request.
      this.#seenAt = sent;
      this.#setClock(reply.now, sent, this.clock());
      if (reply.text !== this.#text) {
        this.#text = reply.text;
        if (!reply.written) this.#pace = readPace(reply.text, reply.now);
      }
      return reply;
    } catch (error) {
      this.#seenAt = sent;
      this.onError(error);
      return null;
    }
  }

  /**
   * The store read its clock between request and reply; the closer these are, the smaller the error. A slow
   * reply changes nothing, unless it shows that a clock was set. Meanwhile the error grows slowly.
   */
  #setClock(now: number, sent: number, received: number): void {
    const offset = now - (sent + received) / 2;
    const error = (received - sent) / 2 + 1;
    this.#error += DRIFT_MS;
    if (error > this.#error && Math.abs(offset - this.#offset) <= error + this.#error) return;
    // The store's clock was set: shift all known times (fault 90).
    const set = offset - this.#offset;
    if (Number.isFinite(this.#error) && Math.abs(set) > SET_MS + error + this.#error) {
      this.#pace = moved(this.#pace, set);
      this.#setBy += set;
    }
    this.#offset = offset;
    this.#error = error;
  }

  /** Sequential: no change of this process comes between another and its reply. */
  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const permit = this.#last.then(job);
    this.#last = permit.catch(() => {});
    return permit;
  }
}
