import { admitted, budgetFault, minus, most, NO_TOKENS, plus, type Tokens } from '../budget/budget.js';
import type { Chunk, ChunkBudget } from '../queue/chunk.js';
import type { Ledger } from '../store/ledger.js';
import type { Recorder, Request } from './recorder.js';

/** Pause before the ledger is asked again whether others have left room, in milliseconds; some are longer, by chance. */
const AGAIN_MS = 200;
/** A call that has not ended this long after its deadline was made by a process that is gone, in milliseconds. */
const GONE_MS = 10_000;

/** How a request came through: it may be made, it goes back because something holds all calls, or its run is stopped. */
export type Passage = 'reserved' | 'held' | 'stopped';

/** A request that asks to be made. */
export interface GateRequest {
  readonly request: Request;
  /** The most that it can be billed. */
  readonly reserve: Tokens;
  /** True when no call is to be made now: the request then comes back, with nothing announced. */
  readonly isHeld: () => boolean;
  /** Told which of its rows the ledger lets be called, when it was last announced. */
  readonly onAnnounced: (granted: ReadonlySet<number>) => void;
}

export interface GateParts {
  readonly ledger: Pick<Ledger, 'progress' | 'stop'>;
  readonly recorder: Recorder;
  /** What is counted for a run at least, whatever the store has forgotten. */
  readonly atLeast: (run: string) => Tokens;
  /** Milliseconds of a clock. */
  readonly now: () => number;
  readonly random: () => number;
}

/** Lets requests pass while they fit the budgets of their runs, over all workers. */
export class BudgetGate {
  /** By run and execution; those that nobody waits at are forgotten, unless they are closed. */
  readonly #runs = new Map<string, RunGate>();

  constructor(private readonly parts: GateParts) {}

  /**
   * Announces a request with the most that it can be billed, when that fits. Waits while calls in flight may yet
   * leave room, and stops the run when none is left that could.
   * @throws Error when the store refuses to say what is spent
   */
  pass(chunk: Chunk, budget: ChunkBudget, request: GateRequest): Promise<Passage> {
    const name = nameOf(chunk);
    const gate = this.#runs.get(name) ?? new RunGate(this.parts, chunk, budget);
    this.#runs.set(name, gate);
    return gate.pass(request).finally(() => {
      if (gate.idle) this.#runs.delete(name);
    });
  }

  /** Calls of a run have ended, and may have left room. */
  settled(chunk: Chunk): void {
    this.#runs.get(nameOf(chunk))?.wake();
  }
}

const nameOf = ({ run, execution }: Chunk): string => `${run} ${execution}`;

interface Waiting extends GateRequest {
  readonly resolve: (passage: Passage) => void;
  readonly reject: (error: unknown) => void;
  /** To be announced in the next round: it is new, or it fitted when the ledger was last asked. */
  hopeful: boolean;
}

/**
 * The gate of one run, in rounds: announce what may fit, ask the ledger for the sums, let pass what does fit, take the
 * rest back. Whatever passed anywhere was in the ledger before it was asked, so the sums that a worker goes by have the
 * requests of all others in them, and of two that ask at the same time at most too few pass.
 */
class RunGate {
  readonly #run: string;
  readonly #execution: number;
  readonly #timeoutMs: number;
  #waiting: Waiting[] = [];
  #working = false;
  #closed = false;
  /** What the ledger said last, and since when it says so. */
  #said = '';
  #saidAt = 0;
  #wake: () => void = () => {};

  constructor(
    private readonly parts: GateParts,
    { run, execution, timeoutMs }: Chunk,
    private readonly budget: ChunkBudget,
  ) {
    this.#run = run;
    this.#execution = execution;
    this.#timeoutMs = timeoutMs;
  }

  get idle(): boolean {
    return this.#waiting.length === 0 && !this.#closed;
  }

  pass(request: GateRequest): Promise<Passage> {
    if (this.#closed) return Promise.resolve('stopped');
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...request, resolve, reject, hopeful: true });
      this.#wake();
      if (!this.#working) void this.#work();
    });
  }

  wake(): void {
    this.#wake();
  }

  async #work(): Promise<void> {
    this.#working = true;
    while (this.#waiting.length > 0) {
      try {
        if (!(await this.#round())) await this.#pause();
      } catch (error) {
        for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
      }
    }
    this.#working = false;
  }

  /** @returns false when nothing is to be done until the sums change */
  async #round(): Promise<boolean> {
    this.#leave((waiting) => waiting.isHeld(), 'held');
    const asked = [...this.#waiting];
    const [next] = asked;
    if (next === undefined) return true;
    const announced = asked.filter((waiting) => waiting.hopeful);
    const { calls, opened } = await this.#announce(announced);
    // A store that came back empty knows nothing of what is spent until the run is opened in it again.
    if (!opened) {
      this.#retract(announced);
      throw new Error(`the store does not know run ${this.#run}`);
    }
    const ours = sum(announced);
    const spent = minus(most(calls, this.parts.atLeast(this.#run)), ours.reserve);
    const fits = admitted(
      this.budget,
      spent,
      asked.map(({ reserve }) => reserve),
    );
    const fitting = new Set(asked.filter((_, i) => fits[i]));
    this.#retract(announced.filter((waiting) => !fitting.has(waiting)));
    for (const waiting of asked) waiting.hopeful = fitting.has(waiting);
    this.#leave((waiting) => fitting.has(waiting) && announced.includes(waiting), 'reserved');
    if (this.#waiting.some(({ hopeful }) => hopeful)) return true;
    if (this.#mayLeaveRoom(calls.in_flight - ours.rows, spent)) return false;
    await this.parts.ledger.stop(this.#run, this.#execution, budgetFault(this.budget, spent, next.reserve));
    this.#closed = true;
    this.#leave(() => true, 'stopped');
    return true;
  }

  /** @returns the run's sums with the requests in them */
  async #announce(requests: readonly Waiting[]): ReturnType<Ledger['progress']> {
    const { recorder, ledger } = this.parts;
    await Promise.all(
      requests.map(async ({ request, reserve, onAnnounced }) =>
        onAnnounced(await recorder.announce(request, reserve)),
      ),
    );
    // Calls of this process that have just ended count with what they were billed.
    await recorder.flushed();
    try {
      return await ledger.progress(this.#run, []);
    } catch (error) {
      this.#retract(requests);
      throw error;
    }
  }

  #retract(requests: readonly Waiting[]): void {
    for (const { request, reserve } of requests) this.parts.recorder.retract(request, reserve, true);
  }

  #leave(which: (waiting: Waiting) => boolean, passage: Passage): void {
    const leaving = this.#waiting.filter(which);
    this.#waiting = this.#waiting.filter((waiting) => !leaving.includes(waiting));
    for (const waiting of leaving) waiting.resolve(passage);
  }

  /**
   * True while calls are in flight that may be heard of, each by its deadline.
   * @param inFlight rows of all workers, those of this process included
   */
  #mayLeaveRoom(inFlight: number, spent: Tokens): boolean {
    const said = JSON.stringify([inFlight, spent]);
    if (said !== this.#said) [this.#said, this.#saidAt] = [said, this.parts.now()];
    const own = this.parts.recorder.totals(this.#run).in_flight;
    // What an earlier execution left in flight is lost, or the calls of workers that outlived it: those move the sums.
    const lost = own === 0 && inFlight <= this.budget.unheard;
    const deadline = this.#saidAt + (lost ? 0 : this.#timeoutMs) + GONE_MS;
    return inFlight + own > 0 && this.parts.now() < deadline;
  }

  /** Until calls of this process have ended, or others may have. */
  async #pause(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, AGAIN_MS * (1 + this.parts.random()));
    });
    clearTimeout(timer);
  }
}

const sum = (requests: readonly GateRequest[]): { readonly rows: number; readonly reserve: Tokens } => ({
  rows: requests.reduce((rows, { request }) => rows + request.rows.length, 0),
  reserve: requests.reduce((all, request) => plus(all, request.reserve), NO_TOKENS),
});
