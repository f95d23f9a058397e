/** Up to so many timeouts, or this share of the answers, are stray losses. */
const ODD = { calls: 2, part: 1 / 50 };
/** Timeouts after which counting restarts. */
const PERIOD = 10;
/** Answers that take less than this part of the timeout on average did not queue. */
const LATE = 1 / 4;
/** When calls queue beyond the timeout, about half of those in flight are answered in half of it. */
const LINE = 0.7;
/** When a lower concurrency shows its effect, in timeouts: the old queue is gone, and little else changed. */
const PROOF = { from: 2, until: 4 };
/** Time without another cut after one that did not help, in ms. */
const GIVEN_UP_MS = 1_800_000;
const PARTS = 16;

export type Late =
  /** Nothing: the service is silent, or answers the others fast. */
  | 'odd'
  /** There are too many, but nothing more to do now. */
  | 'known'
  /** There are too many. `most`: new limit. `answeredMs`: mean time of the others. */
  | { readonly kind: 'too many'; readonly most: number; readonly answeredMs: number }
  /** Lowering them did not help, since fewer were answered: the calls are slow by themselves. */
  | { readonly kind: 'no help'; readonly back: number };

/**
 * Finds out from timeouts whether more calls are made at once than a server answers in time.
 *
 * Queued calls are answered late, and the last ones time out. The answers within half a timeout are then the
 * concurrency at which each call takes half of its time (Little's law). For a stray timeout the others are
 * fast, that number is close to the concurrency, and nothing is learned. No answers at all mean an outage.
 *
 * A lower concurrency cannot help when each call is slow by itself: then fewer calls are answered in
 * proportion, while with a queue it would be as many as before. In that case the old limit returns.
 */
export class LateCalls {
  #answers: { at: number; calls: number; ms: number }[] = [];
  #windowMs = 0;
  /** In this period: timeouts and answers. */
  #cut = 0;
  #answered = 0;
  #countedFrom = Number.NEGATIVE_INFINITY;
  /** Earlier calls are already taken into account. */
  #since = Number.NEGATIVE_INFINITY;
  /**
   * Before the last cut; null when none is on trial. `answers`: per timeout. `underWay`: of the calls in
   * flight.
   */
  #before: {
    readonly at: number;
    readonly atOnce: number;
    readonly lowered: number;
    readonly answers: number;
    underWay: number;
  } | null = null;
  #proof = { from: 0, answers: 0 };
  #givenUpUntil = Number.NEGATIVE_INFINITY;

  /** @returns whether answers take more than half of the timeout */
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
    // Calls that began together are answered together: these are one wave.
    if (this.#before !== null && startedAt < this.#before.at) this.#before.underWay++;
    const since = (now - this.#proof.from) / timeoutMs;
    if (since >= PROOF.from && since < PROOF.until) this.#proof.answers++;
    return this.#recent(timeoutMs, now).meanMs > timeoutMs / 2;
  }

  /** @param calmSince end of the last pause: answers during a pause say nothing */
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
    // No answer for more than twice the usual interval: the service may have gone silent.
    if (answers === 0 || now - last > timeoutMs / answers + timeoutMs / 2 / PARTS) return 'odd';
    // It was among those that were too many, and the limit now says nothing about it.
    if (startedAt < this.#since) return 'known';
    if (meanMs < timeoutMs * LATE || answers > atOnce * LINE) return 'odd';
    if (now - this.#countedFrom > PERIOD * timeoutMs) this.#countAnew(now);
    this.#cut++;
    if (this.#cut <= ODD.calls || this.#cut <= this.#answered * ODD.part || now < this.#givenUpUntil)
      return 'known';

    if (this.#before !== null) return 'known';
    // Few answers within half a timeout may be chance.
    const countedMs = Math.max(timeoutMs, now - this.#countedFrom);
    const inTimeout = Math.max(2 * answers, (this.#answered * timeoutMs) / countedMs);
    this.#before = { at: now, atOnce, lowered: answers, answers: inTimeout, underWay: 0 };
    this.#proof = { from: now, answers: 0 };
    this.#since = now;
    this.#countAnew(now);
    return { kind: 'too many', most: answers, answeredMs: meanMs };
  }

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
