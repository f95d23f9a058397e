import { vi } from 'vitest';
import { type Admission, Quota, type QuotaSettings } from '../../src/emulator/quota.js';
import type { PaceValues } from '../../src/pace/pace-cell.js';
import { Pacer } from '../../src/pace/pacer.js';
import type { PaceChange } from '../../src/pace/shared-pace.js';
import { NOTHING, type PaceLimits } from '../../src/pace/shared-pace.js';
import type { Cell } from '../../src/store/key-value.js';
import { seeded } from '../support/seeded.js';

/** The pace in memory, as a store has it; its clock is off by a while, as clocks of other machines are. */
class MemoryPace implements PaceValues {
  readonly texts = new Map<string, string>();
  constructor(private readonly ahead = 0) {}

  async get(_folder: 'pace', name: string): Promise<Cell> {
    return { text: this.texts.get(name) ?? null, written: false, now: Date.now() + this.ahead };
  }

  async swap(_folder: 'pace', name: string, before: string | null, after: string): Promise<Cell> {
    if ((this.texts.get(name) ?? null) !== before) return this.get('pace', name);
    this.texts.set(name, after);
    return { text: after, written: true, now: Date.now() + this.ahead };
  }
}

/**
 * The store as a process on a busy machine sees it: questions and replies take their time, and a change that was made
 * up while the process stood still is made up again when it goes on, by what is true then.
 */
class DistantPace implements PaceValues {
  constructor(
    private readonly values: PaceValues,
    private readonly stalls: Stalls,
    private readonly random: () => number,
  ) {}

  get(folder: 'pace', name: string): Promise<Cell> {
    return this.#there(() => this.values.get(folder, name));
  }

  async swap(folder: 'pace', name: string, before: string | null, after: string, ttl: number): Promise<Cell> {
    const stoodStill = await this.stalls.over();
    return this.#there(() =>
      stoodStill ? this.values.get(folder, name) : this.values.swap(folder, name, before, after, ttl),
    );
  }

  async #there(ask: () => Promise<Cell>): Promise<Cell> {
    await this.stalls.over();
    await sleep(this.random());
    const reply = await ask();
    await sleep(this.random());
    await this.stalls.over();
    return reply;
  }
}

/** What came of a call. */
export interface Visit {
  readonly at: number;
  readonly worker: number;
  readonly admitted: boolean;
}

export interface FleetOptions {
  readonly workers: number;
  /** What the job says. @default nothing */
  readonly limits?: PaceLimits;
  /** What the service really admits. */
  readonly quota: Partial<QuotaSettings>;
  /** What the service says of its quota in its answers. @default nothing */
  readonly advertised?: PaceLimits;
  /** Milliseconds of an answer. @default 120 */
  readonly latency?: number;
  /** Calls at once of one worker. @default 20 */
  readonly ceiling?: number;
  /** Tokens of a call, as the service counts them. @default 100 */
  readonly tokens?: number;
  /** Milliseconds of a refusal. @default 0 */
  readonly refusalMs?: number;
  /** The share of all calls that is refused for a second, whatever the quota. @default 0 */
  readonly stray?: number;
  /** Refusals say in seconds how long to wait, or always as long in ms. @default true */
  readonly hints?: boolean | number;
  /**
   * A busy machine: every process stands still at times, those of the workers and that of the service. What is due
   * meanwhile happens at the end of it, all at once. Means, in milliseconds. @default never
   */
  readonly busy?: { readonly everyMs: number; readonly forMs: number };
  readonly seed: number;
}

const NO_QUOTA: QuotaSettings = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  requestWindowSeconds: 1,
  estimate: 'full',
};

const STRAY = { admitted: false, retryAfterMs: 1_000 } as const;

/** Workers with rows without end, the emulator's quota, and a clock that the test moves: nothing waits for real. */
export class Fleet {
  readonly visits: Visit[] = [];
  readonly changes: (PaceChange & { readonly at: number })[] = [];
  readonly values = new MemoryPace(90_000);
  readonly pacers: Pacer[] = [];
  #quota: Quota;
  readonly #random: () => number;
  readonly #stalls: Stalls[] = [];
  readonly #preparing: Promise<void>[] = [];
  #troubledUntil = 0;
  #refusals = 0;

  /** Under `vi.useFakeTimers()`. */
  constructor(private readonly options: FleetOptions) {
    this.#quota = new Quota({ ...NO_QUOTA, ...options.quota });
    this.#random = seeded(options.seed);
    // One for each worker, and the last for the service.
    for (let i = 0; i <= options.workers; i++) {
      this.#stalls.push(new Stalls(options.busy ?? null, seeded(options.seed + 1_000 * i)));
    }
    for (let worker = 0; worker < options.workers; worker++) this.#start(worker);
  }

  /** The service changes its quota, with windows that begin anew. */
  setQuota(quota: Partial<QuotaSettings>): void {
    this.#quota = new Quota({ ...NO_QUOTA, ...quota });
  }

  /** For so long every call is answered with a 503. */
  trouble(ms: number): void {
    this.#troubledUntil = Date.now() + ms;
  }

  /** The next call is refused for a second, whatever the quota. */
  refuseNext(): void {
    this.#refusals++;
  }

  async pass(seconds: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(seconds * 1_000);
  }

  /** Calls that were admitted and refused since a time. */
  since(time: number): { admitted: number; refused: number; refusedShare: number } {
    const visits = this.visits.filter(({ at }) => at >= time);
    const admitted = visits.filter((visit) => visit.admitted).length;
    const refused = visits.length - admitted;
    return { admitted, refused, refusedShare: refused / Math.max(1, visits.length) };
  }

  close(): void {
    for (const pacer of this.pacers) pacer.close();
  }

  #start(worker: number): void {
    const { ceiling = 20, limits = NOTHING } = this.options;
    let most = 0;
    let underWay = 0;
    const start = (): void => {
      while (underWay < most) {
        underWay++;
        void this.#slot(worker, pacer, () => underWay > most).then((open) => {
          underWay--;
          if (open) start();
        });
      }
    };
    const pacer = new Pacer({
      values: this.#valuesOf(worker),
      queue: 'q',
      limits,
      ceiling,
      untilAnswered: ceiling,
      underWay: () => underWay,
      onConcurrency: (limit) => {
        most = limit;
        start();
      },
      onPause: async () => {},
      onChange: (change) => this.changes.push({ ...change, at: Date.now() }),
      random: this.#random,
      onStoreError: (error) => {
        throw error;
      },
    });
    this.pacers.push(pacer);
    most = pacer.concurrency;
    // Processes do not start in the same millisecond.
    setTimeout(start, this.#random() * 500);
  }

  #valuesOf(worker: number): PaceValues {
    const stalls = this.#stalls[worker];
    if (!this.options.busy || stalls === undefined) return this.values;
    return new DistantPace(this.values, stalls, this.#random);
  }

  /** Making a call takes some milliseconds of its worker, one call after the other. */
  async #prepare(worker: number): Promise<void> {
    if (!this.options.busy) return sleep(1 + this.#random() * 4);
    const last = this.#preparing[worker] ?? Promise.resolve();
    const done = last.then(async () => {
      await sleep(1 + this.#random() * 3);
      await this.#stalls[worker]?.over();
    });
    this.#preparing[worker] = done;
    return done;
  }

  async #slot(worker: number, pacer: Pacer, ended: () => boolean): Promise<boolean> {
    const { latency = 120, tokens = 100, advertised = NOTHING, refusalMs = 0, hints = true } = this.options;
    while (!ended()) {
      if (pacer.waitingMs > 0) await sleep(pacer.waitingMs);
      const admission = await pacer.admit(tokens);
      if (admission === 'closed') return false;
      if (admission === 'pause') {
        // By way of the queue.
        await sleep(1);
        continue;
      }
      if (pacer.waitingMs > 0) {
        pacer.withdrawn(tokens);
        continue;
      }
      await this.#stalls[worker]?.over();
      // The ledger: some milliseconds, never the same.
      await this.#prepare(worker);
      if (pacer.waitingMs > 0) {
        pacer.withdrawn(tokens);
        continue;
      }
      await pacer.space(admission.permit);
      await this.#stalls[worker]?.over();
      const startedAt = Date.now();
      await sleep(1 + this.#random() * 4);
      await this.#stalls.at(-1)?.over();
      if (Date.now() < this.#troubledUntil) {
        await pacer.failed(false);
        continue;
      }
      const answer = this.#answer(tokens);
      this.visits.push({ at: Date.now(), worker, admitted: answer.admitted });
      await sleep((answer.admitted ? latency : refusalMs) * (0.8 + this.#random() * 0.4));
      await this.#stalls[worker]?.over();
      if (answer.admitted) {
        pacer.answered(startedAt, 0, advertised);
      } else {
        const told = hints === true ? Math.ceil(answer.retryAfterMs / 1_000) * 1_000 : hints;
        const hint = told === false ? null : told;
        if (!(await pacer.refused(hint, startedAt, tokens))) throw new Error('refused for ever');
      }
    }
    return true;
  }

  #answer(tokens: number): Admission | typeof STRAY {
    const { stray = 0 } = this.options;
    if (this.#refusals > 0) {
      this.#refusals--;
      return STRAY;
    }
    return stray > 0 && this.#random() < stray ? STRAY : this.#quota.admit(tokens, performance.now());
  }
}

/** The times at which a process stands still, because others have the machine. */
class Stalls {
  #next = Date.now();
  #end = 0;

  constructor(
    private readonly busy: FleetOptions['busy'] | null,
    private readonly random: () => number,
  ) {}

  /** Resolves at once, or when the process goes on. @returns whether it stood still */
  async over(): Promise<boolean> {
    if (this.busy === null || this.busy === undefined) return false;
    for (let stoodStill = false; ; stoodStill = true) {
      while (this.#end <= Date.now() && this.#next <= Date.now()) {
        this.#end = this.#next - Math.log(1 - this.random()) * this.busy.forMs;
        this.#next = this.#end - Math.log(1 - this.random()) * this.busy.everyMs;
      }
      if (this.#end <= Date.now()) return stoodStill;
      await sleep(this.#end - Date.now());
    }
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
