/** A body above this is large, in bytes. Answers of the service's models have some ten thousand. */
const LARGE = 1024 * 1024;

/** Large bodies that are read at once by one client: with 16 MiB for each, at most 64 MiB are held. */
const AT_ONCE = 4;

/**
 * Bounds the memory that large bodies take (fault 73). A call whose body becomes large needs a place to read on; until one is
 * free its connection is paused, and what has not been read stays with the sender.
 */
export class LargeBodies {
  #taken = 0;
  readonly #waiting = new Set<() => void>();

  /** @returns what a call asks with each piece of its body */
  reader(): LargeBody {
    let bytes = 0;
    let state: 'small' | 'waiting' | 'reading' | 'ended' = 'small';
    let wake = (): void => {};
    return {
      mayReadOn: (more, resume) => {
        bytes += more;
        if (bytes <= LARGE || state === 'reading' || state === 'ended') return true;
        if (this.#taken < AT_ONCE) {
          this.#taken++;
          state = 'reading';
          return true;
        }
        if (state === 'small') {
          state = 'waiting';
          wake = () => {
            state = 'reading';
            // Not from within: undici reads one connection at a time, and it is another one that has ended now.
            setImmediate(() => {
              if (state === 'reading') resume();
            });
          };
          this.#waiting.add(wake);
        }
        return false;
      },
      end: () => {
        if (state === 'reading') this.#leave();
        else this.#waiting.delete(wake);
        state = 'ended';
      },
    };
  }

  /** The place goes to the call that has waited longest. */
  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#taken--;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

/** The body of one call. */
export interface LargeBody {
  /**
   * @param more bytes that have come
   * @param resume called once when the body may be read on, after the answer was no
   */
  mayReadOn(more: number, resume: () => void): boolean;
  /** The body is read, or given up: its place is free. */
  end(): void;
}
