import type { Cell, KeyValue } from '../store/key-value.js';
import { moved, newPace, PACE_TTL_MS, readPace, SET_MS, type SharedPace, textOf } from './shared-pace.js';

/** What a change makes of the pace, and what its maker wants to know. */
interface Changed<T> {
  readonly pace: SharedPace;
  readonly result: T;
}

/** Of the store, what holds the pace of each queue. */
export type PaceValues = Pick<KeyValue, 'get' | 'swap'>;

/** What the difference of two clocks may change by from one reply to the next, in milliseconds. */
const DRIFT_MS = 0.02;

/**
 * The pace of a queue as this process knows it, and the way to change it for all. A change is made again when another
 * came first. A store that refuses is no reason not to call: then the process goes on by its own copy.
 */
export class PaceCell {
  #text: string | null = null;
  #pace: SharedPace;
  #offset = 0;
  /** What the offset may be off by. */
  #error = Number.POSITIVE_INFINITY;
  #seenAt = Number.NEGATIVE_INFINITY;
  /** What the clock of the store was set by since the beginning, in milliseconds. */
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

  /** Milliseconds since this process last knew for sure. */
  get age(): number {
    return this.clock() - this.#seenAt;
  }

  /** The clock of the store less that of this process, in milliseconds. */
  get offset(): number {
    return this.#offset;
  }

  /** The time by the clock of the store. */
  get now(): number {
    return this.clock() + this.#offset;
  }

  /** Learns what others have changed. */
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
        // The clock may have been set on the way; the text says when it was written.
        this.#pace = moved(pace, this.#setBy - setBy);
        return result;
      }
    });
  }

  async #try(use: (queue: string) => Promise<Cell>): Promise<Cell | null> {
    const sent = this.clock();
    try {
      const reply = await use(this.queue);
      // What it says was true when it was asked, at the latest.
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
   * The store read its clock at some moment between question and reply. The closer they are, the better is it known; a
   * reply that took long changes nothing, unless it shows that a clock was set. What is known gets old slowly.
   */
  #setClock(now: number, sent: number, received: number): void {
    const offset = now - (sent + received) / 2;
    const error = (received - sent) / 2 + 1;
    this.#error += DRIFT_MS;
    if (error > this.#error && Math.abs(offset - this.#offset) <= error + this.#error) return;
    // The clock of the store was set: what this process knows of times is moved with it (fault 90).
    const set = offset - this.#offset;
    if (Number.isFinite(this.#error) && Math.abs(set) > SET_MS + error + this.#error) {
      this.#pace = moved(this.#pace, set);
      this.#setBy += set;
    }
    this.#offset = offset;
    this.#error = error;
  }

  /** One after the other, so that no change of this process comes between another and its reply. */
  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const permit = this.#last.then(job);
    this.#last = permit.catch(() => {});
    return permit;
  }
}
