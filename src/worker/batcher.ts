import { setImmediate as endOfTick, setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { minus, NO_TOKENS, plus } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import { errorText } from '../errors.js';
import type { Tokens } from '../model.js';
import { NO_ANSWER } from '../store/batch.js';
import { type Counters, type Counts, NO_CALLS } from '../store/counters.js';
import type { Answer, Ledger, Reservation, RowState, Settlement } from '../store/ledger.js';

/** Pause between two writes while no call waits for one, in milliseconds: so the outcomes of several calls share a write. */
const REST_MS = 10;
/** Pause before a write that the store refused is tried again. */
const AGAIN_MS = 500;
/** Refusals in a row between two warnings: one a minute. */
const WARN_EVERY = 120;

/** What a process has done for a run, by its own count: a store that comes back empty cannot lose it. */
export interface Totals extends Counters {
  /** Outcomes handed to the ledger, interim ones too. */
  readonly answers: number;
}

/** What the ledger said to a reservation, and when it was asked, by the steady clock: the grant is as old as that. */
interface Reply extends Answer {
  readonly askedAt: number;
}

/** A reservation for a call that has no slot yet. */
export interface Ahead {
  readonly reservation: Reservation;
  /** What the ledger says to it, for the one call that is to use it: null from the second time on. */
  readonly take: () => Promise<Reply> | null;
}

/**
 * Calls that a process reserves ahead, at most: as long as it knows the grants of so many, no call waits for a store that
 * takes a tenth of the time of a call for a write. All of them are unknown after a crash, so they are no more than that
 * takes.
 * @param concurrency calls in flight at once
 */
export const mostAhead = (concurrency: number): number => Math.ceil(concurrency / 4);

/** A reservation, and whoever waits for the reply. */
interface Asked {
  readonly reservation: Reservation;
  readonly reply: (reply: Reply) => void;
}

interface Batch {
  readonly settled: Settlement[];
  readonly counts: Map<string, Partial<Record<keyof Counts, number>>>;
  readonly asked: Asked[];
  /** A call waits for it: it is written as soon as the write before has ended. */
  readonly hurry: () => void;
  /** Resolves when somebody is in a hurry. */
  readonly hurried: Promise<void>;
  /** Resolves when the batch is in the ledger. */
  readonly written: Promise<void>;
}

/**
 * Tells the ledger what came of calls and asks it for those that come next, in small batches over all queues of the
 * process. Batches follow each other, so whoever is granted a call after it has settled one knows that the ledger has
 * that one too. What is added is never given up.
 */
export class Batcher {
  #open: Batch | null = null;
  #outcomes = 0;
  #unrecorded = 0;
  /** Calls that are reserved and wait for a slot. */
  #ahead = 0;
  readonly #totals = new Map<string, { -readonly [name in keyof Totals]: number }>();
  /** Ends when the last write is in the ledger. One at a time, so that batches grow with the load. */
  #last: Promise<void> = Promise.resolve();

  constructor(
    private readonly ledger: Ledger,
    private readonly log: Logger,
    /** Calls in flight at once in this process. */
    private readonly concurrency: number,
    /** The run of this process, and its counters before this process called anything. */
    private readonly begun?: { readonly run: string; readonly calls: Counters },
  ) {}

  /** Asks which rows of a request may be called. Resolves when the ledger has answered, and never rejects. */
  reserve(reservation: Reservation): Promise<Reply> {
    const batch = this.#batch();
    batch.hurry();
    return reserveIn(batch, reservation);
  }

  /**
   * Reserves a call while it waits for its slot; null when there are as many of them as may be.
   * @param onTaken told when there may be one more
   */
  reserveAhead(reservation: Reservation, onTaken: () => void): Ahead | null {
    if (this.#ahead >= mostAhead(this.concurrency)) return null;
    this.#ahead++;
    const batch = this.#batch();
    let reply: Promise<Reply> | null = reserveIn(batch, reservation);
    const take = (): Promise<Reply> | null => {
      const taken = reply;
      if (taken === null) return null;
      reply = null;
      batch.hurry();
      this.#ahead--;
      onTaken();
      return taken;
    };
    return { reservation, take };
  }

  /**
   * What came of rows of a run. Those of a call are in flight no longer, and what it was billed takes the place of what
   * was reserved for it.
   * @returns a promise that resolves when it is in the ledger, and all that was settled before; it never rejects
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
    return batch.written;
  }

  /** Settles rows that were granted and are not called; resolves when that is in the ledger. */
  async giveBack({ run, first, call, rows }: Reservation, reply: Reply): Promise<void> {
    const granted = rows.filter((_, i) => reply.rows[i] === 'granted');
    if (granted.length === 0) return;
    this.count(run, 'sent', -1);
    const settled = granted.map(({ row }) => ({ run, first, row, call, outcome: null }));
    await this.settle(run, settled, sumOf(granted));
  }

  /** Adds to a run's counters, with the next batch. */
  count(run: string, name: keyof Counts, by = 1): void {
    const { counts } = this.#batch();
    const ofRun = counts.get(run) ?? {};
    ofRun[name] = (ofRun[name] ?? 0) + by;
    counts.set(run, ofRun);
    this.#totalsOf(run)[name] += by;
  }

  /** Outcomes handed to the ledger, of all runs. */
  get outcomes(): number {
    return this.#outcomes;
  }

  /** Outcomes that the ledger has not taken yet. */
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

  /** Resolves when all that was added is in the ledger. */
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
    // All that came with what woke this process goes with it.
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
          reply({ ...answer, askedAt });
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

  /** What is spent and reserved for a run, as far as this process knows. */
  #spent(run: string): Tokens {
    const own = this.#totalsOf(run);
    return this.begun?.run === run ? plus(this.begun.calls, own) : plus(NO_TOKENS, own);
  }

  /** The ledger has counted it already. */
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
