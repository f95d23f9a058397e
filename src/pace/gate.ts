import type { Pacer } from './pacer.js';
import type { Outage } from './pauses.js';

/** `wait`: nobody may call for so many ms. `closed`: whoever asked may not call any more. */
export type Entry = 'go' | 'closed' | { readonly waitMs: number };

type Paced = Pick<Pacer, 'admit' | 'space' | 'withdrawn' | 'waitingMs' | 'takesPermits'>;

/** Says when a call may be made: out of the pause, the outage, the permits and the slots of the process. */
export class Gate {
  #probing: Promise<unknown> | null = null;
  #calls = 0;
  #asking = 0;

  constructor(
    private readonly pacer: Paced,
    private readonly outage: Pick<Outage, 'view' | 'certain'>,
    /** Runs a call in a slot of the process. */
    private readonly inSlot: <T>(call: () => Promise<T>) => Promise<T>,
    /** Called whenever one that asked has its answer. */
    private readonly onAnswer: () => void = () => {},
  ) {}

  /** Those that ask and have no answer yet. */
  get asking(): number {
    return this.#asking;
  }

  /** Calls that passed and have not ended. */
  get calls(): number {
    return this.#calls;
  }

  /** How long nobody may call, in ms; 0 when calls may be made. */
  get waitingMs(): number {
    return this.pacer.waitingMs;
  }

  /** True when a call needs nothing but its turn and a slot. */
  get isOpen(): boolean {
    return !this.pacer.takesPermits && this.outage.view === null && this.waitingMs === 0;
  }

  ask(isClosed: () => boolean): Entry {
    if (isClosed()) return 'closed';
    return this.waitingMs > 0 ? { waitMs: this.waitingMs } : 'go';
  }

  /**
   * Makes a call as soon as it may be made. In an outage one at a time probes the service; the others wait for
   * what it finds. A call that waits for its permit holds no slot.
   * @param call returns false when it was not made after all
   */
  enter(tokens: number, isClosed: () => boolean, call: (permit: number) => Promise<boolean>): Promise<Entry> {
    this.#asking++;
    let isAsking = true;
    const answered = (): void => {
      if (!isAsking) return;
      isAsking = false;
      this.#asking--;
      this.onAnswer();
    };
    return this.#enter(tokens, isClosed, (permit) => {
      answered();
      return call(permit);
    }).finally(answered);
  }

  async #enter(
    tokens: number,
    isClosed: () => boolean,
    call: (permit: number) => Promise<boolean>,
  ): Promise<Entry> {
    for (;;) {
      while (this.outage.certain !== undefined) await this.outage.certain;
      const entry = this.ask(isClosed);
      if (entry !== 'go') return entry;
      if (this.outage.view === null) return this.#permitted(tokens, call);
      if (this.#probing === null) {
        const probe = this.#permitted(tokens, call);
        this.#probing = probe.catch(() => {});
        return probe.finally(() => {
          this.#probing = null;
        });
      }
      await this.#probing;
    }
  }

  async #permitted(tokens: number, call: (permit: number) => Promise<boolean>): Promise<Entry> {
    const admission = await this.pacer.admit(tokens);
    if (admission === 'pause') return { waitMs: this.waitingMs };
    if (admission === 'closed') return 'closed';
    this.#calls++;
    try {
      const isMade = await this.inSlot(() => call(admission.permit));
      if (!isMade) this.pacer.withdrawn(tokens);
    } finally {
      this.#calls--;
    }
    return 'go';
  }

  /** The store may have been slow for several calls at once. */
  space(permit: number): Promise<void> | undefined {
    return this.pacer.space(permit);
  }
}
