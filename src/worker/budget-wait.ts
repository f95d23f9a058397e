import type { Chunk, ChunkBudget } from '../queue/chunk.js';
import type { Answer } from '../store/ledger.js';

/** Pause before the ledger is asked again whether others have left room, in milliseconds; some are longer, by chance. */
const AGAIN_MS = 200;
/** A call that has not ended this long after its deadline was made by a process that is gone, in milliseconds. */
const GONE_MS = 10_000;
/** Whoever waits asks several times a second; longer than this without anybody means that nobody waited, in milliseconds. */
const GAP_MS = 5_000;

interface BudgetWaitParts {
  /** Rows of a run that this process has in flight. */
  readonly inFlight: (run: string) => number;
  /** Milliseconds of a clock. */
  readonly now: () => number;
  readonly random: () => number;
}

interface RunWait {
  readonly waiting: Set<() => void>;
  /** What the ledger said last, and since when it says so. */
  said: string;
  saidAt: number;
  /** When somebody last asked, or waited to. */
  askedAt: number;
}

/** Requests for which the budgets of their runs have no room, and which wait for calls in flight to leave some. */
export class BudgetWait {
  /** By run and execution. */
  readonly #runs = new Map<string, RunWait>();

  constructor(private readonly parts: BudgetWaitParts) {}

  /**
   * Resolves when the ledger is to be asked again. At the first time that is at once, and all who wait ask with it: a
   * smaller request may fit, and leave room when its call ends.
   * @returns false when no call is in flight that could leave room
   */
  async room(
    chunk: Chunk,
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

  /** Calls of a run have ended, and may have left room. */
  wake(chunk: Chunk): void {
    for (const wake of this.#runs.get(nameOf(chunk))?.waiting ?? []) wake();
  }

  #runOf(chunk: Chunk): RunWait {
    const name = nameOf(chunk);
    const known = this.#runs.get(name);
    if (known !== undefined) return known;
    const now = this.parts.now();
    for (const [other, { waiting, askedAt }] of this.#runs) {
      if (waiting.size === 0 && now - askedAt > GAP_MS) this.#runs.delete(other);
    }
    const begun = { waiting: new Set<() => void>(), said: '', saidAt: now, askedAt: now };
    this.#runs.set(name, begun);
    return begun;
  }

  /** True while calls are in flight that may be heard of, each by its deadline. */
  #mayLeaveRoom(
    known: RunWait,
    { run, endpoint }: Chunk,
    { orphaned }: ChunkBudget,
    { spent, inFlight }: Pick<Answer, 'spent' | 'inFlight'>,
  ): boolean {
    const said = JSON.stringify([inFlight, spent]);
    const now = this.parts.now();
    // The service paused all calls, for example: the time of those in flight begins anew with them.
    if (said !== known.said || now - known.askedAt > GAP_MS) [known.said, known.saidAt] = [said, now];
    known.askedAt = now;
    const own = this.parts.inFlight(run);
    // What an earlier execution left in flight is lost, or the calls of workers that outlived it: those move the sums.
    const lost = own === 0 && inFlight <= orphaned;
    const deadline = known.saidAt + (lost ? 0 : endpoint.timeoutMs) + GONE_MS;
    return inFlight + own > 0 && now < deadline;
  }

  /** Until calls of this process have ended, or others may have. */
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
        AGAIN_MS * (1 + this.parts.random()),
      );
    });
    waiting.delete(wake);
    clearTimeout(timer);
    known.askedAt = this.parts.now();
  }
}

const nameOf = ({ run, execution }: Chunk): string => `${run} ${execution}`;
