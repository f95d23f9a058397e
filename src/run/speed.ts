import { type RateWindow, rateOf, sampled } from '../account/rate.js';
import { rowsCalled, type Tally } from '../account/tally.js';
import type { Settings } from '../config/settings.js';
import type { Quota } from '../pace/shared-pace.js';
import type { Window } from './window.js';

/** How fast a run calls its rows. Rows that need no call (skipped, copied, carried over) count nowhere here. */
export interface Speed {
  /** Rows that needed a call and got their outcome, in this execution. */
  readonly called: number;
  /** The same a second, over the last half minute; null while there is nothing to measure. */
  readonly perSecond: number | null;
  /** Seconds until the rows that are to be called have their outcomes; null while it is not known. */
  readonly secondsLeft: number | null;
}

/** Measures how fast rows are called, and says how long those that are left take. The clock is the caller's. */
export class SpeedGauge {
  #called = 0;
  #toCall = 0;
  #window: RateWindow;

  /**
   * @param total rows of the run
   * @param kept outcomes that the store had before this execution called anything
   */
  constructor(
    private readonly total: number,
    private readonly limits: Pick<Settings['limits'], 'promptsPerRequest'>,
    private readonly kept: number,
    now: number,
  ) {
    this.#window = sampled([], { at: now, done: 0 });
  }

  /** The collector has looked. */
  looked({ called, toCall }: { readonly called: number; readonly toCall: number }): void {
    this.#called = Math.max(0, called - this.kept);
    this.#toCall = toCall;
  }

  /** @param tally of the rows that are written */
  at(
    now: number,
    window: Pick<Window, 'rows' | 'sent'>,
    tally: Pick<Tally, 'rows' | 'reused' | 'usage'>,
    quota: Quota | null,
  ): Speed {
    this.#window = sampled(this.#window, { at: now, done: this.#called });
    const perSecond = rateOf(this.#window);
    // Of rows that were not read yet as many need a call as of those in the window: files are often sorted by what is in them.
    const share = window.rows === 0 ? 1 : window.sent / window.rows;
    const unread = Math.max(0, this.total - tally.rows.total - window.rows);
    const toCall = this.#toCall + unread * share;
    const rate = Math.min(perSecond ?? 0, this.#mostPerSecond(tally, quota));
    const secondsLeft = rate === 0 || toCall === 0 ? null : toCall / rate;
    return { called: this.#called, perSecond, secondsLeft };
  }

  /** What the quota allows of the rows: for a while calls may be faster. */
  #mostPerSecond(tally: Pick<Tally, 'rows' | 'reused' | 'usage'>, quota: Quota | null): number {
    const called = rowsCalled(tally);
    const tokens = called === 0 ? 0 : tally.usage.total_tokens / called;
    const byCalls = (quota?.perMinute ?? Number.POSITIVE_INFINITY) * this.limits.promptsPerRequest;
    const byTokens =
      tokens === 0 ? Number.POSITIVE_INFINITY : (quota?.tokensPerMinute ?? Number.POSITIVE_INFINITY) / tokens;
    return Math.min(byCalls, byTokens) / 60;
  }
}
