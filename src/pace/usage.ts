import type { Parameters } from '../core/model.js';
import { estimateTokens, mostGenerated } from '../prompt/tokens.js';
import { withCallsBefore } from './found-rate.js';
import { known, msPerToken, NOTHING, type PaceLimits, type SharedPace } from './shared-pace.js';

const WEIGHT = 0.05;

/** What the service counts when it admits a request; see {@link TokenEstimator}. */
type TokenBasis = 'full' | 'learned';

export interface Reserved {
  readonly tokens: number;
  /** Estimate for the prompts, before the learned ratio. */
  readonly raw: number;
  /** Most tokens that may be generated. */
  readonly most: number;
}

/**
 * Estimates a request's tokens, and learns from actual usage.
 *
 * - `full`: prompts + `max_tokens` × candidates (`best_of`, `n`). The hosted service admits a request by
 *   this, whatever it generates.
 * - `learned`: prompts + the moving average of generated tokens, for a service that counts what it bills. A
 *   `max_tokens` of 1,000 then wastes no quota on answers of 5 tokens.
 *
 * Prompts are estimated by characters and a moving ratio. Exact counts would cost more than they gain: errors
 * of single prompts even out over a minute, and the actual usage corrects the rest.
 */
export class TokenEstimator {
  /** Actual prompt tokens per estimated one. */
  #ratio = 1;
  /** Generated tokens per allowed one; null before the first answer. */
  #share: number | null = null;

  constructor(private readonly basis: TokenBasis) {}

  reserve(prompts: readonly string[], parameters: Parameters): Reserved {
    const raw = prompts.reduce((sum, prompt) => sum + estimateTokens(prompt), 0);
    const most = mostGenerated(parameters) * prompts.length;
    const generated = this.basis === 'full' ? most : most * (this.#share ?? 1);
    return { tokens: raw * this.#ratio + generated, raw, most };
  }

  /** @returns tokens taken beyond the reservation; negative when less */
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

/** Older admissions count by their average over half of this, in ms. */
const MEMORY_MS = 240_000;

const MINUTE = 60_000;

/** Reported with a worker's next change. */
export interface UsageReport {
  /** Calls made since the last report, minus those refused; negative when older ones were refused. */
  readonly admitted: number;
  /** When the first of them was made. */
  readonly since: number;
  /** Tokens taken beyond the reservations; negative when less. */
  readonly tokens: number;
  /** The quota the service states, if it changed. */
  readonly advertised: PaceLimits;
}

export function applyReport(
  before: SharedPace,
  report: UsageReport,
  configured: PaceLimits,
  now: number,
): SharedPace {
  const advertised =
    report.advertised.requestsPerMinute !== null || report.advertised.tokensPerMinute !== null;
  // Calls from before the last wave, reported only now: most of them were made just before it.
  const early = report.since < before.since && before.since - report.since <= MEMORY_MS;
  const counted = early ? withCallsBefore(before, report.admitted) : before;
  const pace = {
    ...counted,
    // An advertised quota replaces the found rate.
    found: advertised ? null : counted.found,
    advertised: {
      requestsPerMinute: report.advertised.requestsPerMinute ?? before.advertised.requestsPerMinute,
      tokensPerMinute: report.advertised.tokensPerMinute ?? before.advertised.tokensPerMinute,
    },
  };
  const { tokensPerMinute } = known(pace, configured);
  // Idle time before the first call does not count, nor do calls from before the last pause.
  const began = pace.since === 0 ? report.since : pace.since;
  const part = report.since < began ? (now - began) / Math.max(1, now - report.since) : 1;
  const { admitted, since } = remembered(pace.admitted + report.admitted * Math.max(0, part), began, now);
  if (tokensPerMinute === null || report.tokens === 0) return { ...pace, admitted, since };
  const owed = Math.min(MINUTE, report.tokens * msPerToken(tokensPerMinute));
  return { ...pace, admitted, since, tokens: Math.max(pace.tokens, now) + owed };
}

function remembered(admitted: number, since: number, now: number): { admitted: number; since: number } {
  const elapsed = now - since;
  if (elapsed <= MEMORY_MS) return { admitted, since };
  return { admitted: (admitted * MEMORY_MS) / 2 / elapsed, since: now - MEMORY_MS / 2 };
}

/** Collects a worker's report. Times are of its own clock. */
export class UsageReporter {
  #admitted = 0;
  #since = 0;
  #tokens = 0;
  /** The last stated quota, and the part of it not yet reported. */
  #advertised = NOTHING;
  #unreported = NOTHING;

  get hasCalls(): boolean {
    return this.#admitted !== 0;
  }

  /** Counts as admitted until it is refused: most calls in flight at the first refusal are admitted. */
  made(now: number): void {
    if (this.#admitted === 0) this.#since = now;
    this.#admitted++;
  }

  /** Undoes `made`: the call was not sent, or was refused. */
  notMade(): void {
    this.#admitted--;
  }

  /** Tokens beyond the reservation; negative when less. */
  took(tokens: number): void {
    this.#tokens += tokens;
  }

  /** @returns whether the stated quota is new; a response without one changes nothing */
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

  fade(now: number): void {
    const { admitted, since } = remembered(this.#admitted, this.#since, now);
    if (since === this.#since) return;
    this.#tokens *= admitted / Math.max(1, this.#admitted);
    this.#admitted = admitted;
    this.#since = since;
  }

  /** @param offset the store's clock minus the worker's, in ms */
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
