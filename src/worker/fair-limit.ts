import { steadyNow } from '../core/clock.js';

export interface Task<By> {
  /** False when it cannot be prepared yet. Called when it is next in turn. */
  prepare(): boolean;
  run(by: By): Promise<void>;
}

interface WaitingTask<By> {
  readonly task: Task<By>;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
  /** When it came, in steady time. */
  readonly at: number;
}

interface Turns<By> {
  readonly key: string;
  readonly waiting: WaitingTask<By>[];
}

/** Tasks that wait. It takes keys in turn: a run of 200 rows does not wait behind a long one. */
export class TaskLine<By> {
  /** The key that waited longest is first. None has nothing waiting. */
  readonly #turns: Turns<By>[] = [];
  /** Prepared tasks; they go first, in order. */
  readonly #prepared: WaitingTask<By>[] = [];
  readonly #limits: FairLimit<By>[] = [];
  #pending = 0;

  /** Adds a limit under which its tasks are run. */
  limitedBy(limit: FairLimit<By>): void {
    this.#limits.push(limit);
  }

  get pendingCount(): number {
    return this.#pending;
  }

  /** How long the next task has waited, in ms; 0 when there is none. */
  get waitedMs(): number {
    const next = this.#prepared[0] ?? this.#turns[0]?.waiting[0];
    return next === undefined ? 0 : steadyNow() - next.at;
  }

  /** Resolves when all tasks have ended; rejects as soon as one fails. */
  async run(key: string, tasks: readonly Task<By>[]): Promise<void> {
    if (tasks.length === 0) return;
    const turns = this.#turns.find((each) => each.key === key) ?? { key, waiting: [] };
    if (turns.waiting.length === 0) this.#turns.push(turns);
    const at = steadyNow();
    const ends = tasks.map(
      (task) => new Promise<void>((done, failed) => turns.waiting.push({ task, done, failed, at })),
    );
    this.#pending += tasks.length;
    this.prepare();
    this.offer();
    await Promise.all(ends);
  }

  /** Prepares the next tasks in turn, until one cannot be prepared. */
  prepare(): void {
    while (this.#turns[0]?.waiting[0]?.task.prepare()) {
      const next = this.#inTurn();
      if (next !== undefined) this.#prepared.push(next);
    }
  }

  /** Has the limits take what waits, as far as they may. */
  offer(): void {
    for (const limit of this.#limits) if (!limit.isLast) limit.takePlaces();
    for (const limit of this.#limits) if (limit.isLast) limit.takePlaces();
  }

  take(): WaitingTask<By> | undefined {
    const next = this.#prepared.shift() ?? this.#inTurn();
    if (next !== undefined) this.#pending--;
    return next;
  }

  #inTurn(): WaitingTask<By> | undefined {
    const turns = this.#turns.shift();
    const next = turns?.waiting.shift();
    if (turns !== undefined && turns.waiting.length > 0) this.#turns.push(turns);
    return next;
  }
}

/** Bounds how many tasks of a line are run at once by one of those that take from it. */
export class FairLimit<By> {
  /** Each runs one task after another. */
  #places = 0;

  /**
   * @param mayTake whether the next task may be run by this one now. @default always
   * @param leaves whether it leaves tasks to others that have room for them. @default never
   */
  constructor(
    private most: number,
    private readonly line: TaskLine<By>,
    private readonly by: By,
    private readonly mayTake: () => boolean = () => true,
    private readonly leaves: () => boolean = () => false,
  ) {
    line.limitedBy(this);
  }

  /** True when others choose first. */
  get isLast(): boolean {
    return this.leaves();
  }

  get concurrency(): number {
    return this.most;
  }

  set concurrency(most: number) {
    this.most = most;
    this.takePlaces();
  }

  get activeCount(): number {
    return this.#places;
  }

  /** Starts places; each picks its task only when it is free. */
  takePlaces(): void {
    if (this.line.pendingCount === 0 || !this.mayTake()) return;
    const free = Math.min(this.line.pendingCount, this.most - this.#places);
    for (let i = 0; i < free; i++) {
      this.#places++;
      void this.#work();
    }
  }

  /** Keeps its place while tasks wait and the limit has not shrunk. */
  async #work(): Promise<void> {
    // No task starts within what raises the limit.
    await undefined;
    while (this.#places <= this.most && this.mayTake()) {
      const next = this.line.take();
      if (next === undefined) break;
      this.line.prepare();
      await next.task.run(this.by).then(next.done, next.failed);
    }
    this.#places--;
  }
}
