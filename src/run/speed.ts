import { type RateWindow, rateOf, sampled } from '../account/rate.js';
import { rowsCalled, type Tally } from '../account/tally.js';
import type { Settings } from '../config/settings.js';
import type { Quota } from '../pace/shared-pace.js';
import type { Window } from './window.js';

/** How fast a run calls its rows. Rows without a call (skipped, copied, carried over) are not counted. */
export interface Speed {
  /** Rows that needed a call and got an outcome, in this execution. */
  readonly called: number;
  /** Rows a second over the last half minute; null while there is nothing to measure. */
  readonly perSecond: number | null;
  /** Seconds until all rows to call have outcomes; null while unknown. */
  readonly secondsLeft: number | null;
}

/** What is left to call, and the most rows a second so far that the quota allows; null before any. */
interface Ahead {
  readonly toCall: number;
  readonly perSecond: number | null;
}

export class SpeedGauge {
  #called = 0;
  #toCall = 0;
  #window: RateWindow;
  #ahead: Ahead = { toCall: 0, perSecond: null };

  /** @param kept outcomes that the store had before this execution called anything */
  constructor(
    private readonly total: number,
    private readonly limits: Pick<Settings['limits'], 'promptsPerRequest'>,
    private readonly kept: number,
    now: number,
  ) {
    this.#window = sampled([], { at: now, done: 0 });
  }

  looked({ called, toCall }: { readonly called: number; readonly toCall: number }): void {
    this.#called = Math.max(0, called - this.kept);
    this.#toCall = toCall;
  }

  at(
    now: number,
    window: Pick<Window, 'rows' | 'sent'>,
    tally: Pick<Tally, 'rows' | 'reused' | 'usage'>,
    quota: Quota | null,
  ): Speed {
    this.#window = sampled(this.#window, { at: now, done: this.#called });
    const perSecond = rateOf(this.#window);
    // Assumes that unread rows need calls as often as rows in the window: files are often sorted by content.
    const share = window.rows === 0 ? 1 : window.sent / window.rows;
    const unread = Math.max(0, this.total - tally.rows.total - window.rows);
    const toCall = this.#toCall + unread * share;
    const most = this.#mostPerSecond(tally, quota);
    const rate = Math.min(perSecond ?? 0, most);
    // A lack of capacity may have slowed the last half minute.
    const best = Math.min(most, Math.max(this.#ahead.perSecond ?? 0, rate));
    this.#ahead = { toCall, perSecond: best === 0 ? null : best };
    const secondsLeft = rate === 0 || toCall === 0 ? null : toCall / rate;
    return { called: this.#called, perSecond, secondsLeft };
  }

  get ahead(): Ahead {
    return this.#ahead;
  }

  /** The limit of the quota, in rows a second; calls may be faster for a while. */
  #mostPerSecond(tally: Pick<Tally, 'rows' | 'reused' | 'usage'>, quota: Quota | null): number {
    const called = rowsCalled(tally);
    const tokens = called === 0 ? 0 : tally.usage.total_tokens / called;
    const byCalls = (quota?.perMinute ?? Number.POSITIVE_INFINITY) * this.limits.promptsPerRequest;
    const byTokens =
      tokens === 0 ? Number.POSITIVE_INFINITY : (quota?.tokensPerMinute ?? Number.POSITIVE_INFINITY) / tokens;
    return Math.min(byCalls, byTokens) / 60;
  }
}
