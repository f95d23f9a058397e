const MOST_ASKING = 500;
/**
 * Random extra wait before the next request, in ms, so that no worker is always first; shorter than the time
 * permits are given out ahead, so that none is lost.
 */
const AFTER_MS = 120;
/** Longest wait between two requests, in ms: the rate may have grown meanwhile. */
const LONGEST_SLEEP_MS = 1_000;

/** `permit` is in this process's clock. `pause`: the fleet was told to wait. */
export type Admission = { readonly permit: number } | 'pause' | 'closed';

export interface Given {
  /** Milliseconds until each permit, for the first calls of the request. */
  readonly waits: readonly number[];
  /** Milliseconds after which the others may ask again. */
  readonly again: number;
  /** The fleet was told to wait: asking earlier is useless. */
  readonly paused: boolean;
}

interface Waiting {
  readonly tokens: number;
  readonly go: (admission: Admission) => void;
}

export class Permits {
  #waiting: Waiting[] = [];
  /** Their permit is known, but has not come yet. */
  readonly #given = new Map<NodeJS.Timeout, Waiting>();
  #wake: (() => void) | null = null;
  #asking = false;
  #closed = false;

  /** @param random in [0, 1) */
  constructor(
    private readonly ask: (tokens: readonly number[]) => Promise<Given>,
    private readonly random: () => number,
    private readonly clock: () => number,
  ) {}

  /** Resolves when the permit has come, or none will. */
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

  /** Rows whose call would be late return to the queue instead of waiting here. */
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

/** The service counts requests over windows of this length, in ms. */
const WINDOW_MS = 1_000;

/**
 * Keeps delayed calls from bunching. Permits are evenly spaced, but a busy machine may call late while the
 * next calls are on time: one window then has a call too many. So calls whose permits are a window apart are
 * made at least a window apart. Nothing is lost as long as the rate leaves some slack.
 *
 * One process spaces only its own calls. Times are milliseconds of its clock.
 */
export class Spacing {
  #made: { readonly permit: number; readonly at: number }[] = [];

  /** When the call may be made; counts it as made then. */
  at(permit: number, now: number): number {
    const before = this.#made.filter((call) => call.permit <= permit - WINDOW_MS);
    const at = before.reduce((latest, call) => Math.max(latest, call.at + WINDOW_MS), now);
    // Of the calls a window before this permit, the latest is enough for all that follow.
    this.#made = this.#made.filter(
      (call) => call.permit > permit - 2 * WINDOW_MS || call.at > now - WINDOW_MS,
    );
    this.#made.push({ permit, at });
    return at;
  }
}
