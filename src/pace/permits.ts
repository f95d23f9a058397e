/** Calls that ask for their permits at once, at most. */
const MOST_ASKING = 500;
/**
 * Workers ask again this much later at most, in milliseconds, and each at another moment: who comes first takes the
 * permit. Less than the time for which permits are given out ahead, so that none is lost.
 */
const AFTER_MS = 120;
/** Longest time between two questions for a permit, in milliseconds: the rate may have grown meanwhile. */
const LONGEST_SLEEP_MS = 1_000;

/**
 * Whether a call may be made: yes, and when its permit was, by the clock of this process; not now, because the fleet was told to
 * wait; or no more.
 */
export type Admission = { readonly permit: number } | 'pause' | 'closed';

/** What came of asking for permits. */
export interface Given {
  /** Milliseconds until each permit, for the first so many of the calls that asked. */
  readonly waits: readonly number[];
  /** Milliseconds after which the others may ask again. */
  readonly again: number;
  /** The fleet was told to wait: nobody need ask before that is over. */
  readonly paused: boolean;
}

interface Waiting {
  readonly tokens: number;
  readonly go: (admission: Admission) => void;
}

/** The calls of one process that wait for their permit, in the order in which they came. */
export class Permits {
  #waiting: Waiting[] = [];
  /** Those whose permit is known, and has not come. */
  readonly #given = new Map<NodeJS.Timeout, Waiting>();
  #wake: (() => void) | null = null;
  #asking = false;
  #closed = false;

  /**
   * @param ask takes permits for calls that are reckoned to take so many tokens each
   * @param random numbers in [0, 1)
   */
  constructor(
    private readonly ask: (tokens: readonly number[]) => Promise<Given>,
    private readonly random: () => number,
    private readonly clock: () => number,
  ) {}

  /** Resolves when the permit has come, or there will be none. */
  wait(tokens: number): Promise<Admission> {
    return new Promise((go) => {
      this.#waiting.push({ tokens, go });
      void this.#askForAll();
    });
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#given.keys()) clearTimeout(timer);
    for (const { go } of [...this.#given.values(), ...this.#waiting]) go('closed');
    this.#given.clear();
    this.#waiting = [];
    this.#wake?.();
  }

  async #askForAll(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    while (this.#waiting.length > 0 && !this.#closed) {
      const asking = this.#waiting.slice(0, MOST_ASKING);
      const { waits, again, paused } = await this.ask(asking.map(({ tokens }) => tokens));
      if (this.#closed) break;
      this.#waiting.splice(0, waits.length);
      for (const [i, ms] of waits.entries()) this.#give(asking[i], ms);
      if (paused) this.#releaseAll();
      else if (again > 0) await this.#sleep(Math.min(again, LONGEST_SLEEP_MS) + this.random() * AFTER_MS);
    }
    this.#asking = false;
  }

  #give(waiting: Waiting | undefined, ms: number): void {
    if (waiting === undefined) return;
    const permit = this.clock() + ms;
    const timer = setTimeout(() => {
      this.#given.delete(timer);
      waiting.go({ permit });
    }, ms);
    this.#given.set(timer, waiting);
  }

  /** Rows whose call would be late go back to the queue instead of waiting here. */
  #releaseAll(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { go } of waiting) go('pause');
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** The service counts requests over windows of this length, in milliseconds. */
const WINDOW_MS = 1_000;

/**
 * Keeps calls that come late from coming together. Permits are at even distances, but a busy machine makes a call later than
 * its permit, and the calls after it come on time: then a window has one call too many. So of two calls whose permits are a
 * window apart the later one is made a window after the earlier one at least. Then no window has more calls than it has
 * permits, and nothing is lost as long as the rate leaves the least room.
 *
 * One process keeps its own calls apart. Times are milliseconds of its clock.
 */
export class Spacing {
  /** Calls of the last windows, in the order of their permits. */
  #made: { readonly permit: number; readonly at: number }[] = [];

  /** When a call may be made whose permit has come; counts it as made then. */
  at(permit: number, now: number): number {
    const before = this.#made.filter((call) => call.permit <= permit - WINDOW_MS);
    const at = before.reduce((latest, call) => Math.max(latest, call.at + WINDOW_MS), now);
    // Of those a window before this permit the latest is enough for all that follow.
    this.#made = this.#made.filter(
      (call) => call.permit > permit - 2 * WINDOW_MS || call.at > now - WINDOW_MS,
    );
    this.#made.push({ permit, at });
    return at;
  }
}
