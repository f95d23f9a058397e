import pLimit, { type LimitFunction } from 'p-limit';

/** What waits for a place. */
export interface Job {
  /** Called when it is next in turn; false when it cannot be prepared yet. */
  prepare(): boolean;
  run(): Promise<void>;
}

/** Jobs that came together. */
interface Group {
  /** How many have not ended. */
  left: number;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

interface Turn {
  readonly job: Job;
  readonly group: Group;
}

/** The jobs of one key that wait. */
interface Line {
  readonly key: string;
  readonly turns: Turn[];
}

/**
 * Bounds how many jobs run at once, and lets those who share it take turns: each key has a line of its own, and the
 * first of each line goes in its turn. So a run of 200 rows does not wait behind the rows of a long one that the worker
 * holds already. A job may prepare itself when its turn is next.
 */
export class FairLimit {
  /** Bounds the places; a job after the other takes each of them. */
  readonly #limit: LimitFunction;
  /** Those who wait; the line that had no turn for longest is first. None is empty. */
  readonly #lines: Line[] = [];
  /** Those who are prepared and go first, in their order. */
  readonly #prepared: Turn[] = [];
  #places = 0;
  #pending = 0;

  /** @param most jobs at once */
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

  /** Jobs that run. */
  get activeCount(): number {
    return this.#limit.activeCount;
  }

  /** Jobs that wait. */
  get pendingCount(): number {
    return this.#pending;
  }

  /** Runs each job when its turn has come. Resolves when all have ended, and rejects as soon as one fails. */
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

  /** Has those prepared that are next in turn, as long as they can be. */
  prepare(): void {
    while (this.#lines[0]?.turns[0]?.job.prepare()) {
      const next = this.#inTurn();
      if (next !== undefined) this.#prepared.push(next);
    }
  }

  /** Whose turn it is, is settled when the place is free. */
  #takePlaces(): void {
    const free = Math.min(this.#pending, this.concurrency - this.#places);
    for (let i = 0; i < free; i++) {
      this.#places++;
      void this.#limit(this.#work);
    }
  }

  /** Keeps a place for as long as jobs wait and the limit has not shrunk. */
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
    // To the end of the round.
    if (line !== undefined && line.turns.length > 0) this.#lines.push(line);
    return next;
  }
}
