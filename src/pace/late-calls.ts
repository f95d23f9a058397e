/** Fewer calls that were cut than this, or a smaller part of those that were answered, are odd losses. */
const ODD = { calls: 2, part: 1 / 50 };
/** Both are counted for so many time-outs, and then anew. */
const PERIOD = 10;
/** Answers that take less than this part of the time that a call has, on average, did not wait in a line. */
const LATE = 1 / 4;
/** Where calls wait in a line until their time is over, half of those under way are answered in half of it at most. */
const LINE = 0.7;
/**
 * The time, in time-outs, in which a lower number of calls shows whether it helps: what stood in the line before is gone, and
 * little else can have changed.
 */
const PROOF = { from: 2, until: 4 };
/** Time without another cut after one that did not help, in milliseconds. */
const GIVEN_UP_MS = 1_800_000;
/** Answers are counted in this many parts of the time that is looked at. */
const PARTS = 16;

/** What a call that timed out tells of the calls at once. */
export type Late =
  /** Nothing: the service is silent, or it answers others without delay. */
  | 'odd'
  /** They are too many, and nothing is to be done that is not done. */
  | 'known'
  /** They are too many: at most so many. `answeredMs`: in which time the others are answered. */
  | { readonly kind: 'too many'; readonly most: number; readonly answeredMs: number }
  /** They were too many, so fewer were made, and fewer were answered: the calls take their time by themselves. */
  | { readonly kind: 'no help'; readonly back: number };

/**
 * Tells by the calls that time out whether more are made at once than a server answers in time.
 *
 * Calls that wait in a line are answered late, up to the time-out, and those at its end are cut. What the server answers
 * within half of a time-out is then the number of calls at once at which each waits for half of its time (Little's
 * law). Where a time-out comes by chance the others are answered fast: that number is not far below the calls at once, and
 * nothing is learned. Where nobody is answered, the service is silent, and that is an outage.
 *
 * Fewer calls at once cannot help where each call takes long by itself. It shows: with a line as many are answered as before,
 * without one fewer in proportion. Then the number of before is taken again.
 */
export class LateCalls {
  /** The answers, oldest first. */
  #answers: { at: number; calls: number; ms: number }[] = [];
  #windowMs = 0;
  /** Calls that were cut, and those that were answered, in this period. */
  #cut = 0;
  #answered = 0;
  #countedFrom = Number.NEGATIVE_INFINITY;
  /** Calls that began before have taught what they can teach. */
  #since = Number.NEGATIVE_INFINITY;
  /**
   * What was before the calls at once were lowered; null where nothing is to be shown. `answers`: in one time-out. `underWay`: how
   * many came of the calls that were under way.
   */
  #before: {
    readonly at: number;
    readonly atOnce: number;
    readonly lowered: number;
    readonly answers: number;
    underWay: number;
  } | null = null;
  /** The answers in which it shows whether that helps, and when it began. */
  #proof = { from: 0, answers: 0 };
  #givenUpUntil = Number.NEGATIVE_INFINITY;

  /**
   * A call was answered.
   * @returns whether answers take more than half of the time that a call has
   */
  answered(startedAt: number, timeoutMs: number, now: number): boolean {
    this.#answered++;
    this.#windowMs = Math.max(this.#windowMs, timeoutMs / 2);
    const last = this.#answers.at(-1);
    if (last !== undefined && now - last.at < this.#windowMs / PARTS) {
      last.calls++;
      last.ms += now - startedAt;
    } else {
      this.#answers.push({ at: now, calls: 1, ms: now - startedAt });
      while ((this.#answers[0]?.at ?? now) <= now - this.#windowMs) this.#answers.shift();
    }
    // Of calls that began at the same time, the answers come in waves: these are one.
    if (this.#before !== null && startedAt < this.#before.at) this.#before.underWay++;
    const since = (now - this.#proof.from) / timeoutMs;
    if (since >= PROOF.from && since < PROOF.until) this.#proof.answers++;
    return this.#recent(timeoutMs, now).meanMs > timeoutMs / 2;
  }

  /**
   * A call timed out.
   * @param atOnce calls that are made at once
   * @param calmSince end of the last pause: what was answered while nobody might call says nothing
   */
  timedOut(startedAt: number, timeoutMs: number, atOnce: number, calmSince: number, now: number): Late {
    if (calmSince > this.#proof.from) this.#proof = { from: now, answers: 0 };
    if (startedAt < calmSince) return 'odd';
    const before = this.#before;
    if (before !== null && now >= this.#proof.from + PROOF.until * timeoutMs) {
      this.#before = null;
      const since = this.#proof.answers / (PROOF.until - PROOF.from);
      const fewer = Math.sqrt(before.lowered / before.atOnce);
      if (since < Math.max(before.answers, before.underWay) * fewer) {
        this.#givenUpUntil = now + GIVEN_UP_MS;
        return { kind: 'no help', back: before.atOnce };
      }
    }
    const { answers, meanMs, last } = this.#recent(timeoutMs, now);
    // Where the last answer came longer ago than twice the time between two, the service may have gone silent.
    if (answers === 0 || now - last > timeoutMs / answers + timeoutMs / 2 / PARTS) return 'odd';
    if (meanMs < timeoutMs * LATE || answers > atOnce * LINE) return 'odd';
    if (startedAt < this.#since) return 'known';
    if (now - this.#countedFrom > PERIOD * timeoutMs) this.#countAnew(now);
    this.#cut++;
    if (this.#cut <= ODD.calls || this.#cut <= this.#answered * ODD.part || now < this.#givenUpUntil)
      return 'known';

    if (this.#before !== null) return 'known';
    // Few in half of a time-out may be chance.
    const countedMs = Math.max(timeoutMs, now - this.#countedFrom);
    const inTimeout = Math.max(2 * answers, (this.#answered * timeoutMs) / countedMs);
    this.#before = { at: now, atOnce, lowered: answers, answers: inTimeout, underWay: 0 };
    this.#proof = { from: now, answers: 0 };
    this.#since = now;
    this.#countAnew(now);
    return { kind: 'too many', most: answers, answeredMs: meanMs };
  }

  /** The answers of the last half of a time-out, and when the last of them came. */
  #recent(timeoutMs: number, now: number): { answers: number; meanMs: number; last: number } {
    let [answers, ms, last] = [0, 0, Number.NEGATIVE_INFINITY];
    for (const part of this.#answers) {
      if (part.at <= now - timeoutMs / 2) continue;
      answers += part.calls;
      ms += part.ms;
      last = part.at;
    }
    return { answers, meanMs: ms / Math.max(1, answers), last };
  }

  #countAnew(now: number): void {
    this.#countedFrom = now;
    this.#cut = 0;
    this.#answered = 0;
  }
}
