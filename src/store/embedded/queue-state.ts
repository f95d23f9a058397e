import type { JobJson, JobsOptions } from 'bullmq';
import { steadyNow } from '../../core/clock.js';

/** State of an entry. BullMQ calls a waiting one with a priority `prioritized`. */
export type State = 'waiting' | 'active' | 'delayed' | 'completed' | 'failed';

export interface Entry {
  readonly id: string;
  readonly json: JobJson;
  state: State;
  /** Sorts its state: a priority while waiting, a time in ms while delayed or finished. */
  rank: number;
  /** Sorts entries of the same rank; unique within a queue. */
  order: number;
  /** The worker that holds it, until a time in ms of the steady clock; null for nobody. */
  lock: { readonly token: string; readonly until: number } | null;
  /** It was active at the last look for stalled entries. */
  isMarked: boolean;
}

/** A job scheduler of BullMQ: makes one entry per due time, the next as soon as a worker took the last. */
export interface JobScheduler {
  readonly name: string;
  /** Time of the last entry made, in ms since 1970. */
  readonly next: number;
  readonly pattern: string;
  readonly tz: string | null;
  readonly iterations: number;
  /** JSON. */
  readonly data: string;
  readonly opts: JobsOptions;
}

/** Clocks of a queue, in ms: due times use the system's clock, durations the steady one. */
export interface Clock {
  now(): number;
  steady(): number;
}

const CLOCK: Clock = { now: () => Date.now(), steady: steadyNow };

/** After the system's clock was set, an entry that is due is found at most this much later, in ms. */
const LOOK_MS = 5_000;

/** Hands out waiting entries by priority, then in the order added; one put back is first in its priority. */
export class QueueState {
  readonly #entries = new Map<string, Entry>();
  readonly #states: Readonly<Record<State, Sorted>> = {
    ...{ waiting: new Sorted(), active: new Sorted(), delayed: new Sorted() },
    ...{ completed: new Sorted(), failed: new Sorted() },
  };
  /** By id. */
  readonly schedulers = new Map<string, JobScheduler>();
  #last = 0;
  #first = 0;
  #isPaused = false;
  /** Entries taken since the limiter began, and when it ends; null while it does not count. */
  #limit: { taken: number; readonly until: number } | null = null;
  #stalledCheckAt = Number.NEGATIVE_INFINITY;
  readonly #waiters = new Set<() => void>();
  #timer: NodeJS.Timeout | null = null;

  constructor(readonly clock: Clock = CLOCK) {}

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  get entries(): Iterable<Entry> {
    return this.#entries.values();
  }

  list(state: State): readonly Entry[] {
    return this.#states[state].items;
  }

  /** Adds an entry whose id is new. @param due when to hand it out, by the system's clock */
  add(json: JobJson, due: number, isFirst = false): Entry {
    const entry: Entry = {
      ...{ id: json.id, json, state: 'waiting', rank: 0, order: 0, lock: null, isMarked: false },
    };
    this.#entries.set(json.id, entry);
    if (due > this.clock.now()) this.#put(entry, 'delayed', due);
    else this.#put(entry, 'waiting', json.priority ?? 0, isFirst);
    return entry;
  }

  /** Moves an entry and drops its lock. */
  move(entry: Entry, state: Exclude<State, 'waiting'>, rank: number): void {
    this.#leave(entry);
    this.#put(entry, state, rank);
  }

  /** Behind or before the others of its priority. */
  wait(entry: Entry, place: 'first' | 'last'): void {
    this.#leave(entry);
    this.#put(entry, 'waiting', entry.json.priority ?? 0, place === 'first');
  }

  /** @param lock null when nobody holds it */
  take(entry: Entry, lock: Entry['lock']): void {
    this.move(entry, 'active', 0);
    entry.lock = lock;
  }

  remove(entry: Entry): void {
    this.#leave(entry);
    this.#entries.delete(entry.id);
  }

  promoteDue(): void {
    const now = this.clock.now();
    for (let next = this.nextDelayed; next !== undefined && next.rank <= now; next = this.nextDelayed) {
      next.json.delay = 0;
      this.wait(next, 'last');
    }
  }

  get nextDelayed(): Entry | undefined {
    return this.#states.delayed.items[0];
  }

  isHeld({ lock }: Entry): boolean {
    return lock !== null && lock.until > this.clock.steady();
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#wake();
  }

  /** Milliseconds until entries may be taken again, 0 when they may. @param max entries per limiter period */
  limitedMs(max: number): number {
    return this.limitMs > 0 && this.#limit !== null && this.#limit.taken >= max ? this.limitMs : 0;
  }

  /** Milliseconds until the limiter period ends; 0 while it does not count. */
  get limitMs(): number {
    return this.#limit === null ? 0 : Math.max(0, Math.ceil(this.#limit.until - this.clock.steady()));
  }

  /** Stops workers that have a limiter from taking entries. */
  limit(ms: number): void {
    this.#limit = { taken: Number.MAX_SAFE_INTEGER, until: this.clock.steady() + ms };
  }

  /** @returns whether there was a limit */
  unlimit(): boolean {
    const wasLimited = this.limitMs > 0;
    this.#limit = null;
    return wasLimited;
  }

  countTaken(durationMs: number): void {
    if (this.#limit === null || this.limitMs === 0) {
      this.#limit = { taken: 0, until: this.clock.steady() + durationMs };
    }
    this.#limit.taken++;
  }

  /** Puts back entries whose lock has ended, once they were active at two looks, `everyMs` apart. */
  takeStalled(everyMs: number): readonly Entry[] {
    const now = this.clock.steady();
    if (now < this.#stalledCheckAt) return [];
    this.#stalledCheckAt = now + everyMs;
    const stalled = this.list('active').filter((entry) => entry.isMarked && !this.isHeld(entry));
    for (const entry of stalled.toReversed()) this.wait(entry, 'first');
    for (const entry of this.list('active')) entry.isMarked = true;
    return stalled;
  }

  /** Calls back once there may be something to take. */
  whenReady(waiter: () => void): void {
    this.#waiters.add(waiter);
    this.#wake();
  }

  release(waiter: () => void): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size === 0) this.#disarm();
    waiter();
  }

  close(): void {
    for (const waiter of this.#waiters) this.release(waiter);
  }

  #leave(entry: Entry): void {
    this.#states[entry.state].delete(entry);
    entry.lock = null;
    entry.isMarked = false;
  }

  #put(entry: Entry, state: State, rank: number, isFirst = false): void {
    Object.assign(entry, { state, rank, order: isFirst ? --this.#first : ++this.#last });
    this.#states[state].add(entry);
    if (state === 'waiting' || state === 'delayed') this.#wake();
  }

  #wake(): void {
    if (this.#waiters.size === 0 || this.#isPaused) return;
    const dueMs = this.#dueMs();
    if (dueMs <= 0) {
      this.close();
      return;
    }
    this.#disarm();
    if (dueMs < Number.POSITIVE_INFINITY) {
      this.#timer = setTimeout(() => this.#wake(), Math.min(dueMs, LOOK_MS));
    }
  }

  #dueMs(): number {
    if (this.#states.waiting.items.length > 0) return 0;
    return (this.nextDelayed?.rank ?? Number.POSITIVE_INFINITY) - this.clock.now();
  }

  #disarm(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
  }
}

/** A list of entries in order. Most are added at the end and taken at the front. */
class Sorted {
  readonly items: Entry[] = [];

  add(entry: Entry): void {
    this.items.splice(this.#placeOf(entry), 0, entry);
  }

  delete(entry: Entry): void {
    const place = this.#placeOf(entry);
    if (place === 0) this.items.shift();
    else this.items.splice(place, 1);
  }

  /** Index of the entry, or where it belongs. */
  #placeOf(entry: Entry): number {
    let low = 0;
    let high = this.items.length;
    const last = this.items.at(-1);
    if (last === undefined || isBefore(last, entry)) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.items[middle];
      if (other !== undefined && isBefore(other, entry)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const isBefore = (a: Entry, b: Entry): boolean => a.rank < b.rank || (a.rank === b.rank && a.order < b.order);
