import { setImmediate as endOfTick, setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { steadyNow } from '../core/clock.js';
import { type Counters, type Counts, NO_CALLS } from '../core/counters.js';
import { errorText } from '../core/errors.js';
import type { Tokens } from '../core/model.js';
import { minus, NO_TOKENS, plus } from '../pace/budget.js';
import {
  type Answer,
  type Ledger,
  NO_ANSWER,
  type Reservation,
  type RowState,
  type Settlement,
} from '../store/ledger.js';

/** Pause between two writes while no call waits, in ms: outcomes of several calls share a write. */
const REST_MS = 10;
/** Pause before a refused write is tried again, in ms. */
const AGAIN_MS = 500;
const WARN_EVERY = 120;

/** What this process did for a run, by its own count: it survives a store that comes back empty. */
export interface Totals extends Counters {
  /** Outcomes handed to the ledger, including interim ones. */
  readonly answers: number;
}

interface Reply extends Answer {
  readonly reservation: Reservation;
  /** In steady time: the grant is as old as that. */
  readonly askedAt: number;
}

/** Takes a reservation made in advance, for the one call that uses it; null from the second time on. */
export type PrefetchedGrant = () => Promise<Reply> | null;

/**
 * Most calls reserved in advance: with this many grants at hand, no call waits for a store whose writes take a
 * tenth of a call's time. A crash makes them all unknown, so there are no more.
 */
export const mostPrefetched = (concurrency: number): number => Math.ceil(concurrency / 4);

interface PendingReservation {
  readonly reservation: Reservation;
  readonly reply: (reply: Reply) => void;
}

interface Batch {
  readonly settled: Settlement[];
  readonly counts: Map<string, { -readonly [name in keyof Counts]?: number }>;
  readonly asked: PendingReservation[];
  /** A call waits for this batch: write it as soon as the previous write ends. */
  readonly hurry: () => void;
  readonly hurried: Promise<void>;
  readonly written: Promise<void>;
}

/**
 * Settles calls and reserves the next ones, in small batches over all queues of the process. Writes are
 * sequential: once a call is granted, all that was settled before is in the ledger. Nothing is dropped.
 */
export class Batcher {
  #open: Batch | null = null;
  #outcomes = 0;
  #unrecorded = 0;
  /** Reserved calls that wait for a slot. */
  #prefetched = 0;
  readonly #totals = new Map<string, { -readonly [name in keyof Totals]: number }>();
  /** The last write. One at a time, so that batches grow with the load. */
  #last: Promise<void> = Promise.resolve();

  constructor(
    private readonly ledger: Ledger,
    private readonly log: Logger,
    /** The run of this process, and its counters before this process made any call. */
    private readonly begun?: { readonly run: string; readonly calls: Counters },
  ) {}

  /** Never rejects: a refused write is retried until it succeeds. */
  reserve(reservation: Reservation): Promise<Reply> {
    const batch = this.#batch();
    batch.hurry();
    return reserveIn(batch, reservation);
  }

  /**
   * Null when {@link mostPrefetched} calls wait already.
   * @param concurrency calls that may be made at once now
   * @param onTaken called when one more may be reserved
   */
  prefetch(reservation: Reservation, concurrency: number, onTaken: () => void): PrefetchedGrant | null {
    if (this.#prefetched >= mostPrefetched(concurrency)) return null;
    this.#prefetched++;
    const batch = this.#batch();
    let reply: Promise<Reply> | null = reserveIn(batch, reservation);
    return () => {
      const taken = reply;
      if (taken === null) return null;
      reply = null;
      batch.hurry();
      this.#prefetched--;
      onTaken();
      return taken;
    };
  }

  /**
   * Ends the calls of rows; `billed` replaces `reserved`.
   * @returns resolves when this and all that was settled before is in the ledger; never rejects
   */
  settle(
    run: string,
    settled: readonly Settlement[],
    reserved: Tokens = NO_TOKENS,
    billed: Tokens = NO_TOKENS,
  ): Promise<void> {
    const batch = this.#batch();
    const totals = this.#totalsOf(run);
    for (const each of settled) {
      batch.settled.push(each);
      if (each.call !== null) totals.in_flight--;
      if (each.outcome === null) continue;
      this.#unrecorded++;
      totals.answers++;
      if (!each.interim) this.#outcomes++;
    }
    const { prompt_tokens, completion_tokens } = minus(billed, reserved);
    if (prompt_tokens !== 0) this.count(run, 'prompt_tokens', prompt_tokens);
    if (completion_tokens !== 0) this.count(run, 'completion_tokens', completion_tokens);
    // The run has no call left whose outcome could share this write.
    if (totals.in_flight <= 0) batch.hurry();
    return batch.written;
  }

  /** Returns unused grants; resolves when that is in the ledger. */
  async giveBack(reply: Reply): Promise<void> {
    const { run, first, call, rows } = reply.reservation;
    const granted = rows.filter((_, i) => reply.rows[i] === 'granted');
    if (granted.length === 0) return;
    this.count(run, 'sent', -1);
    const settled = granted.map(({ row }) => ({ run, first, row, call, outcome: null }));
    await this.settle(run, settled, sumOf(granted));
  }

  count(run: string, name: keyof Counts, by = 1): void {
    const { counts } = this.#batch();
    const ofRun = counts.get(run) ?? {};
    ofRun[name] = (ofRun[name] ?? 0) + by;
    counts.set(run, ofRun);
    const totals = this.#totalsOf(run);
    totals[name] = (totals[name] ?? 0) + by;
  }

  get outcomes(): number {
    return this.#outcomes;
  }

  get unrecorded(): number {
    return this.#unrecorded;
  }

  totals(run: string): Totals {
    return { ...this.#totalsOf(run) };
  }

  #totalsOf(run: string): { -readonly [name in keyof Totals]: number } {
    let totals = this.#totals.get(run);
    if (totals === undefined) {
      totals = { ...NO_CALLS, answers: 0 };
      this.#totals.set(run, totals);
    }
    return totals;
  }

  async flushed(): Promise<void> {
    await this.#last;
  }

  #batch(): Batch {
    if (this.#open === null) {
      let hurry = (): void => {};
      const hurried = new Promise<void>((resolve) => {
        hurry = resolve;
      });
      const contents = { settled: [], counts: new Map(), asked: [], hurry, hurried };
      const written = this.#write(contents, this.#last);
      this.#last = written;
      this.#open = { ...contents, written };
    }
    return this.#open;
  }

  async #write(batch: Omit<Batch, 'written'>, last: Promise<void>): Promise<void> {
    await last;
    const rest = setTimeout(batch.hurry, REST_MS);
    await batch.hurried;
    clearTimeout(rest);
    // Let everything that the same event adds join this batch.
    await endOfTick();
    this.#open = null;
    const { settled, counts, asked } = batch;
    const reservations = asked.map(({ reservation }) => reservation);
    const atLeast = new Map(
      reservations.filter(({ bounds }) => bounds !== null).map(({ run }) => [run, this.#spent(run)]),
    );
    const outcomes = settled.filter(({ outcome }) => outcome !== null).length;
    for (let refusals = 0; ; refusals++) {
      const askedAt = steadyNow();
      try {
        const answers = await this.ledger.write({ settled, counts, reservations, atLeast });
        this.#unrecorded -= outcomes;
        for (const [i, { reservation, reply }] of asked.entries()) {
          const answer = answers[i] ?? NO_ANSWER;
          this.#countGranted(reservation, answer.rows);
          reply({ ...answer, reservation, askedAt });
        }
        return;
      } catch (error) {
        const why = { reason: errorText(error), outcomes };
        if (refusals % WARN_EVERY === 0)
          this.log.warn(why, 'the ledger refuses outcomes; trying again until it takes them');
        await sleep(AGAIN_MS);
      }
    }
  }

  /** Spent and reserved, as far as this process knows. */
  #spent(run: string): Tokens {
    const own = this.#totalsOf(run);
    return this.begun?.run === run ? plus(this.begun.calls, own) : plus(NO_TOKENS, own);
  }

  /** Local totals only: the ledger counts grants itself. */
  #countGranted({ run, rows, looks }: Reservation, states: readonly RowState[]): void {
    if (looks || !states.includes('granted')) return;
    const totals = this.#totalsOf(run);
    totals.sent++;
    for (const [i, { most }] of rows.entries()) {
      if (states[i] !== 'granted') continue;
      totals.in_flight++;
      totals.prompt_tokens += most.prompt_tokens;
      totals.completion_tokens += most.completion_tokens;
    }
  }
}

const reserveIn = (batch: Batch, reservation: Reservation): Promise<Reply> =>
  new Promise((reply) => batch.asked.push({ reservation, reply }));

export const sumOf = (rows: readonly { readonly most: Tokens }[]): Tokens =>
  rows.reduce((sum, { most }) => plus(sum, most), NO_TOKENS);
