import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { minus, NO_TOKENS, type Tokens } from '../budget/budget.js';
import type { Counters } from '../model.js';
import { NO_CALLS } from '../store/counters.js';
import type { Announced, Entry, Ledger, Settled } from '../store/ledger.js';

/**
 * Outcomes that arrive within this time, in milliseconds, share one write to the ledger; so do those that arrive
 * while the write before is under way. A crash makes no more than these unknown.
 */
const BATCH_MS = 5;
/** Pause before a write that the store refused is tried again. */
const AGAIN_MS = 500;
/** Refusals in a row between two warnings: one a minute. */
const WARN_EVERY = 120;

/** What a process has done for a run, by its own count: a store that comes back empty cannot lose it. */
export interface Totals extends Counters {
  /** Outcomes handed to the ledger. */
  readonly outcomes: number;
}

/** One request, as the ledger knows it: the call of a visit for rows of its chunk. */
export type Request = Omit<Announced, 'row'> & { readonly rows: readonly number[] };

interface Contents {
  readonly entries: Entry[];
  readonly calls: Map<string, Partial<Record<keyof Counters, number>>>;
  readonly announced: Announced[];
  readonly settled: Settled[];
}

interface Batch extends Contents {
  /** Resolves when the batch is in the ledger, to the announced rows that may be called. */
  readonly recorded: Promise<ReadonlySet<Announced>>;
}

/** Writes outcomes to the ledger as they come, in small batches. What is added is never given up. */
export class Recorder {
  #open: Batch | null = null;
  #outcomes = 0;
  #unrecorded = 0;
  readonly #totals = new Map<string, { -readonly [name in keyof Totals]: number }>();
  /** Ends when the last write is in the ledger. One at a time, so that batches grow with the load. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly ledger: Ledger,
    private readonly log: Logger,
  ) {}

  /** @returns a promise that resolves when the outcome is in the ledger; it never rejects */
  async add(entry: Entry): Promise<void> {
    const batch = this.#batch();
    batch.entries.push(entry);
    this.#totalsOf(entry.run).outcomes++;
    this.#outcomes++;
    this.#unrecorded++;
    await batch.recorded;
  }

  /**
   * Tells the ledger that rows are about to be called in one request. Once it knows, a process that is killed
   * cannot hide that they may have been paid for.
   * @param reserved the most that the request can be billed, where the run has a budget
   * @returns a promise that resolves when the ledger knows, to the rows that may be called; it never rejects. The others
   *   are to be taken back as well
   */
  async announce({ rows, ...call }: Request, reserved: Tokens): Promise<ReadonlySet<number>> {
    const batch = this.#batch();
    const announced = rows.map((row) => ({ ...call, row }));
    batch.announced.push(...announced);
    this.count(call.run, 'sent');
    this.#reserve(call.run, rows.length, reserved);
    const granted = await batch.recorded;
    return new Set(announced.filter((each) => granted.has(each)).map(({ row }) => row));
  }

  /** Takes rows back that were announced and are not called; with the last of a request the request itself. */
  retract(request: Request, reserved: Tokens, isWhole: boolean): void {
    if (isWhole) this.count(request.run, 'sent', -1);
    this.settle(request, reserved, NO_TOKENS);
  }

  /** The rows of a request are in flight no longer: what they were billed takes the place of what was reserved. */
  settle({ run, rows, call }: Request, reserved: Tokens, billed: Tokens): void {
    this.#batch().settled.push(...rows.map((row) => ({ run, row, call })));
    this.#reserve(run, -rows.length, minus(billed, reserved));
  }

  #reserve(run: string, rows: number, { prompt_tokens, completion_tokens }: Tokens): void {
    // The ledger counts those in flight by their names.
    this.#totalsOf(run).in_flight += rows;
    if (prompt_tokens !== 0) this.count(run, 'prompt_tokens', prompt_tokens);
    if (completion_tokens !== 0) this.count(run, 'completion_tokens', completion_tokens);
  }

  /** Adds to a run's counters, with the next batch. */
  count(run: string, name: keyof Counters, by = 1): void {
    const { calls } = this.#batch();
    const counts = calls.get(run) ?? {};
    counts[name] = (counts[name] ?? 0) + by;
    calls.set(run, counts);
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
    const totals = this.#totals.get(run) ?? { ...NO_CALLS, outcomes: 0 };
    this.#totals.set(run, totals);
    return totals;
  }

  /** Resolves when all that was added is in the ledger. */
  async flushed(): Promise<void> {
    await this.#last;
  }

  #batch(): Batch {
    if (this.#open === null) {
      const contents: Contents = { entries: [], calls: new Map(), announced: [], settled: [] };
      const recorded = this.#write(contents, this.#last);
      this.#last = recorded;
      this.#open = { ...contents, recorded };
    }
    return this.#open;
  }

  async #write(contents: Contents, last: Promise<unknown>): Promise<ReadonlySet<Announced>> {
    const { entries, calls, announced, settled } = contents;
    await sleep(BATCH_MS);
    await last;
    this.#open = null;
    for (let refusals = 0; ; refusals++) {
      try {
        const granted = await this.ledger.record(entries, calls, { announced, settled });
        this.#unrecorded -= entries.length;
        return new Set(announced.filter((_, i) => granted[i]));
      } catch (error) {
        const why = {
          reason: error instanceof Error ? error.message : String(error),
          outcomes: entries.length,
        };
        if (refusals % WARN_EVERY === 0)
          this.log.warn(why, 'the ledger refuses outcomes; trying again until it takes them');
        await sleep(AGAIN_MS);
      }
    }
  }
}
