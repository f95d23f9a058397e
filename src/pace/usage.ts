import type { Parameters } from '../model.js';
import { estimateTokens } from '../prompt/context.js';
import { candidatesOf, DEFAULT_MAX_TOKENS } from '../service/parameters.js';
import { together } from './estimated-rate.js';
import { known, msPerToken, NOTHING, type PaceLimits, type SharedPace } from './shared-pace.js';

/** Weight of the latest call in the moving averages. */
const WEIGHT = 0.05;

/** What the service goes by when it admits a request; see {@link TokenEstimate}. */
type TokenBasis = 'full' | 'learned';

/** What one request is reckoned to take. */
export interface Reserved {
  /** Tokens in all. */
  readonly tokens: number;
  /** The part of the prompts before anything was learned. */
  readonly raw: number;
  /** Most tokens that may be generated. */
  readonly most: number;
}

/**
 * Reckons the tokens of a request before it is made, and learns from what requests took.
 *
 * - `full`: prompts + `max_tokens` × candidates (`best_of`, `n`), which is what the hosted service admits a request on, whatever it
 *   generates later.
 * - `learned`: prompts + the moving average of what was generated, for a service that counts what it bills. A
 *   `max_tokens` of 1,000 with answers of 5 tokens then does not waste the quota.
 *
 * Prompts are reckoned by their characters and a moving ratio to the real count; counting them costs more than the
 * sum over a minute gains by it, because errors of single prompts even out and the real usage settles the rest.
 */
export class TokenEstimate {
  /** Real prompt tokens for each reckoned one. */
  #ratio = 1;
  /** Tokens generated for each that was allowed; null before the first answer. */
  #share: number | null = null;

  constructor(private readonly basis: TokenBasis) {}

  reserve(prompts: readonly string[], parameters: Parameters): Reserved {
    const raw = prompts.reduce((sum, prompt) => sum + estimateTokens(prompt), 0);
    const most = (parameters.max_tokens ?? DEFAULT_MAX_TOKENS) * candidatesOf(parameters) * prompts.length;
    const generated = this.basis === 'full' ? most : most * (this.#share ?? 1);
    return { tokens: raw * this.#ratio + generated, raw, most };
  }

  /**
   * Learns from an answer.
   * @returns tokens that the request took beyond what was reserved; negative when it took less
   */
  settle(
    reserved: Reserved,
    usage: { readonly prompt_tokens: number; readonly completion_tokens: number },
  ): number {
    if (reserved.raw > 0) this.#ratio += WEIGHT * (usage.prompt_tokens / reserved.raw - this.#ratio);
    if (reserved.most > 0) {
      const share = usage.completion_tokens / reserved.most;
      this.#share = this.#share === null ? share : this.#share + WEIGHT * (share - this.#share);
    }
    const completion = this.basis === 'full' ? reserved.most : usage.completion_tokens;
    return usage.prompt_tokens + completion - reserved.tokens;
  }
}

/** Admissions older than this, in milliseconds, count by their average over the half of it. */
const MEMORY_MS = 60_000;

const MINUTE = 60_000;

/** What a worker tells of its calls with the next change. */
export interface UsageReport {
  /** Calls made since the last change, less those that were refused: below 0 when older ones were. */
  readonly admitted: number;
  /** When the first of them was made. */
  readonly since: number;
  /** Tokens that calls took beyond what was reserved for them; negative when they took less. */
  readonly tokens: number;
  /** What the service says of its quota now, where that has changed. */
  readonly advertised: PaceLimits;
}

/** Takes what a worker reports into account. */
export function applyReport(
  before: SharedPace,
  report: UsageReport,
  configured: PaceLimits,
  now: number,
): SharedPace {
  const advertised =
    report.advertised.requestsPerMinute !== null || report.advertised.tokensPerMinute !== null;
  // Calls from before a rate was estimated, of a worker that had no reason to tell of them.
  const early = report.since < before.since;
  const estimate =
    before.estimate !== null && early ? together(before.estimate, report.admitted) : before.estimate;
  const pace = {
    ...before,
    waves: early ? withCallsBefore(before, report) : before.waves,
    // What was estimated before the service advertised another quota means nothing any more.
    estimate: advertised ? null : estimate,
    advertised: {
      requestsPerMinute: report.advertised.requestsPerMinute ?? before.advertised.requestsPerMinute,
      tokensPerMinute: report.advertised.tokensPerMinute ?? before.advertised.tokensPerMinute,
    },
  };
  const { tokensPerMinute } = known(pace, configured);
  // A time without calls before the first one tells nothing; calls from before the pause belong to what is done with.
  const began = pace.since === 0 ? report.since : pace.since;
  const part = report.since < began ? (now - began) / Math.max(1, now - report.since) : 1;
  const { admitted, since } = remembered(pace.admitted + report.admitted * Math.max(0, part), began, now);
  if (tokensPerMinute === null || report.tokens === 0) return { ...pace, admitted, since };
  const owed = Math.min(MINUTE, report.tokens * msPerToken(tokensPerMinute));
  return { ...pace, admitted, since, tokens: Math.max(pace.tokens, now) + owed };
}

/** Most calls that a worker tells of only after a wave began were made before it. */
function withCallsBefore({ waves, since }: SharedPace, report: UsageReport): SharedPace['waves'] {
  const last = waves.at(-1);
  if (last === undefined || since - report.since > MEMORY_MS) return waves;
  return [...waves.slice(0, -1), { ...last, admitted: Math.max(0, last.admitted + report.admitted) }];
}

/** Lets what was long ago count less. */
function remembered(admitted: number, since: number, now: number): { admitted: number; since: number } {
  const elapsed = now - since;
  if (elapsed <= MEMORY_MS) return { admitted, since };
  return { admitted: (admitted * MEMORY_MS) / 2 / elapsed, since: now - MEMORY_MS / 2 };
}

/** What one worker has to tell, collected until it tells it. Times are those of its own clock. */
export class UsageReporter {
  #admitted = 0;
  #since = 0;
  #tokens = 0;
  /** What the service said last, and what of it the others do not know. */
  #advertised = NOTHING;
  #unreported = NOTHING;

  /** Whether there are calls to tell of. */
  get hasCalls(): boolean {
    return this.#admitted !== 0;
  }

  /**
   * A call is made. It counts as admitted until it is refused: most of what is under way when the first refusal comes
   * was admitted.
   */
  made(now: number): void {
    if (this.#admitted === 0) this.#since = now;
    this.#admitted++;
  }

  /** A call that counts as made was not, or was refused. */
  notMade(): void {
    this.#admitted--;
  }

  /** Tokens that were taken beyond what was reserved; negative when it were less. */
  took(tokens: number): void {
    this.#tokens += tokens;
  }

  /** @returns whether the service said something new of its quota; an answer that says nothing takes nothing back */
  said(advertised: PaceLimits): boolean {
    const requestsPerMinute = advertised.requestsPerMinute ?? this.#advertised.requestsPerMinute;
    const tokensPerMinute = advertised.tokensPerMinute ?? this.#advertised.tokensPerMinute;
    const before = this.#advertised;
    if (requestsPerMinute === before.requestsPerMinute && tokensPerMinute === before.tokensPerMinute)
      return false;
    this.#advertised = { requestsPerMinute, tokensPerMinute };
    this.#unreported = this.#advertised;
    return true;
  }

  /** Lets what was long ago count less. */
  fade(now: number): void {
    const { admitted, since } = remembered(this.#admitted, this.#since, now);
    if (since === this.#since) return;
    this.#tokens *= admitted / Math.max(1, this.#admitted);
    this.#admitted = admitted;
    this.#since = since;
  }

  /**
   * Hands it out, and begins anew.
   * @param offset the clock of the store less that of the worker, in milliseconds
   */
  take(offset: number, now: number): UsageReport {
    const since = (this.#admitted === 0 ? now : this.#since) + offset;
    const report = { admitted: this.#admitted, since, tokens: this.#tokens, advertised: this.#unreported };
    this.#unreported = NOTHING;
    this.#admitted = 0;
    this.#since = now;
    this.#tokens = 0;
    return report;
  }
}
