import type { Register } from './register.js';
import {
  allowedRate,
  heard,
  hold,
  type News,
  NOTHING,
  needsTurns,
  type PaceLimits,
  refuse,
  remembered,
  takeTurns,
} from './shared-pace.js';
import { SharedRegister } from './shared-register.js';
import { SlowStart } from './slow-start.js';

/** How often a worker looks at what the others found out, in milliseconds. */
const LOOK_MS = 500;
/** Time without growth after a failed call, in milliseconds. */
const HOLD_MS = 5_000;
/** Calls that ask for their turns at once, at most. */
const MOST_ASKING = 500;
/**
 * Workers ask again this much later at most, in milliseconds, and each at another moment: who comes first takes the
 * turn. Less than the time for which turns are given out ahead, so that none is lost.
 */
const AFTER_MS = 120;
/** Longest time between two questions for a turn, in milliseconds: the rate may have grown meanwhile. */
const LONGEST_SLEEP_MS = 1_000;
/** A rate is told again when it has changed by this fraction. */
const TOLD_AGAIN = 0.15;

/** A change of what is allowed, for the log. */
export interface PaceChange {
  readonly reason: 'slow_start' | 'growth' | 'refused' | 'lifted' | 'held';
  /** Calls a minute of the whole fleet; null when nothing but the concurrency holds calls back. */
  readonly calls_per_minute: number | null;
  /** Calls at once of this process. */
  readonly concurrency: number;
}

/** What a pacer takes from its worker. */
export interface PacerParts {
  readonly register: Register;
  /** Name of the queue. */
  readonly queue: string;
  readonly limits: PaceLimits;
  /** Most calls at once in this process. */
  readonly ceiling: number;
  /** Calls at once in this process now, those included that wait for their turn. */
  readonly underWay: () => number;
  /** Told when the calls that this process may make at once change. */
  readonly onConcurrency: (limit: number) => void;
  /** Told that the service asked the fleet to wait, milliseconds from now. */
  readonly onWait: (ms: number) => void;
  readonly onChange: (change: PaceChange) => void;
  /** The store refused; this process goes on by what it knows. */
  readonly onStoreError: (error: unknown) => void;
  /** Milliseconds since 1970. @default Date.now */
  readonly clock?: () => number;
  /** Numbers in [0, 1). @default Math.random */
  readonly random?: () => number;
}

interface Waiting {
  readonly tokens: number;
  readonly go: (turn: boolean) => void;
}

/**
 * Decides when this process makes its calls: by slow start while nothing is known of the quota, and by turns that it
 * takes from the shared pace of the queue once there is a limit, configured or found.
 */
export class Pacer {
  readonly #shared: SharedRegister;
  readonly #start: SlowStart;
  readonly #clock: () => number;
  readonly #random: () => number;
  #waiting: Waiting[] = [];
  #timers = new Set<NodeJS.Timeout>();
  #wake: (() => void) | null = null;
  #asking = false;
  #looking: NodeJS.Timeout | null = null;
  #grownAt: number;
  #lookingNow = false;
  #began: Promise<void> | null = null;
  #closed = false;
  #ended = (): void => {};
  readonly #end = new Promise<void>((resolve) => {
    this.#ended = resolve;
  });
  readonly #granted = new Set<Waiting>();
  /** What is told with the next change: calls that were made and not refused, since when, and tokens beyond what was reserved. */
  #admitted = 0;
  #since: number;
  #tokens = 0;
  #toldQuota = NOTHING;
  #toldNews = NOTHING;
  #heldAt = Number.NEGATIVE_INFINITY;
  #told: number | null = null;
  #found = false;

  constructor(private readonly parts: PacerParts) {
    this.#clock = parts.clock ?? Date.now;
    this.#random = parts.random ?? Math.random;
    this.#since = this.#clock();
    this.#grownAt = this.#since;
    this.#start = new SlowStart(parts.ceiling);
    this.#shared = new SharedRegister(parts.register, parts.queue, this.#clock, parts.onStoreError);
  }

  /** Calls at once of this process at present. */
  get concurrency(): number {
    return this.#start.limit;
  }

  /** Calls that wait for their turn, or whose turn has not come. */
  get waiting(): number {
    return this.#waiting.length + this.#timers.size;
  }

  /**
   * Waits until a call may be made.
   * @param tokens what it is reckoned to take
   * @returns false when the pacer was closed meanwhile: then it may not be made
   */
  async admit(tokens: number): Promise<boolean> {
    this.#began ??= this.#begin();
    // The store may be away for long; who closes does not wait for it.
    await Promise.race([this.#began, this.#end]);
    if (this.#closed) return false;
    if (needsTurns(this.#shared.pace, this.parts.limits)) {
      const turn = await new Promise<boolean>((go) => {
        this.#waiting.push({ tokens, go });
        void this.#ask();
      });
      if (!turn) return false;
    } else {
      // Owed, in case the service tells a quota of tokens in its answer.
      this.#tokens += tokens;
    }
    // Counted as admitted until it is refused: what is under way when the first refusal comes was admitted, mostly.
    this.#admitted++;
    return true;
  }

  /** A call was admitted by the service, whatever it answered. @param tokens beyond what was reserved for it @param told what it said of its quota */
  answered(tokens: number, told: PaceLimits): void {
    this.#tokens += tokens;
    const news = !sameQuota(told, this.#toldQuota);
    this.#toldQuota = told;
    if (news) this.#toldNews = told;
    // Nobody else may take a turn for a while, or ever.
    if (news && !needsTurns(this.#shared.pace, this.parts.limits)) void this.#flush();
    if (this.#start.answered(this.#clock())) this.#concurrencyGrew();
  }

  /** A call failed for another reason than the quota. */
  async failed(): Promise<void> {
    const local = this.#clock();
    this.#start.troubled(local);
    if (local - this.#heldAt < HOLD_MS / 2) return;
    this.#heldAt = local;
    if (this.#shared.pace.found === null) return;
    await this.#shared.change((pace, now) => ({ pace: hold(pace, HOLD_MS, now), result: null }));
    this.#tell('held');
  }

  /**
   * A call was refused for lack of quota.
   * @param startedAt when it was made, by the clock of this process
   * @param wait milliseconds that nobody may call
   * @param tokens what was reserved for it: a refused call takes nothing
   */
  async refused(startedAt: number, wait: number, tokens: number): Promise<void> {
    const { limits } = this.parts;
    this.#start.troubled(this.#clock() + wait);
    this.#tokens -= tokens;
    this.#admitted--;
    const call = { startedAt: startedAt + this.#shared.offset, wait };
    const news = this.#news();
    const cut = await this.#shared.change((before, now) => {
      const pace = refuse(before, call, news, limits, now);
      return { pace, result: pace.since !== before.since };
    });
    if (cut) this.#tell('refused');
    this.#joinWait();
  }

  /** Lets nobody through any more. */
  close(): void {
    this.#closed = true;
    this.#ended();
    clearInterval(this.#looking ?? undefined);
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    const waiting = [...this.#waiting, ...this.#granted];
    this.#waiting = [];
    this.#granted.clear();
    for (const { go } of waiting) go(false);
    this.#wake?.();
  }

  async #flush(): Promise<void> {
    const news = this.#news();
    await this.#shared.change((pace, now) => ({
      pace: heard(pace, news, this.parts.limits, now),
      result: null,
    }));
    this.#tellGrowth();
  }

  async #begin(): Promise<void> {
    this.#since = this.#clock();
    this.#grownAt = this.#since;
    this.parts.onConcurrency(this.#start.limit);
    await this.#look();
    if (this.#closed) return;
    this.#looking = setInterval(() => void this.#look(), LOOK_MS);
    this.#looking.unref();
  }

  /** Others may have been refused, and told to wait. */
  async #look(): Promise<void> {
    const local = this.#clock();
    if (this.#lookingNow) return;
    if (this.parts.underWay() >= this.#start.limit && local - this.#grownAt >= 1_000) {
      this.#grownAt = local;
      if (this.#start.waited(local)) this.#concurrencyGrew();
    }
    const { admitted, since } = remembered(this.#admitted, this.#since, local);
    if (since !== this.#since) this.#tokens *= admitted / Math.max(1, this.#admitted);
    this.#admitted = admitted;
    this.#since = since;
    this.#lookingNow = true;
    await this.#shared.look();
    this.#lookingNow = false;
    this.#joinWait();
  }

  /** Takes turns for those who wait, as long as there are any. */
  async #ask(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    while (this.#waiting.length > 0 && !this.#closed) {
      const asking = this.#waiting.slice(0, MOST_ASKING);
      const news = this.#news();
      const { limits } = this.parts;
      const { waits, again } = await this.#shared.change((pace, now) => {
        const turns = takeTurns(
          heard(pace, news, limits, now),
          asking.map(({ tokens }) => tokens),
          limits,
          now,
        );
        return { pace: turns.pace, result: turns };
      });
      if (this.#closed) break;
      this.#waiting.splice(0, waits.length);
      for (const [i, ms] of waits.entries()) this.#grant(asking[i], ms);
      this.#tellGrowth();
      // A pause of the fleet: the rows go back to the queue instead of waiting here.
      if (this.#joinWait()) this.#release();
      else if (again > 0) await this.#sleep(Math.min(again, LONGEST_SLEEP_MS) + this.#random() * AFTER_MS);
    }
    this.#asking = false;
  }

  #grant(waiting: Waiting | undefined, ms: number): void {
    if (waiting === undefined) return;
    if (ms <= 0) {
      waiting.go(true);
      return;
    }
    this.#granted.add(waiting);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#granted.delete(waiting);
      waiting.go(true);
    }, ms);
    this.#timers.add(timer);
  }

  #release(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { go } of waiting) go(true);
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** @returns whether the fleet waits */
  #joinWait(): boolean {
    const ms = this.#shared.pace.waitUntil - this.#shared.now;
    if (ms > 0) this.parts.onWait(ms);
    return ms > 0;
  }

  #news(): News {
    const news = {
      admitted: this.#admitted,
      since: this.#since + this.#shared.offset,
      tokens: this.#tokens,
      told: this.#toldNews,
    };
    this.#toldNews = NOTHING;
    this.#admitted = 0;
    this.#since = this.#clock();
    this.#tokens = 0;
    return news;
  }

  #concurrencyGrew(): void {
    this.parts.onConcurrency(this.#start.limit);
    const doubled = Math.log2(this.#start.limit) % 1 === 0 || this.#start.limit === this.parts.ceiling;
    if (doubled) this.#tell('slow_start');
  }

  #tellGrowth(): void {
    const rate = this.#rate();
    const found = this.#shared.pace.found !== null;
    if (this.#found && !found) this.#tell('lifted');
    else if (rate !== null && this.#told === null) this.#told = rate;
    else if (rate !== null && this.#told !== null && rate > this.#told * (1 + TOLD_AGAIN))
      this.#tell('growth');
  }

  #tell(reason: PaceChange['reason']): void {
    this.#told = this.#rate();
    this.#found = this.#shared.pace.found !== null;
    const calls_per_minute = this.#told === null ? null : Math.round(this.#told * 10) / 10;
    this.parts.onChange({ reason, calls_per_minute, concurrency: this.#start.limit });
  }

  #rate(): number | null {
    return allowedRate(this.#shared.pace, this.parts.limits);
  }
}

const sameQuota = (one: PaceLimits, other: PaceLimits): boolean =>
  one.requestsPerMinute === other.requestsPerMinute && one.tokensPerMinute === other.tokensPerMinute;
