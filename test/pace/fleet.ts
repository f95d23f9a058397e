import { vi } from 'vitest';
import { Quota, type QuotaSettings } from '../../src/emulator/quota.js';
import type { PaceChange } from '../../src/pace/pace-changes.js';
import { Pacer } from '../../src/pace/pacer.js';
import { QuotaWait } from '../../src/pace/quota-wait.js';
import type { Register, RegisterReply } from '../../src/pace/register.js';
import { NOTHING, type PaceLimits } from '../../src/pace/shared-pace.js';

/** A register in memory, as a store has it; its clock is off by a while, as clocks of other machines are. */
class MemoryRegister implements Register {
  readonly texts = new Map<string, string>();
  constructor(private readonly ahead = 0) {}

  async read(name: string): Promise<RegisterReply> {
    return { text: this.texts.get(name) ?? null, written: false, now: Date.now() + this.ahead };
  }

  async swap(name: string, before: string | null, after: string): Promise<RegisterReply> {
    if ((this.texts.get(name) ?? null) !== before) return this.read(name);
    this.texts.set(name, after);
    return { text: after, written: true, now: Date.now() + this.ahead };
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
  readonly told?: PaceLimits;
  /** Milliseconds of an answer. @default 120 */
  readonly latency?: number;
  /** Calls at once of one worker. @default 20 */
  readonly ceiling?: number;
  /** Tokens of a call, as the service counts them. @default 100 */
  readonly tokens?: number;
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
  readonly register = new MemoryRegister(90_000);
  readonly pacers: Pacer[] = [];
  #quota: Quota;
  readonly #random: () => number;
  #troubledUntil = 0;
  #refusals = 0;

  /** Under `vi.useFakeTimers()`. */
  constructor(private readonly options: FleetOptions) {
    this.#quota = new Quota({ ...NO_QUOTA, ...options.quota });
    this.#random = randomOf(options.seed);
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
    const wait = new QuotaWait();
    let most = 0;
    let underWay = 0;
    const start = (): void => {
      while (underWay < most) {
        underWay++;
        void this.#slot(worker, pacer, wait, () => underWay > most).then(() => underWay--);
      }
    };
    const pacer = new Pacer({
      register: this.register,
      queue: 'q',
      limits,
      ceiling,
      underWay: () => underWay,
      onConcurrency: (limit) => {
        most = limit;
        start();
      },
      onWait: (ms) => wait.joined(ms, Date.now()),
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

  async #slot(worker: number, pacer: Pacer, wait: QuotaWait, ended: () => boolean): Promise<void> {
    const { latency = 120, tokens = 100, told = NOTHING } = this.options;
    while (!ended()) {
      const pause = wait.remaining(Date.now());
      if (pause > 0) await sleep(pause);
      const admission = await pacer.admit(tokens);
      if (admission === 'closed') return;
      if (admission === 'pause') continue;
      if (wait.remaining(Date.now()) > 0) {
        pacer.withdrawn(tokens);
        continue;
      }
      const startedAt = Date.now();
      // The ledger and the network: some milliseconds, never the same.
      await sleep(3 + this.#random() * 8);
      if (Date.now() < this.#troubledUntil) {
        await pacer.failed();
        continue;
      }
      const stray = this.#refusals > 0;
      if (stray) this.#refusals--;
      const answer = stray ? STRAY : this.#quota.admit(tokens, performance.now());
      this.visits.push({ at: Date.now(), worker, admitted: answer.admitted });
      if (answer.admitted) {
        await sleep(latency * (0.8 + this.#random() * 0.4));
        wait.admitted();
        pacer.answered(0, told);
      } else {
        const hint = Math.ceil(answer.retryAfterMs / 1_000) * 1_000;
        const verdict = wait.refused(hint, startedAt, Date.now());
        if (verdict.kind === 'give-up') throw new Error('refused for ever');
        await pacer.refused(startedAt, verdict.ms, tokens);
      }
    }
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Numbers in [0, 1), the same for the same seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
