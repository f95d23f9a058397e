import type { Problem } from '../core/model.js';
import type { Certainty, Unsettled, Verdict } from './verdict.js';

/** Consecutive pages, before any answer, that mean a wrong address. */
const PAGES = 3;
/** Consecutive refusals, after an answer, that mean more than stray responses. */
const REFUSALS = 10;

/**
 * Tells a service that cannot answer from one odd response among good ones (fault 80). Before any answer the
 * first refusal stops the run: a wrong address should show at once. Later one machine behind a gateway may be
 * at fault, so it takes several, and pages are an outage. A service never reached means a wrong address.
 */
export class StopStreak {
  #answered = false;
  #inRow = 0;
  /** First rows of the calls with useless responses since the last good one. */
  #useless = new Set<string>();

  /** @param reached whether the service was reached before, even by another process */
  constructor(private reached: boolean) {}

  /**
   * A stop becomes a retry while it may be an odd response, and a retry a stop when row after row needs one.
   * @param row name of the call's first row
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
        return { ...verdict, kind: 'stop', problem: unreachable(verdict.problem) };
      if (verdict.kind === 'retry' && !stops) return verdict;
      return { ...verdict, kind: stops ? 'stop' : 'retry', problem: advised(verdict) };
    });
  }

  #hasAnswered(): void {
    this.#answered = true;
    this.#inRow = 0;
    this.#useless.clear();
  }

  #stops(row: string, verdicts: readonly Unsettled[], areAll: boolean): boolean {
    const certainty = verdicts.find(({ kind }) => kind === 'stop')?.certainty;
    if (certainty !== undefined) return this.#stopsAfter(certainty);
    if (!areAll || verdicts.some(({ hint }) => hint === undefined)) return false;
    // Useless in a way no pause mends, such as no text: a few rows fail, many mean the service is the cause.
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

const advised = ({ problem: { code, message }, hint = '' }: Unsettled): Problem => ({
  code,
  message: `${message}. ${hint}`,
});

const unreachable = ({ message }: Problem): Problem => ({
  code: 'service_unreachable',
  message: `cannot reach the service: ${message}. Check PROMPTMILL_BASE_URL and the network.`,
});
