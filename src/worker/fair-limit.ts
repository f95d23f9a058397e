export interface Job {
  /** False when it cannot be prepared yet. Called when it is next in turn. */
  prepare(): boolean;
  run(): Promise<void>;
}

interface QueuedJob {
  readonly job: Job;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

interface JobQueue {
  readonly key: string;
  readonly turns: QueuedJob[];
}

/**
 * Bounds how many jobs run at once and takes keys in turn: a run of 200 rows does not wait behind a long one.
 */
export class FairLimit {
  /** The key that waited longest is first. No line is empty. */
  readonly #lines: JobQueue[] = [];
  /** Prepared jobs; they go first, in order. */
  readonly #prepared: QueuedJob[] = [];
  /** Each runs one job after another. */
  #places = 0;
  #pending = 0;

  constructor(private most: number) {}

  get concurrency(): number {
    return this.most;
  }

  set concurrency(most: number) {
    this.most = most;
    this.#takePlaces();
  }

  get activeCount(): number {
    return this.#places;
  }

  get pendingCount(): number {
    return this.#pending;
  }

  /** Resolves when all jobs have ended; rejects as soon as one fails. */
  async run(key: string, jobs: readonly Job[]): Promise<void> {
    if (jobs.length === 0) return;
    const line = this.#lines.find((each) => each.key === key) ?? { key, turns: [] };
    if (line.turns.length === 0) this.#lines.push(line);
    const ends = jobs.map(
      (job) => new Promise<void>((done, failed) => line.turns.push({ job, done, failed })),
    );
    this.#pending += jobs.length;
    this.prepare();
    this.#takePlaces();
    await Promise.all(ends);
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
    const free = Math.min(this.#pending, this.most - this.#places);
    for (let i = 0; i < free; i++) {
      this.#places++;
      void this.#work();
    }
  }

  /** Keeps its place while jobs wait and the limit has not shrunk. */
  async #work(): Promise<void> {
    // No job starts within what raises the limit.
    await undefined;
    while (this.#places <= this.most) {
      const next = this.#prepared.shift() ?? this.#inTurn();
      if (next === undefined) break;
      this.#pending--;
      this.prepare();
      await next.job.run().then(next.done, next.failed);
    }
    this.#places--;
  }

  #inTurn(): QueuedJob | undefined {
    const line = this.#lines.shift();
    const next = line?.turns.shift();
    if (line !== undefined && line.turns.length > 0) this.#lines.push(line);
    return next;
  }
}
