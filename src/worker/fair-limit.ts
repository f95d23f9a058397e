export interface Task {
  /** False when it cannot be prepared yet. Called when it is next in turn. */
  prepare(): boolean;
  run(): Promise<void>;
}

interface WaitingTask {
  readonly task: Task;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

interface TaskLine {
  readonly key: string;
  readonly turns: WaitingTask[];
}

/**
 * Bounds how many tasks run at once and takes keys in turn: a run of 200 rows does not wait behind a long one.
 */
export class FairLimit {
  /** The key that waited longest is first. No line is empty. */
  readonly #lines: TaskLine[] = [];
  /** Prepared tasks; they go first, in order. */
  readonly #prepared: WaitingTask[] = [];
  /** Each runs one task after another. */
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

  /** Resolves when all tasks have ended; rejects as soon as one fails. */
  async run(key: string, tasks: readonly Task[]): Promise<void> {
    if (tasks.length === 0) return;
    const line = this.#lines.find((each) => each.key === key) ?? { key, turns: [] };
    if (line.turns.length === 0) this.#lines.push(line);
    const ends = tasks.map(
      (task) => new Promise<void>((done, failed) => line.turns.push({ task, done, failed })),
    );
    this.#pending += tasks.length;
    this.prepare();
    this.#takePlaces();
    await Promise.all(ends);
  }

  /** Prepares the next tasks in turn, until one cannot be prepared. */
  prepare(): void {
    while (this.#lines[0]?.turns[0]?.task.prepare()) {
      const next = this.#inTurn();
      if (next !== undefined) this.#prepared.push(next);
    }
  }

  /** Starts places; each picks its task only when it is free. */
  #takePlaces(): void {
    const free = Math.min(this.#pending, this.most - this.#places);
    for (let i = 0; i < free; i++) {
      this.#places++;
      void this.#work();
    }
  }

  /** Keeps its place while tasks wait and the limit has not shrunk. */
  async #work(): Promise<void> {
    // No task starts within what raises the limit.
    await undefined;
    while (this.#places <= this.most) {
      const next = this.#prepared.shift() ?? this.#inTurn();
      if (next === undefined) break;
      this.#pending--;
      this.prepare();
      await next.task.run().then(next.done, next.failed);
    }
    this.#places--;
  }

  #inTurn(): WaitingTask | undefined {
    const line = this.#lines.shift();
    const next = line?.turns.shift();
    if (line !== undefined && line.turns.length > 0) this.#lines.push(line);
    return next;
  }
}
