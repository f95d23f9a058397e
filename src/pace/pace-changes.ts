import { allowedRate, type PaceLimits, type SharedPace } from './shared-pace.js';

/** A rate is told again when it has changed by this fraction. */
const TOLD_AGAIN = 0.15;

/** A change of what is allowed, for the log. */
export interface PaceChange {
  /**
   * `slow_start`: more calls at once. `told`: the service said what its quota is. `refused`: it refused, and the rate is
   * cut. `pause`: nobody may call for a while, and slow start begins again. `growth`: nothing was refused for a while. `held`: calls fail for other reasons, so the rate does not grow.
   * `lifted`: what was found out holds nothing back any more.
   */
  readonly reason: 'slow_start' | 'told' | 'refused' | 'pause' | 'growth' | 'held' | 'lifted';
  /** Calls a minute of the whole fleet; null when nothing but the concurrency, or a quota of tokens, holds calls back. */
  readonly calls_per_minute: number | null;
  /** Calls at once of this process. */
  readonly concurrency: number;
}

/** Tells the changes of the pace, and each of them once: the rate itself changes with every call. */
export class PaceChanges {
  #rate: number | null = null;
  #found = false;

  constructor(
    private readonly limits: PaceLimits,
    private readonly concurrency: () => number,
    private readonly onChange: (change: PaceChange) => void,
  ) {}

  tell(reason: PaceChange['reason'], pace: SharedPace): void {
    this.#rate = allowedRate(pace, this.limits);
    this.#found = pace.found !== null;
    this.onChange({
      reason,
      calls_per_minute: this.#rate === null ? null : Math.round(this.#rate * 10) / 10,
      concurrency: this.concurrency(),
    });
  }

  /** Looks at a pace that somebody may have changed. */
  look(pace: SharedPace): void {
    const rate = allowedRate(pace, this.limits);
    if (this.#found && pace.found === null) this.tell('lifted', pace);
    else if (this.#rate === null || rate === null) this.#rate = rate;
    else if (rate > this.#rate * (1 + TOLD_AGAIN)) this.tell('growth', pace);
  }
}
