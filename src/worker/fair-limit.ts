import pLimit, { type LimitFunction } from 'p-limit';

export interface Job {
  /** False when it cannot be prepared yet. Called when it is next in turn. */
  prepare(): boolean;
  run(): Promise<void>;
}

interface Group {
  left: number;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

interface Turn {
  readonly job: Job;
  readonly group: Group;
}

interface Line {
  readonly key: string;
  readonly turns: Turn[];
}

/**
 * Bounds how many jobs run at once and takes keys in turn: a run of 200 rows does not wait behind a long one.
 */
export class FairLimit {
  /** Bounds the places; each runs one job after another. */
  readonly #limit: LimitFunction;
  /** The key that waited longest is first. No line is empty. */
  readonly #lines: Line[] = [];
  /** Prepared jobs; they go first, in order. */
  readonly #prepared: Turn[] = [];
  #places = 0;
  #pending = 0;

  constructor(most: number) {
    this.#limit = pLimit(most);
  }

  get concurrency(): number {
    return this.#limit.concurrency;
  }

  set concurrency(most: number) {
    this.#limit.concurrency = most;
    this.#takePlaces();
  }

  get activeCount(): number {
    return this.#limit.activeCount;
  }

  get pendingCount(): number {
    return this.#pending;
  }

  /** Resolves when all jobs have ended; rejects as soon as one fails. */
  run(key: string, jobs: readonly Job[]): Promise<void> {
    if (jobs.length === 0) return Promise.resolve();
    return new Promise((done, failed) => {
      const group = { left: jobs.length, done, failed };
      let line = this.#lines.find((each) => each.key === key);
      if (line === undefined) {
        line = { key, turns: [] };
        this.#lines.push(line);
      }
      for (const job of jobs) line.turns.push({ job, group });
      this.#pending += jobs.length;
      this.prepare();
      this.#takePlaces();
    });
  }

  /** Prepares the next jobs in turn, until one cannot be prepared. */
  prepare(): void {
    while (this.#lines[0]?.turns[0]?.job.prepare()) {
      const next = this.#inTurn();
      if (next !== undefined) this.#prepared.push(next);
    }
  }

  /** Starts places; each picks its job only when it is free. */
  #takePlaces(): void {
    const free = Math.min(this.#pending, this.concurrency - this.#places);
    for (let i = 0; i < free; i++) {
      this.#places++;
      void this.#limit(this.#work);
    }
  }

  /** Keeps its place while jobs wait and the limit has not shrunk. */
  readonly #work = async (): Promise<void> => {
    while (this.#places <= this.concurrency) {
      const next = this.#prepared.shift() ?? this.#inTurn();
      if (next === undefined) break;
      this.#pending--;
      this.prepare();
      try {
        await next.job.run();
      } catch (error) {
        next.group.failed(error);
      }
      if (--next.group.left === 0) next.group.done();
    }
    this.#places--;
  };

  #inTurn(): Turn | undefined {
    const line = this.#lines.shift();
    const next = line?.turns.shift();
    if (line !== undefined && line.turns.length > 0) this.#lines.push(line);
    return next;
  }
}
