import type { Exchange } from './exchange.js';

/** The quota per minute as the service says it; null where it says nothing. */
export interface ToldQuota {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
}

/**
 * What an answer says of the quota, in `x-ratelimit-limit-requests` and `-tokens`. The service sends them at times;
 * −1 and 0 are how it says that it does not say.
 */
export function toldQuota(exchange: Exchange): ToldQuota {
  const headers = exchange.kind === 'response' ? exchange.headers : {};
  return {
    requestsPerMinute: amount(headers['x-ratelimit-limit-requests']),
    tokensPerMinute: amount(headers['x-ratelimit-limit-tokens']),
  };
}

const amount = (text: string | undefined): number | null =>
  text !== undefined && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
