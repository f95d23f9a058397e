/** The quota of one deployment. */
export interface QuotaSettings {
  /** Requests per minute; `null` for no limit. @default null */
  readonly requestsPerMinute: number | null;
  /** Tokens per minute, counted by estimates; `null` for no limit. @default null */
  readonly tokensPerMinute: number | null;
  /**
   * Seconds over which requests are counted: the service checks its per-minute quota over 1 or 10 seconds, so
   * 600 a minute are 10 a second. @default 1
   */
  readonly requestWindowSeconds: number;
  /**
   * What a request counts as: its prompt tokens + `max_tokens` × `best_of`, or its `max_tokens` alone. The
   * service does not say which; both appear in descriptions of it. @default 'full'
   */
  readonly estimate: QuotaEstimate;
}

export const ESTIMATES = ['full', 'max-tokens'] as const;
export type QuotaEstimate = (typeof ESTIMATES)[number];

/** What remains after a request; −1 is the service's value for unknown. */
export interface Remaining {
  /** In the current window. */
  readonly requests: number;
  /** In the current minute. */
  readonly tokens: number;
}

export type Admission =
  | { readonly admitted: true; readonly remaining: Remaining }
  | {
      readonly admitted: false;
      readonly limit: 'requests' | 'tokens';
      /** Milliseconds until there is quota again. */
      readonly retryAfterMs: number;
      readonly remaining: Remaining;
    };

const MINUTE = 60_000;

/** The hint for a request larger than the whole quota: one day. */
const NEVER = 86_400_000;

/** Windows are fixed and begin with the first request. Refused requests do not count. */
export class Quota {
  #start: number | null = null;
  readonly #requests = { window: 0, used: 0 };
  readonly #tokens = { window: 0, used: 0 };

  constructor(private readonly settings: QuotaSettings) {}

  /**
   * @param estimate tokens that the request may need at most
   * @param now milliseconds of a clock that never runs backwards
   */
  admit(estimate: number, now: number): Admission {
    this.#start ??= now;
    const age = now - this.#start;
    enter(this.#requests, Math.floor(age / this.#windowMs));
    enter(this.#tokens, Math.floor(age / MINUTE));

    const requestsMs = this.#requestsLeft() === 0 ? this.#nextRequestWindow() * this.#windowMs - age : 0;
    const tokensMs = this.#tokensWait(estimate, age);
    const retryAfterMs = Math.max(requestsMs, tokensMs);
    if (retryAfterMs > 0) {
      const limit = tokensMs > requestsMs ? 'tokens' : 'requests';
      return { admitted: false, limit, retryAfterMs, remaining: this.#remaining() };
    }
    this.#requests.used += 1;
    this.#tokens.used += estimate;
    return { admitted: true, remaining: this.#remaining() };
  }

  get #windowMs(): number {
    return this.settings.requestWindowSeconds * 1000;
  }

  #tokensWait(estimate: number, age: number): number {
    const { tokensPerMinute } = this.settings;
    if (tokensPerMinute === null || this.#tokens.used + estimate <= tokensPerMinute) return 0;
    return estimate > tokensPerMinute ? NEVER : (this.#tokens.window + 1) * MINUTE - age;
  }

  #remaining(): Remaining {
    const { tokensPerMinute } = this.settings;
    return {
      requests: this.#requestsLeft() ?? -1,
      tokens: tokensPerMinute === null ? -1 : tokensPerMinute - this.#tokens.used,
    };
  }

  #requestsLeft(): number | null {
    const allowed = this.#allowedIn(this.#requests.window);
    return allowed === null ? null : allowed - this.#requests.used;
  }

  /**
   * Requests that a window admits. When the quota is not a whole number per window, windows differ by one to
   * make the minute exact: 90 a minute are 2, 1, 2, 1, … a second.
   */
  #allowedIn(window: number): number | null {
    const { requestsPerMinute, requestWindowSeconds } = this.settings;
    if (requestsPerMinute === null) return null;
    const until = (windows: number) => Math.ceil((requestsPerMinute * requestWindowSeconds * windows) / 60);
    return until(window + 1) - until(window);
  }

  #nextRequestWindow(): number {
    let window = this.#requests.window + 1;
    while (this.#allowedIn(window) === 0) window += 1;
    return window;
  }
}

function enter(counter: { window: number; used: number }, window: number): void {
  if (window === counter.window) return;
  counter.window = window;
  counter.used = 0;
}

/** Tokens that a conversation without a limit counts as: what a completion without one has. */
const UNTOLD = 16;

/** Every prompt of an array counts. */
export function estimateOf(
  { maxTokens, bestOf }: { readonly maxTokens: number | null; readonly bestOf: number },
  promptTokens: readonly number[],
  estimate: QuotaEstimate,
): number {
  const most = maxTokens ?? UNTOLD;
  return promptTokens.reduce(
    (total, tokens) => total + (estimate === 'full' ? tokens + most * bestOf : most),
    0,
  );
}
