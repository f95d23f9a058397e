import type { Settings } from '../config/settings.js';

/** The rest is taken to need so many times the time online that the run's rate says. */
const MARGIN = 1.25;
/** Share of the deadline before which the rate is not trusted: a run starts slowly, and its first answers come late. */
const EARLY = 0.1;
/** Time for workers elsewhere to hear of it, and for the last rows to be written, in ms. */
const SLACK_MS = 5_000;

export interface TierProgress {
  /** Of this execution, in ms. */
  readonly ranMs: number;
  /** Rows without an outcome. */
  readonly toCall: number;
  /** Rows a second that the run can call; null before the first answer. */
  readonly perSecond: number | null;
  /** Longest answer so far, in ms: calls in flight take their time. */
  readonly longestMs: number;
}

/**
 * How long a run has its answers from a slower tier: as long as the job says, and until the last moment at which the rest
 * can still be called online before the deadline. Before any answer nothing is known of that moment: then half of the time.
 */
export class TierTime {
  #isOver: boolean;

  /**
   * @param tier null: the job does not ask for it
   * @param since when the run's first call or batch in the tier was, in ms since 1970; null before it
   * @param now in ms since 1970
   * @param leaveMs what it takes to leave the tier, in ms
   */
  constructor(
    private readonly tier: Settings['flex'],
    private readonly deadlineMs: number | null,
    since: number | null,
    now: number,
    private readonly leaveMs = 0,
  ) {
    this.#isOver = tier === null || tier.forMs === 0 || this.#isUsedUp(since, now);
  }

  /** Once it is, it stays so: rows are called online. */
  get isOver(): boolean {
    return this.#isOver;
  }

  looked(since: number | null, now: number, progress: TierProgress): void {
    this.#isOver ||= this.#isUsedUp(since, now) || this.#isLate(progress);
  }

  #isUsedUp(since: number | null, now: number): boolean {
    const { forMs = null } = this.tier ?? {};
    return forMs !== null && since !== null && now - since >= forMs;
  }

  #isLate({ ranMs, toCall, perSecond, longestMs }: TierProgress): boolean {
    if (this.deadlineMs === null || toCall === 0 || ranMs < EARLY * this.deadlineMs) return false;
    const leftMs = this.deadlineMs - ranMs;
    if (perSecond === null) return leftMs < this.deadlineMs / 2 + this.leaveMs;
    return leftMs <= (toCall / perSecond) * 1_000 * MARGIN + longestMs + SLACK_MS + this.leaveMs;
  }
}
