import { PaceCell, type PaceValues } from './pace-cell.js';
import { QuotaWait } from './pauses.js';
import { type Admission, type Given, Permits, Spacing } from './permits.js';
import { hold, pause, refuse } from './refusal.js';
import {
  needsPermits,
  type PaceChange,
  PaceChanges,
  type PaceLimits,
  type Quota,
  quotaOf,
  takePermits,
} from './shared-pace.js';
import { SlowStart } from './slow-start.js';
import { applyReport, UsageReporter } from './usage.js';

/** How often a worker looks at what the others found out while it makes no call, in milliseconds. */
const LOOK_MS = 500;
/** No call is made on knowledge that is older, in milliseconds: others may have been told to wait. */
const FRESH_MS = 20;
/** The refusals of one wave come one after the other, in milliseconds, and each asks for its own time. */
const SAME_MS = 50;
/** Time without growth after a failed call, in milliseconds. */
const HOLD_MS = 5_000;
/** Time without a refusal after which the calls under way count as admitted, in milliseconds. */
const ADMITTED_MS = 1_000;

/** What a pacer takes from its worker. */
export interface PacerParts {
  readonly values: PaceValues;
  /** Name of the queue. */
  readonly queue: string;
  /** What the job says of the quota. */
  readonly limits: PaceLimits;
  /** Most calls at once in this process. */
  readonly ceiling: number;
  /** Calls at once in this process now, those included that wait for their permit. */
  readonly underWay: () => number;
  /** Told when the calls that this process may make at once change. */
  readonly onConcurrency: (limit: number) => void;
  /** Keeps what waits in the queue from this process for so many milliseconds; called once for each pause. */
  readonly onPause: (ms: number) => Promise<void>;
  readonly onChange: (change: PaceChange) => void;
  /** The store refused; this process goes on by what it knows. */
  readonly onStoreError: (error: unknown) => void;
  /** Milliseconds since 1970. @default Date.now */
  readonly clock?: () => number;
  /** Numbers in [0, 1). @default Math.random */
  readonly random?: () => number;
}

/**
 * Decides when this process makes its calls: by slow start while nothing is known of the quota, and by permits that it
 * takes from the shared pace of the queue once there is a limit, configured, advertised by the service, or estimated from its refusals.
 */
export class Pacer {
  readonly #shared: PaceCell;
  readonly #start: SlowStart;
  readonly #permits: Permits;
  readonly #changes: PaceChanges;
  readonly #spacing = new Spacing();
  readonly #quota = new QuotaWait();
  readonly #clock: () => number;
  #looking: NodeJS.Timeout | null = null;
  #asked: Promise<void> | null = null;
  #grownAt: number;
  #began: Promise<void> | null = null;
  #ready = false;
  #closed = false;
  /** Lets those go on who wait for the look under way. */
  #endLook = (): void => {};
  /** Told with the next change. */
  readonly #usage = new UsageReporter();
  #heldAt = Number.NEGATIVE_INFINITY;
  /** End of the pause that was heeded last. */
  #joined = 0;

  constructor(private readonly parts: PacerParts) {
    this.#clock = parts.clock ?? Date.now;
    this.#grownAt = this.#clock();
    this.#start = new SlowStart(parts.ceiling);
    this.#shared = new PaceCell(parts.values, parts.queue, this.#clock, parts.onStoreError);
    this.#permits = new Permits((tokens) => this.#take(tokens), parts.random ?? Math.random, this.#clock);
    this.#changes = new PaceChanges(parts.limits, () => this.#start.limit, parts.onChange);
  }

  /** Calls at once of this process at present. */
  get concurrency(): number {
    return this.#start.limit;
  }

  /** Milliseconds for which nobody may call, because the service asked to wait or is down; 0 when calls may be made. */
  get waitingMs(): number {
    return this.#quota.remaining(this.#clock());
  }

  /** Whether calls wait for permits, as far as this process knows. */
  get takesPermits(): boolean {
    return needsPermits(this.#shared.pace, this.parts.limits);
  }

  /** What the fleet may do in a minute, as far as this process knows; null while nothing bounds its calls but the concurrency. */
  get quota(): Quota | null {
    return quotaOf(this.#shared.pace, this.parts.limits);
  }

  /**
   * Waits until a call may be made.
   * @param tokens what it is reckoned to take
   */
  admit(tokens: number): Admission | Promise<Admission> {
    if (this.#closed) return 'closed';
    this.#began ??= this.#begin();
    if (this.#ready && this.#shared.age <= FRESH_MS) return this.#admit(tokens);
    const looked = this.#ready ? this.#look() : this.#began;
    return looked.then(() => this.#admit(tokens));
  }

  /** By what is known. */
  #admit(tokens: number): Admission | Promise<Admission> {
    if (this.#closed) return 'closed';
    if (this.#pauseMs > 0) return 'pause';
    if (this.takesPermits) return this.#permit(tokens);
    // Owed, in case the service tells a quota of tokens in its answer.
    this.#usage.took(tokens);
    const permit = this.#clock();
    this.#usage.made(permit);
    return { permit };
  }

  async #permit(tokens: number): Promise<Admission> {
    const admission = await this.#permits.wait(tokens);
    if (typeof admission !== 'string') this.#usage.made(this.#clock());
    return admission;
  }

  /** Waits until a call whose permit has come may be made: at once, unless a call of a window before was late. */
  space(permit: number): Promise<void> | undefined {
    if (!this.takesPermits) return undefined;
    const now = this.#clock();
    const at = this.#spacing.at(permit, now);
    return at > now ? new Promise((resolve) => setTimeout(resolve, at - now)) : undefined;
  }

  /** A call that might have been made is not made after all. */
  withdrawn(tokens: number): void {
    this.#usage.took(-tokens);
    this.#usage.notMade();
  }

  /**
   * A call was admitted by the service, whatever it answered.
   * @param tokens what it took beyond what was reserved for it; negative when it took less
   * @param advertised what the service said of its quota
   */
  answered(tokens: number, advertised: PaceLimits): void {
    this.#quota.admitted();
    this.#usage.took(tokens);
    if (this.#usage.said(advertised)) void this.#reportQuota();
    if (this.#start.answered(this.#clock())) this.#concurrencyGrew();
  }

  /**
   * A call failed for another reason than the quota.
   * @param connected whether it came as far as the service
   */
  async failed(connected: boolean): Promise<void> {
    if (connected) this.#quota.admitted();
    const local = this.#clock();
    this.#start.failed(local);
    if (local - this.#heldAt < HOLD_MS / 2 || this.#shared.pace.estimate === null) return;
    this.#heldAt = local;
    await this.#shared.change((pace, now) => ({ pace: hold(pace, HOLD_MS, now), result: null }));
    this.#changes.tell('held', this.#shared.pace);
  }

  /** Calls that this process has at once, as far as the limit lets it. */
  get atOnce(): number {
    return Math.min(this.#start.limit, this.parts.underWay());
  }

  /** End of the last pause that this process knows of. */
  get pausedUntil(): number {
    return this.#start.pausedUntil;
  }

  /**
   * The calls at once are too many for the server.
   * @param most how many are not
   * @param startedAt of the call that shows it
   * @param firstMs time after which one more is tried. @default a minute
   * @returns false where no more are made anyway
   */
  lower(most: number, startedAt: number, firstMs?: number): boolean {
    if (most >= this.atOnce || !this.#start.lower(most, startedAt, this.#clock(), firstMs)) return false;
    this.parts.onConcurrency(this.#start.limit);
    return true;
  }

  /** They were not. */
  raise(most: number): void {
    this.#start.raise(most, this.#clock());
  }

  /** An answer came so late that more calls at once would not be answered in time. */
  late(): void {
    this.#start.late(this.#clock());
  }

  /**
   * A call was refused for lack of quota.
   * @param hint milliseconds that the service asks to wait; null when it does not say
   * @param startedAt when it was made, by the clock of this process
   * @param tokens what was reserved for it: a refused call takes nothing
   * @returns false when that happened too often with no call admitted meanwhile
   */
  async refused(hint: number | null, startedAt: number, tokens: number): Promise<boolean> {
    const wait = this.#quota.refused(hint, startedAt, this.#clock());
    if (wait === null) return false;
    this.withdrawn(tokens);
    const call = { startedAt: startedAt + this.#shared.offset, wait };
    const report = this.#usage.take(this.#shared.offset, this.#clock());
    const cut = await this.#shared.change((before, now) => {
      const pace = refuse(before, call, report, this.parts.limits, now);
      return { pace, result: pace.estimate !== null && pace.estimate.at !== before.estimate?.at };
    });
    if (cut) this.#changes.tell('refused', this.#shared.pace);
    await this.#joinPause();
    return true;
  }

  /** Nobody of the fleet may call for so long: the service is down. */
  async pause(ms: number): Promise<void> {
    this.#quota.joined(ms, this.#clock());
    await this.#shared.change((before, now) => ({ pace: pause(before, ms, now), result: null }));
    await this.#joinPause();
  }

  /** Lets nobody through any more. */
  close(): void {
    this.#closed = true;
    // The store may be away for long.
    this.#endLook();
    clearInterval(this.#looking ?? undefined);
    this.#permits.close();
  }

  async #begin(): Promise<void> {
    this.#grownAt = this.#clock();
    await this.#look();
    this.#ready = true;
    if (this.#closed) return;
    this.#looking = setInterval(() => this.#pulse(), LOOK_MS);
    this.#looking.unref();
  }

  /** Others may have been refused, and told to wait. One question at a time, for all who want to know. */
  #look(): Promise<void> {
    this.#asked ??= new Promise((resolve) => {
      this.#endLook = resolve;
      void this.#shared.look().then(() => {
        this.#asked = null;
        void this.#joinPause();
        resolve();
      });
    });
    return this.#asked;
  }

  #pulse(): void {
    const local = this.#clock();
    if (this.parts.underWay() >= this.#start.limit && local - this.#grownAt >= ADMITTED_MS) {
      this.#grownAt = local;
      if (this.#start.waited(local)) this.#concurrencyGrew();
    }
    this.#usage.fade(local);
    void this.#look();
  }

  /** Takes permits for calls of this process. */
  async #take(tokens: readonly number[]): Promise<Given> {
    const report = this.#usage.take(this.#shared.offset, this.#clock());
    const { limits } = this.parts;
    const { waits, again, asked } = await this.#shared.change((before, now) => {
      const permits = takePermits(applyReport(before, report, limits, now), tokens, limits, now);
      return { pace: permits.pace, result: { ...permits, asked: this.#clock() } };
    });
    this.#changes.look(this.#shared.pace);
    const passed = this.#clock() - asked;
    void this.#joinPause();
    return { waits: waits.map((ms) => ms - passed), again, paused: this.#pauseMs > 0 };
  }

  /** At once, because it may be long until somebody takes a permit. */
  async #reportQuota(): Promise<void> {
    await this.#report();
    this.#changes.tell('told', this.#shared.pace);
  }

  #report(): Promise<void> {
    const report = this.#usage.take(this.#shared.offset, this.#clock());
    return this.#shared.change((before, now) => ({
      pace: applyReport(before, report, this.parts.limits, now),
      result: undefined,
    }));
  }

  /** Milliseconds that nobody may call. */
  get #pauseMs(): number {
    return Math.max(0, this.#shared.pace.waitUntil - this.#shared.now);
  }

  /** All workers tell what they know when a pause begins, because the quota is taken from what was admitted until then. */
  async #joinPause(): Promise<void> {
    const ms = this.#pauseMs;
    if (ms === 0) return;
    this.#quota.joined(ms, this.#clock());
    this.#start.paused(this.#clock() + ms);
    const { waitUntil } = this.#shared.pace;
    if (waitUntil <= this.#joined + SAME_MS) return;
    this.#joined = waitUntil;
    if (!this.takesPermits && this.#start.again()) {
      this.parts.onConcurrency(this.#start.limit);
      this.#changes.tell('pause', this.#shared.pace);
    }
    if (this.#usage.hasCalls) await this.#report();
    await this.parts.onPause(ms);
  }

  #concurrencyGrew(): void {
    const { limit } = this.#start;
    this.parts.onConcurrency(limit);
    // Each doubling is told, and the ceiling.
    if (Math.log2(limit) % 1 === 0 || limit === this.parts.ceiling) {
      this.#changes.tell('slow_start', this.#shared.pace);
    }
  }
}
