import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Json } from '../model.js';
import { pick } from './random.js';
import { type Hint, rateLimited, rateLimitedInShort } from './rate-limited.js';
import {
  apiVersionNotSupported,
  deploymentNotFound,
  invalidRequest,
  keyRefused,
  type Refusal,
  type Reply,
  resourceNotFound,
  tokenRefused,
} from './refusal.js';
import type { Target } from './routes.js';

/** Milliseconds that an injected 429 asks for. */
const SHORT_WAIT = 1000;

type Replies = readonly [() => Reply, ...(() => Reply)[]];

/** An answer of some status, in one of the bodies that were seen with it; `random` chooses. */
export function faultReply(status: number, target: Target, hint: Hint, random: () => number): Reply {
  return pick(random, repliesOf(status, target, hint))();
}

/** The account has no credit left: waiting does not help. */
export function insufficientQuota(): Reply {
  const message = 'You exceeded your current quota, please check your plan and billing details.';
  const code = 'insufficient_quota';
  return { status: 429, body: { error: { message, type: code, param: null, code } } };
}

/** A page of some proxy in place of the answer. */
export function garbage(): Reply {
  return { status: 200, body: html('Welcome') };
}

function repliesOf(status: number, { style, subject, model }: Target, hint: Hint): Replies {
  const gateway = (code: string, message: string): Replies => [reply(status, { error: { code, message } })];
  const text = STATUS_CODES[status] ?? 'Unknown status';
  switch (status) {
    case 301:
    case 302:
    case 307:
    case 308:
      // A name that never resolves: who follows it comes nowhere.
      return [() => ({ status, body: '', headers: { location: 'https://elsewhere.invalid/' } })];
    case 400:
      return [
        refusal(() => invalidRequest("3 is greater than the maximum of 2 - 'temperature'")),
        refusal(apiVersionNotSupported),
      ];
    case 401:
      return [refusal(keyRefused), refusal(tokenRefused)];
    case 403:
      return [
        ...gateway('AccessDenied', 'Access denied due to Virtual Network/Firewall rules.'),
        ...gateway('403', 'The resource was blocked because of unusual behavior. Please contact support.'),
      ];
    case 404:
      return [refusal(deploymentNotFound), refusal(resourceNotFound)];
    case 408:
      return gateway('Timeout', 'The operation was timeout.');
    case 422:
      return [reply(status, { error: 'Input validation error', error_type: 'validation' })];
    case 424:
      return [reply(status, { error: 'Request failed during generation', error_type: 'generation' })];
    case 429: {
      const limited = (limit: 'requests' | 'tokens') => () =>
        rateLimited({ style, limit, retryAfterMs: SHORT_WAIT, subject }, hint);
      return [limited('requests'), limited('tokens'), () => rateLimitedInShort(SHORT_WAIT, hint)];
    }
    case 500: {
      const message = 'The server had an error while processing your request. Sorry about that!';
      return [
        reply(status, { error: { message, type: 'server_error', param: null, code: null } }),
        () => ({
          status,
          body: { statusCode: 500, message: 'Internal server error', activityId: randomUUID() },
        }),
      ];
    }
    case 502:
    case 504:
      return [reply(status, ''), reply(status, html(`${status} ${text}`)), reply(status, text)];
    case 503:
      return [
        reply(status, ''),
        reply(status, html(`${status} ${text}`)),
        reply(status, text),
        reply(status, { error: `Model ${model.id} is currently loading`, estimated_time: 20 }),
      ];
    default:
      return gateway(String(status), text);
  }
}

const reply = (status: number, body: Json) => (): Reply => ({ status, body });

const refusal = (make: () => Refusal) => (): Reply => make().reply;

function html(title: string): string {
  return `<!DOCTYPE html>\n<html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>\n`;
}
