import { steadyNow } from '../core/clock.js';
import { type ChunkAt, type ChunkBudget, executionOf } from '../queue/chunk.js';
import type { Answer } from '../store/ledger.js';
import type { Batcher } from './batcher.js';

/** Pause before the ledger is asked again whether others left room, in ms; up to twice as long, at random. */
const AGAIN_MS = 200;
/** This long after its deadline, a call is taken to belong to a dead process, in ms. */
export const GONE_MS = 10_000;
/** Waiters ask several times a second, so a longer gap than this means that nobody waited, in ms. */
const GAP_MS = 5_000;

interface RunWait {
  readonly waiting: Set<() => void>;
  /** The ledger's last answer; `saidAt` is when it last changed. */
  said: string;
  saidAt: number;
  askedAt: number;
}

/** Requests whose budget has no room: they wait for calls in flight to free some. */
export class BudgetWait {
  /** By run and execution. */
  readonly #runs = new Map<string, RunWait>();

  /** @param clock in milliseconds */
  constructor(
    private readonly batcher: Pick<Batcher, 'totals'>,
    private readonly clock = steadyNow,
    private readonly random = Math.random,
  ) {}

  /**
   * Resolves when the ledger should be asked again: at once the first time, along with all waiters, since a
   * smaller request may fit and free room later.
   * @returns false when no call is in flight that could free room
   */
  async room(
    chunk: ChunkAt,
    budget: ChunkBudget,
    answer: Pick<Answer, 'spent' | 'inFlight'>,
    isFirst: boolean,
  ): Promise<boolean> {
    const run = this.#runOf(chunk);
    const mayLeaveRoom = this.#mayLeaveRoom(run, chunk, budget, answer);
    if (isFirst) this.wake(chunk);
    else if (mayLeaveRoom) await this.#pause(run);
    return isFirst || mayLeaveRoom;
  }

  wake(chunk: ChunkAt): void {
    for (const wake of this.#runs.get(executionOf(chunk))?.waiting ?? []) wake();
  }

  #runOf(chunk: ChunkAt): RunWait {
    const name = executionOf(chunk);
    const known = this.#runs.get(name);
    if (known !== undefined) return known;
    const now = this.clock();
    for (const [other, { waiting, askedAt }] of this.#runs) {
      if (waiting.size === 0 && now - askedAt > GAP_MS) this.#runs.delete(other);
    }
    const begun = { waiting: new Set<() => void>(), said: '', saidAt: now, askedAt: now };
    this.#runs.set(name, begun);
    return begun;
  }

  /** True while calls in flight may still report, each until its deadline. */
  #mayLeaveRoom(
    known: RunWait,
    { run, endpoint }: ChunkAt,
    { orphaned }: ChunkBudget,
    { spent, inFlight }: Pick<Answer, 'spent' | 'inFlight'>,
  ): boolean {
    const said = JSON.stringify([inFlight, spent]);
    const now = this.clock();
    // After a gap (the service paused all calls, say), the calls in flight get their full time again.
    if (said !== known.said || now - known.askedAt > GAP_MS) [known.said, known.saidAt] = [said, now];
    known.askedAt = now;
    const own = this.batcher.totals(run).in_flight;
    // Calls an earlier execution left in flight are lost, unless its workers outlived it: then the sums move.
    const lost = own === 0 && inFlight <= orphaned;
    const deadline = known.saidAt + (lost ? 0 : endpoint.timeoutMs) + GONE_MS;
    return inFlight + own > 0 && now < deadline;
  }

  /** Until calls of this process end, or others may have. */
  async #pause(known: RunWait): Promise<void> {
    const { waiting } = known;
    let timer: NodeJS.Timeout | undefined;
    let wake = (): void => {};
    await new Promise<void>((resolve) => {
      wake = resolve;
      waiting.add(wake);
      timer = setTimeout(
        () => {
          for (const each of waiting) each();
        },
        AGAIN_MS * (1 + this.random()),
      );
    });
    waiting.delete(wake);
    clearTimeout(timer);
    known.askedAt = this.clock();
  }
}
