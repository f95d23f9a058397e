/** In bytes. Responses of the service's models have about ten thousand. */
const LARGE = 1024 * 1024;

/** Large bodies read at once by one client: at 16 MiB each, at most 64 MiB are held. */
const AT_ONCE = 4;

/**
 * Bounds the memory of large bodies (fault 73). A call whose body becomes large needs a place to read on.
 * Until one is free its connection is paused, and the unread rest stays with the sender.
 */
export class LargeBodies {
  #taken = 0;
  readonly #waiting = new Set<() => void>();

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
            // Not synchronously: undici reads one connection at a time, and a different one just ended.
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

  /** Hands the place to the longest waiting call. */
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

export interface LargeBody {
  /**
   * False pauses the body.
   * @param more bytes that arrived
   * @param resume called once when a paused body may be read on
   */
  mayReadOn(more: number, resume: () => void): boolean;
  end(): void;
}
