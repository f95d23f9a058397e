import pLimit from 'p-limit';

const UNPREPARED = (): boolean => false;

/** A job that waits for its place. */
interface Waiting {
  readonly start: () => Promise<void>;
  readonly prepare: () => boolean;
}

/**
 * Bounds how many jobs run at once, and lets those who share it take turns: each key has a line of its own, and the
 * first of each line goes in its turn. So a run of 200 rows does not wait behind the rows of a long one that the worker
 * holds already. A job may prepare itself when its turn is next.
 */
export class FairLimit {
  readonly #limit;
  /** Those who wait, by key; the key that had no turn for longest is first. Never an empty line. */
  readonly #lines = new Map<string, Waiting[]>();
  /** Those who are prepared and go first, in their order. */
  readonly #prepared: Waiting[] = [];

  /** @param most jobs at once */
  constructor(most: number) {
    this.#limit = pLimit(most);
  }

  get concurrency(): number {
    return this.#limit.concurrency;
  }

  set concurrency(most: number) {
    this.#limit.concurrency = most;
  }

  /** Jobs that run. */
  get activeCount(): number {
    return this.#limit.activeCount;
  }

  /** Jobs that wait. */
  get pendingCount(): number {
    return this.#limit.pendingCount;
  }

  /**
   * Runs the job when its turn has come; resolves or rejects as it does.
   * @param prepare called when the job is next in turn; false when it cannot be prepared yet
   */
  run<T>(key: string, job: () => Promise<T>, prepare: () => boolean = UNPREPARED): Promise<T> {
    return new Promise((resolve, reject) => {
      const line = this.#lines.get(key);
      const start = (): Promise<void> => job().then(resolve, reject);
      if (line === undefined) this.#lines.set(key, [{ start, prepare }]);
      else line.push({ start, prepare });
      this.prepare();
      // A place for each job; whose turn it is, is settled when the place is free.
      void this.#limit(this.#startNext);
    });
  }

  /** Has those prepared that are next in turn, as long as they can be. */
  prepare(): void {
    for (;;) {
      const [line] = this.#lines.values();
      if (!line?.[0]?.prepare()) return;
      const next = this.#inTurn();
      if (next !== undefined) this.#prepared.push(next);
    }
  }

  readonly #startNext = (): Promise<void> => {
    const next = this.#prepared.shift() ?? this.#inTurn();
    if (next === undefined) throw new Error('there are as many places as jobs');
    this.prepare();
    return next.start();
  };

  #inTurn(): Waiting | undefined {
    const next = this.#lines.entries().next();
    if (next.done) return undefined;
    const [key, line] = next.value;
    // To the end of the round.
    this.#lines.delete(key);
    const first = line.shift();
    if (line.length > 0) this.#lines.set(key, line);
    return first;
  }
}
