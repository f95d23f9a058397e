import { PaceCell, type PaceValues } from './pace-cell.js';
import { Pause } from './pauses.js';
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

/** Interval of reading the shared pace while no call is made, in ms. */
const LOOK_MS = 500;
/** No call is made on an older copy, in ms: others may have been told to wait. */
const FRESH_MS = 20;
/** Refusals of one wave follow each other within this time, in ms, each with its own hint. */
const SAME_MS = 50;
/** Time without growth after a failed call, in ms. */
const HOLD_MS = 5_000;
/** Time without a refusal after which the calls in flight count as admitted, in ms. */
const ADMITTED_MS = 1_000;

export interface PacerParts {
  readonly values: PaceValues;
  readonly queue: string;
  /** The quota in the job. */
  readonly limits: PaceLimits;
  readonly ceiling: number;
  /** Most calls at once before the first are answered. */
  readonly untilAnswered: number;
  /** Calls of this process in flight. */
  readonly underWay: () => number;
  readonly onConcurrency: (limit: number) => void;
  /** Holds the queue back for this process; called once per pause. */
  readonly onPause: (ms: number) => Promise<void>;
  readonly onChange: (change: PaceChange) => void;
  /** The store refused; this process goes on with its copy. */
  readonly onStoreError: (error: unknown) => void;
  /** Milliseconds since 1970. @default Date.now */
  readonly clock?: () => number;
  /** In [0, 1). @default Math.random */
  readonly random?: () => number;
}

/**
 * Decides when this process calls: by slow start while no quota is known, and by permits from the queue's
 * shared pace once there is one, configured, advertised, or estimated from refusals.
 */
export class Pacer {
  readonly #shared: PaceCell;
  readonly #start: SlowStart;
  readonly #permits: Permits;
  readonly #changes: PaceChanges;
  readonly #spacing = new Spacing();
  readonly #pause = new Pause();
  readonly #clock: () => number;
  #looking: NodeJS.Timeout | null = null;
  #asked: Promise<void> | null = null;
  #grownAt: number;
  #began: Promise<void> | null = null;
  #ready = false;
  #closed = false;
  #endLook = (): void => {};
  readonly #usage = new UsageReporter();
  #heldAt = Number.NEGATIVE_INFINITY;
  #joined = 0;

  constructor(private readonly parts: PacerParts) {
    this.#clock = parts.clock ?? Date.now;
    this.#grownAt = this.#clock();
    this.#start = new SlowStart(parts.ceiling, parts.untilAnswered);
    this.#shared = new PaceCell(parts.values, parts.queue, this.#clock, parts.onStoreError);
    this.#permits = new Permits((tokens) => this.#take(tokens), parts.random ?? Math.random, this.#clock);
    this.#changes = new PaceChanges(parts.limits, () => this.#start.limit, parts.onChange);
  }

  get concurrency(): number {
    return this.#start.limit;
  }

  /** How long nobody may call, in ms: the service asked to wait, or is down. 0 when calls may be made. */
  get waitingMs(): number {
    return this.#pause.remaining(this.#clock());
  }

  get takesPermits(): boolean {
    return needsPermits(this.#shared.pace, this.parts.limits);
  }

  /** The fleet's quota per minute as known here; null when only the concurrency limits calls. */
  get quota(): Quota | null {
    return quotaOf(this.#shared.pace, this.parts.limits);
  }

  admit(tokens: number): Admission | Promise<Admission> {
    if (this.#closed) return 'closed';
    this.#began ??= this.#begin();
    if (this.#ready && this.#shared.age <= FRESH_MS) return this.#admit(tokens);
    const looked = this.#ready ? this.#look() : this.#began;
    return looked.then(() => this.#admit(tokens));
  }

  #admit(tokens: number): Admission | Promise<Admission> {
    if (this.#closed) return 'closed';
    if (this.#pauseMs > 0) return 'pause';
    if (this.takesPermits) return this.#permit(tokens);
    // Counted now in case this response reveals a token quota.
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

  /** Delays a call whose permit has come only if an earlier call was late. */
  space(permit: number): Promise<void> | undefined {
    if (!this.takesPermits) return undefined;
    const now = this.#clock();
    const at = this.#spacing.at(permit, now);
    return at > now ? new Promise((resolve) => setTimeout(resolve, at - now)) : undefined;
  }

  withdrawn(tokens: number): void {
    this.#usage.took(-tokens);
    this.#usage.notMade();
  }

  /**
   * The service admitted a call, whatever it answered.
   * @param tokens taken beyond the reservation; negative when less
   * @param advertised the quota in the response
   */
  answered(startedAt: number, tokens: number, advertised: PaceLimits): void {
    this.#pause.admitted();
    this.#usage.took(tokens);
    if (this.#usage.said(advertised)) void this.#reportQuota();
    const now = this.#clock();
    const before = this.concurrency;
    if (this.#start.answered(now - startedAt, this.parts.underWay(), now)) this.#concurrencyChanged(before);
  }

  /** A call failed for another reason than the quota. `connected`: it reached the service. */
  async failed(connected: boolean): Promise<void> {
    if (connected) this.#pause.admitted();
    const local = this.#clock();
    this.#start.failed(local);
    if (local - this.#heldAt < HOLD_MS / 2 || this.#shared.pace.found === null) return;
    this.#heldAt = local;
    await this.#shared.change((pace, now) => ({ pace: hold(pace, HOLD_MS, now), result: null }));
    this.#changes.tell('held', this.#shared.pace);
  }

  get atOnce(): number {
    return Math.min(this.#start.limit, this.parts.underWay());
  }

  get pausedUntil(): number {
    return this.#start.pausedUntil;
  }

  /**
   * Too many calls at once for the server.
   * @param most how many are not
   * @param firstMs time until one more is tried. @default a minute
   * @returns false when no more are made anyway
   */
  lower(most: number, startedAt: number, firstMs?: number): boolean {
    if (most >= this.atOnce || !this.#start.lower(most, startedAt, this.#clock(), firstMs)) return false;
    this.parts.onConcurrency(this.#start.limit);
    return true;
  }

  /** They were not too many. */
  raise(most: number): void {
    this.#start.raise(most, this.#clock());
  }

  /** An answer came so late that more calls would time out. */
  late(): void {
    this.#start.late(this.#clock());
  }

  /**
   * @param hint milliseconds the service asks to wait, or null
   * @param tokens reserved for the call: a refused one takes none
   * @returns false after too many refusals without an admitted call
   */
  async refused(hint: number | null, startedAt: number, tokens: number): Promise<boolean> {
    const wait = this.#pause.refused(hint, startedAt, this.#clock());
    if (wait === null) return false;
    this.withdrawn(tokens);
    const call = { startedAt: startedAt + this.#shared.offset, wait };
    const report = this.#usage.take(this.#shared.offset, this.#clock());
    const cut = await this.#shared.change((before, now) => {
      const pace = refuse(before, call, report, this.parts.limits, now);
      return { pace, result: pace.found !== null && pace.found.at !== before.found?.at };
    });
    if (cut) this.#changes.tell('refused', this.#shared.pace);
    await this.#joinPause();
    return true;
  }

  /** Stops the whole fleet: the service is down. */
  async pause(ms: number): Promise<void> {
    this.#pause.joined(ms, this.#clock());
    await this.#shared.change((before, now) => ({ pace: pause(before, ms, now), result: null }));
    await this.#joinPause();
  }

  close(): void {
    this.#closed = true;
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

  /** Others may have been told to wait. One read at a time, shared by all callers. */
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
      const before = this.concurrency;
      if (this.#start.waited(local)) this.#concurrencyChanged(before);
    }
    this.#usage.fade(local);
    void this.#look();
  }

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

  /** At once: the next permit may be far off. */
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

  get #pauseMs(): number {
    return Math.max(0, this.#shared.pace.waitUntil - this.#shared.now);
  }

  /** In a pause all workers report: the quota is computed from the calls admitted until then. */
  async #joinPause(): Promise<void> {
    const ms = this.#pauseMs;
    if (ms === 0) return;
    this.#pause.joined(ms, this.#clock());
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

  #concurrencyChanged(before: number): void {
    const { limit } = this.#start;
    this.parts.onConcurrency(limit);
    if (limit < before) this.#changes.tell('no_gain', this.#shared.pace);
    // Logs each doubling, and the ceiling.
    else if (Math.log2(limit) % 1 === 0 || limit === this.parts.ceiling)
      this.#changes.tell('slow_start', this.#shared.pace);
  }
}
