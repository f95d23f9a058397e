import type { QuotaSettings, Remaining } from './quota.js';
import type { Reply } from './refusal.js';
import type { Style } from './request.js';

/**
 * How a 429 says when to come back: seconds or an HTTP date in `Retry-After`, milliseconds in `retry-after-ms`, in
 * the words of its message alone, or not at all. All of them were seen.
 */
export const HINTS = ['seconds', 'ms', 'date', 'words', 'none'] as const;
export type Hint = (typeof HINTS)[number];

/** What ran out for whom. */
export interface Shortage {
  readonly style: Style;
  readonly limit: 'requests' | 'tokens';
  /** Milliseconds until there is quota again. */
  readonly retryAfterMs: number;
  /** API version or model, as the message names it. */
  readonly subject: string;
}

/** The answer to a request that the quota does not admit. */
export function rateLimited(shortage: Shortage, hint: Hint): Reply {
  const seconds = secondsIn(shortage.retryAfterMs);
  const body = shortage.style === 'service' ? gatewayBody : plainBody;
  return {
    status: 429,
    headers: hintHeaders(shortage.retryAfterMs, hint),
    body: body(shortage, hint === 'none' ? null : seconds),
  };
}

/** The same from the layer before the gateway. */
export function rateLimitedInShort(retryAfterMs: number, hint: Hint): Reply {
  const when = hint === 'none' ? '' : ` Try again in ${secondsIn(retryAfterMs)} seconds.`;
  return {
    status: 429,
    headers: hintHeaders(retryAfterMs, hint),
    body: { statusCode: 429, message: `Rate limit is exceeded.${when}` },
  };
}

/** What responses say of the quota. What remains of the requests is said for the current window. */
export function limitHeaders(
  remaining: Remaining,
  { requestsPerMinute, tokensPerMinute }: QuotaSettings,
): Record<string, string> {
  return {
    'x-ratelimit-remaining-requests': String(remaining.requests),
    'x-ratelimit-remaining-tokens': String(remaining.tokens),
    ...(requestsPerMinute === null ? {} : { 'x-ratelimit-limit-requests': String(requestsPerMinute) }),
    ...(tokensPerMinute === null ? {} : { 'x-ratelimit-limit-tokens': String(tokensPerMinute) }),
  };
}

function gatewayBody({ limit, subject }: Shortage, seconds: number | null) {
  const when = seconds === null ? '' : ` Please retry after ${seconds} seconds.`;
  const message =
    `Requests to the Completions_Create Operation under API version ${subject} have exceeded ` +
    `${limit === 'requests' ? 'call' : 'token'} rate limit of your current pricing tier.${when} ` +
    'Please ask for an increase of the default rate limit if you need more.';
  return { error: { code: '429', message } };
}

function plainBody({ limit, subject }: Shortage, seconds: number | null) {
  const when = seconds === null ? '' : ` Please try again in ${seconds}s.`;
  const message = `Rate limit reached for ${subject} on ${limit} per minute.${when}`;
  return { error: { message, type: limit, param: null, code: 'rate_limit_exceeded' } };
}

function hintHeaders(ms: number, hint: Hint): Record<string, string> {
  switch (hint) {
    case 'seconds':
      return { 'retry-after': String(secondsIn(ms)) };
    case 'ms':
      return { 'retry-after-ms': String(Math.ceil(ms)) };
    case 'date':
      // A date has whole seconds; the next one, so that nobody comes back too soon.
      return { 'retry-after': new Date(Date.now() + ms + 999).toUTCString() };
    case 'words':
    case 'none':
      return {};
  }
}

const secondsIn = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));
