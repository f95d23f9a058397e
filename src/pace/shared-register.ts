import type { Register, RegisterReply } from './register.js';
import { newPace, readPace, type SharedPace } from './shared-pace.js';

/** What a change makes of the pace, and what its maker wants to know. */
interface Changed<T> {
  readonly pace: SharedPace;
  readonly result: T;
}

/**
 * The pace of a queue as this process knows it, and the way to change it for all. A change is made again when another
 * came first. A store that refuses is no reason not to call: then the process goes on by its own copy.
 */
export class SharedRegister {
  #text: string | null = null;
  #pace: SharedPace;
  /** The clock of the store less that of this process, in milliseconds. */
  #offset = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly register: Register,
    private readonly queue: string,
    private readonly clock: () => number,
    private readonly onError: (error: unknown) => void,
  ) {
    this.#pace = newPace();
  }

  get pace(): SharedPace {
    return this.#pace;
  }

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
      await this.#try((name) => this.register.read(name));
    });
  }

  change<T>(by: (pace: SharedPace, now: number) => Changed<T>): Promise<T> {
    return this.#inTurn(async () => {
      for (;;) {
        const { pace, result } = by(this.#pace, this.now);
        const text = JSON.stringify(pace);
        const reply = await this.#try((name) => this.register.swap(name, this.#text, text));
        if (reply !== null && !reply.written) continue;
        this.#pace = pace;
        return result;
      }
    });
  }

  async #try(use: (name: string) => Promise<RegisterReply>): Promise<RegisterReply | null> {
    const sent = this.clock();
    try {
      const reply = await use(this.queue);
      this.#offset = reply.now - (sent + this.clock()) / 2;
      if (reply.text !== this.#text) {
        this.#text = reply.text;
        if (!reply.written) this.#pace = readPace(reply.text, reply.now);
      }
      return reply;
    } catch (error) {
      this.onError(error);
      return null;
    }
  }

  /** One after the other, so that no change of this process comes between another and its reply. */
  #inTurn<T>(job: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(job);
    this.#last = turn.catch(() => {});
    return turn;
  }
}
