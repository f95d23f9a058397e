import pLimit from 'p-limit';

/**
 * Bounds how many jobs run at once, and lets those who share it take turns: each key has a line of its own, and the
 * first of each line goes in its turn. So a run of 200 rows does not wait behind the rows of a long one that the worker
 * holds already.
 */
export class FairLimit {
  readonly #limit;
  /** Those who wait, by key; the key that had no turn for longest is first. Never an empty line. */
  readonly #lines = new Map<string, (() => Promise<void>)[]>();

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

  /** Runs the job when its turn has come; resolves or rejects as it does. */
  run<T>(key: string, job: () => Promise<T>): Promise<T> {
    return new Promise((resolve) => {
      const line = this.#lines.get(key);
      const start = async (): Promise<void> => {
        const result = job();
        resolve(result);
        await result.catch(() => {});
      };
      if (line === undefined) this.#lines.set(key, [start]);
      else line.push(start);
      // A place for each job; whose turn it is, is settled when the place is free.
      void this.#limit(() => this.#next()());
    });
  }

  #next(): () => Promise<void> {
    const next = this.#lines.entries().next();
    if (next.done) throw new Error('there are as many places as jobs');
    const [key, line] = next.value;
    // To the end of the round.
    this.#lines.delete(key);
    const start = line.shift();
    if (line.length > 0) this.#lines.set(key, line);
    return start ?? (async () => {});
  }
}
