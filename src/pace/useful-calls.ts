/** Fewest answers whose mean time is compared. */
const COMPARED = 20;
/** Answers that take so many times longer than with few calls: they queue in the server, or share its speed. */
const SLOWER = 1.6;
/** Below this mean, in ms, the time is the network's and the process's own. */
const FAST_MS = 50;
/** Fewest answers, and rounds of calls, by which a rate is measured. */
const MEASURED = { answers: 60, rounds: 2 };
/** So few calls at once do no server harm, and are too few to measure. */
const FEWEST = 8;
/** Twice as many calls are useful when they bring so many times more answers a second. */
const GAIN = 1.15;
/** Time between two attempts: in ms, and in how long the last one took, which doubles after each in vain. */
const REST = { ms: 10_000, most: 1_800_000, first: 8 };

/**
 * What is measured at the current bound. `first`: whether answers take longer at all. `fewer`, `more`: an attempt.
 * `best`: the best bound, after fewer were too few. `rest`: the same, until it is time for the next attempt.
 */
type Phase = 'first' | 'fewer' | 'best' | 'more' | 'rest';

/** A number of calls at once, and the answers a ms that it brought. */
interface Level {
  readonly calls: number;
  readonly rate: number;
}

/**
 * Finds how many calls at once are useful: twice as many must bring more answers a second (Little's law: when each
 * takes twice as long, they bring none).
 *
 * There is no bound while answers take about as long as they did at best. Once they take longer, calls are halved as
 * long as about as many answers come, then doubled as long as more come, and the same again later.
 *
 * Each process searches by itself. Two on one server take its slots from each other, which looks like a gain.
 */
export class UsefulCalls {
  #most = Number.POSITIVE_INFINITY;
  /** Shortest mean time of answers, and the recent one, in ms. */
  #shortest = Number.POSITIVE_INFINITY;
  #mean = 0;
  #compared = 0;
  #phase: Phase = 'first';
  #best: Level = { calls: 0, rate: 0 };
  /** Answers since the bound changed or not all calls were made, and when the calls from before had ended. */
  #seen = 0;
  #countedFrom = 0;
  /** `from`: the calls that it began with. `rests`: see {@link REST}. */
  #attempt = { from: 0, at: 0, rests: REST.first, until: 0 };

  constructor(private readonly ceiling: number) {}

  get most(): number {
    return this.#most;
  }

  /**
   * @param ms time that the answer took
   * @param limit calls that may be made at once now
   * @param isFull whether so many are made: else something else limits them
   */
  answered(ms: number, limit: number, isFull: boolean, now: number): void {
    if (!isFull || limit < FEWEST) this.disturbed();
    else if (this.#most === Number.POSITIVE_INFINITY) {
      // The limit has about doubled since the calls began that took longer.
      if (this.#isSlower(ms, limit)) this.#measureAt(Math.max(FEWEST, Math.ceil(limit / 2)), 'first');
    } else if (limit >= this.#most) {
      const rate = this.#measured(limit, now);
      if (rate !== null) this.#judge(limit, rate, now);
    }
  }

  /** Answers are counted again from the start. */
  disturbed(): void {
    this.#seen = 0;
  }

  #isSlower(ms: number, limit: number): boolean {
    // Of calls that began together, the first answers are those that take little time.
    const most = Math.max(COMPARED, limit / 2);
    this.#compared = Math.min(this.#compared + 1, most);
    this.#mean += (ms - this.#mean) / this.#compared;
    if (this.#compared < most) return false;
    // At the ceiling the shortest of many means would be one of chance.
    if (limit < this.ceiling) this.#shortest = Math.min(this.#shortest, this.#mean);
    return this.#mean > Math.max(FAST_MS, SLOWER * this.#shortest);
  }

  /** Over whole rounds, because answers to calls that began together come together. */
  #measured(limit: number, now: number): number | null {
    this.#seen++;
    if (this.#seen === limit) this.#countedFrom = now;
    const counted = limit * Math.max(MEASURED.rounds, Math.ceil(MEASURED.answers / limit));
    if (this.#seen < limit + counted) return null;
    this.#seen = 0;
    return counted / Math.max(1, now - this.#countedFrom);
  }

  #judge(calls: number, rate: number, now: number): void {
    const best = this.#best;
    const level = { calls, rate };
    switch (this.#phase) {
      case 'first':
        // Or the answers that were compared took longer by chance.
        if (rate * this.#shortest * SLOWER > calls) this.#free(level);
        else this.#begin(level, now);
        break;
      case 'rest':
        if (now >= this.#attempt.until) this.#begin(level, now);
        break;
      case 'fewer':
        if (rate * GAIN < best.rate) this.#measureAt(best.calls, 'best');
        else this.#fewer({ calls, rate: Math.max(rate, best.rate) });
        break;
      case 'best':
        this.#more(level);
        break;
      case 'more':
        // The ceiling may have cut the step short.
        if (rate >= best.rate * (1 + (GAIN - 1) * (calls / best.calls - 1))) this.#more(level);
        else this.#rest(now);
        break;
    }
  }

  /** Answers that take as long as now are not slow. */
  #free({ calls, rate }: Level): void {
    this.#most = Number.POSITIVE_INFINITY;
    this.#shortest = calls / rate;
    this.#compared = 0;
    this.#mean = 0;
  }

  #begin(best: Level, now: number): void {
    this.#attempt = { ...this.#attempt, from: best.calls, at: now };
    this.#fewer(best);
  }

  #fewer(best: Level): void {
    if (best.calls <= FEWEST) {
      this.#more(best);
      return;
    }
    this.#best = best;
    this.#measureAt(Math.max(FEWEST, Math.floor(best.calls / 2)), 'fewer');
  }

  #more(best: Level): void {
    this.#best = best;
    if (best.calls >= this.ceiling) this.#free(best);
    else this.#measureAt(Math.min(2 * best.calls, this.ceiling), 'more');
  }

  #rest(now: number): void {
    const { from, at, rests: before } = this.#attempt;
    const { calls } = this.#best;
    const rests = calls === from ? 2 * before : REST.first;
    const ms = Math.min(REST.most, Math.max(REST.ms, rests * (now - at)));
    this.#attempt = { from, at, rests, until: now + ms };
    this.#measureAt(calls, 'rest');
  }

  #measureAt(most: number, phase: Phase): void {
    this.#most = most;
    this.#phase = phase;
    this.#seen = 0;
  }
}
