import type { Fault } from '../model.js';
import type { Certainty, Unsettled, Verdict } from './verdict.js';

/** Pages in a row, before anything was answered, that make a wrong address of it. */
const PAGES = 3;
/** Refusals in a row, after something was answered, that make more of it than answers gone astray. */
const REFUSALS = 10;

/**
 * Tells a service that cannot answer from one odd answer among good ones (fault 80). While nothing was answered, the first
 * refusal stops the run: a wrong address is best said at once. Later, one of many machines behind a gateway may be the
 * cause, and it takes several in a row. Pages that come later are an outage. A service that was never reached is a wrong
 * address as well.
 */
export class StopStreak {
  #answered = false;
  #inRow = 0;
  /** Calls whose answers were of no use, by their first rows, since the last good one. */
  #useless = new Set<string>();

  /** @param reached whether the service was reached before, be it by another process */
  constructor(private reached: boolean) {}

  /**
   * What the verdicts on a call mean beside those on the calls before it. What asks for a stop is a retry while it may be
   * an odd answer; a retry is a stop when it is one row after the other.
   * @param row name of the first row of the call
   */
  judge(row: string, verdicts: readonly Verdict[]): readonly Verdict[] {
    if (verdicts.some(({ kind }) => kind === 'final')) this.#hasAnswered();
    this.reached ||= verdicts.some((verdict) => !isUnsettled(verdict) || verdict.connected);
    const unsettled = verdicts.filter(isUnsettled);
    if (unsettled.length === 0) return verdicts;
    const stops = this.#stops(row, unsettled, unsettled.length === verdicts.length);
    return verdicts.map((verdict) => {
      if (!isUnsettled(verdict)) return verdict;
      if (verdict.kind === 'retry' && !this.reached)
        return { ...verdict, kind: 'stop', fault: unreachable(verdict.fault) };
      if (verdict.kind === 'retry' && !stops) return verdict;
      return { ...verdict, kind: stops ? 'stop' : 'retry', fault: advised(verdict) };
    });
  }

  /** The service answered as it should. */
  #hasAnswered(): void {
    this.#answered = true;
    this.#inRow = 0;
    this.#useless.clear();
  }

  /** Whether a call stops the run. */
  #stops(row: string, verdicts: readonly Unsettled[], areAll: boolean): boolean {
    const certainty = verdicts.find(({ kind }) => kind === 'stop')?.certainty;
    if (certainty !== undefined) return this.#stopsAfter(certainty);
    if (!areAll || verdicts.some(({ hint }) => hint === undefined)) return false;
    // Answered in a way that no pause mends, such as without a text. A few such rows are tried again and fail; when it is one
    // row after the other, the service is the cause.
    this.#useless.add(row);
    return this.#useless.size >= REFUSALS;
  }

  #stopsAfter(certainty: Certainty): boolean {
    if (certainty === 'sure') return true;
    this.#inRow++;
    if (this.#answered) return certainty === 'likely' && this.#inRow >= REFUSALS;
    return certainty === 'likely' || this.#inRow >= PAGES;
  }
}

const isUnsettled = (verdict: Verdict): verdict is Unsettled =>
  verdict.kind === 'retry' || verdict.kind === 'stop';

const advised = ({ fault: { code, message }, hint = '' }: Unsettled): Fault => ({
  code,
  message: `${message}. ${hint}`,
});

const unreachable = ({ message }: Fault): Fault => ({
  code: 'service_unreachable',
  message: `cannot reach the service: ${message}. Check PROMPTMILL_BASE_URL and the network.`,
});
