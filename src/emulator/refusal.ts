import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Json } from '../core/model.js';
import { pick } from '../core/random.js';
import type { FilterReport } from './filter.js';
import type { QuotaSettings, Remaining } from './quota.js';

/**
 * The service's API has deployment and API version in the address; plain `/v1/completions` has the model in
 * the body.
 */
export type Style = 'service' | 'plain';

export type OperationName = 'completions' | 'chat';

/** What messages call an operation. */
const WORDS: Readonly<Record<OperationName, Readonly<Record<'limited' | 'refused' | 'misplaced', string>>>> =
  {
    completions: {
      limited: 'Completions_Create',
      refused: 'completion',
      misplaced:
        'This is a chat model and not supported in the v1/completions endpoint. Did you mean to use v1/chat/completions?',
    },
    chat: {
      limited: 'ChatCompletions_Create',
      refused: 'chatCompletion',
      misplaced:
        'This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?',
    },
  };

export interface CalledModel {
  readonly operation: OperationName;
  readonly style: Style;
  readonly model: { readonly id: string };
  /** What a 429 names: the API version, or the model where there is no version. */
  readonly subject: string;
}

export interface Reply {
  readonly status: number;
  /** Sent as JSON; a string is sent unchanged, as HTML if it looks like HTML. */
  readonly body: Json;
  readonly headers?: Readonly<Record<string, string>>;
}

export class Refusal extends Error {
  /** @param isFilter whether the content filter refused a prompt */
  constructor(
    readonly reply: Reply,
    readonly isFilter = false,
  ) {
    super(`refused with status ${reply.status}`);
    this.name = 'Refusal';
  }
}

function gateway(status: number, code: string, message: string): Refusal {
  return new Refusal({ status, body: { error: { code, message } } });
}

function modelRefusal(status: number, code: string | null, message: string, param: string | null = null) {
  return new Refusal({ status, body: { error: { message, type: 'invalid_request_error', param, code } } });
}

export function invalidRequest(message: string, param: string | null = null): Refusal {
  return modelRefusal(400, null, message, param);
}

/** @param instead the parameter that has taken its place */
export function unsupportedParameter(name: string, instead?: string): Refusal {
  const use = instead === undefined ? '' : ` Use '${instead}' instead.`;
  const message = `Unsupported parameter: '${name}' is not supported with this model.${use}`;
  return modelRefusal(400, 'unsupported_parameter', message, name);
}

/** @param most tokens of the completion, as the request limits it */
export function contextExceeded(
  operation: OperationName,
  window: number,
  prompt: number,
  most: number,
): Refusal {
  const maximum = `This model's maximum context length is ${window} tokens`;
  const requested = `you requested ${prompt + most} tokens`;
  return operation === 'chat'
    ? modelRefusal(
        400,
        'context_length_exceeded',
        `${maximum}. However, ${requested} (${prompt} in the messages, ${most} in the completion). Please reduce ` +
          'the length of the messages or completion.',
        'messages',
      )
    : invalidRequest(
        `${maximum}, however ${requested} (${prompt} in your prompt; ${most} for the completion). Please reduce ` +
          'your prompt; or completion length.',
      );
}

/** No room for a call of the flex tier: neither billed nor counted on the quota. @param status each has a form of its own */
export function noCapacity(status: 429 | 498): Reply {
  if (status === 498)
    return gateway(498, 'capacity_exceeded', 'Flex tier capacity exceeded. Please try again later.').reply;
  const message = 'Resource unavailable: there is no capacity for the flex tier at the moment.';
  const code = 'resource_unavailable';
  return { status: 429, body: { error: { message, type: code, param: null, code } } };
}

export function keyRefused(): Refusal {
  return gateway(
    401,
    '401',
    'Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key ' +
      'for an active subscription and use a correct regional API endpoint for your resource.',
  );
}

/** The body for a bad bearer token has no `error` member. */
export function tokenRefused(): Refusal {
  return new Refusal({
    status: 401,
    body: { statusCode: 401, message: 'Unauthorized. Access token is missing, invalid or expired.' },
  });
}

export const plainKeyRefused = (): Refusal =>
  modelRefusal(401, 'invalid_api_key', 'Incorrect API key provided.');

export const plainModelMissing = (): Refusal => invalidRequest('you must provide a model parameter');

export const plainModelNotFound = (model: string): Refusal =>
  modelRefusal(404, 'model_not_found', `The model '${model}' does not exist`);

export const plainOperationNotSupported = (operation: OperationName): Refusal =>
  modelRefusal(404, null, WORDS[operation].misplaced, 'model');

export const resourceNotFound = (): Refusal => gateway(404, '404', 'Resource not found');

export const apiVersionNotSupported = (): Refusal => gateway(400, 'BadRequest', 'API version not supported');

export function deploymentNotFound(): Refusal {
  return gateway(
    404,
    'DeploymentNotFound',
    'The API deployment for this resource does not exist. If you created the deployment within the last 5 ' +
      'minutes, please wait a moment and try again.',
  );
}

export function operationNotSupported(model: string, operation: OperationName): Refusal {
  return gateway(
    400,
    'OperationNotSupported',
    `The ${WORDS[operation].refused} operation does not work with the specified model, ${model}. Please choose different model and try again.`,
  );
}

export const idNotFound = (what: 'file' | 'batch', id: string): Refusal =>
  modelRefusal(404, null, `No ${what} found with id '${id}'.`, 'id');

export const batchEnded = (status: string): Refusal =>
  modelRefusal(409, null, `Cannot cancel a batch with status '${status}'.`);

export const bodyTooLarge = (limit: number): Refusal =>
  gateway(413, '413', `The request body is larger than ${limit} bytes.`);

export const mediaTypeNotSupported = (contentType: string): Refusal =>
  gateway(415, '415', `The content type ${contentType} is not supported; use application/json.`);

export function bodyNotJson(operation: string): Refusal {
  return invalidRequest(
    `We could not parse the JSON body of your request: the ${operation} operation expects a JSON object.`,
  );
}

/** @param report what the filter found; `null` for the older body without `innererror` */
export function promptBlocked(report: FilterReport | null): Refusal {
  const error = {
    message:
      "The response was filtered due to the prompt triggering the service's content management policy. " +
      'Please modify your prompt and retry.',
    type: null,
    param: 'prompt',
    code: 'content_filter',
    status: 400,
  };
  const innererror = { code: 'ResponsibleAIPolicyViolation', content_filter_result: { ...report } };
  return new Refusal({ status: 400, body: { error: report ? { ...error, innererror } : error } }, true);
}

/**
 * How a 429 says when to retry: seconds or an HTTP date in `Retry-After`, milliseconds in `retry-after-ms`,
 * in the text of its message only, or not at all. All of them were seen.
 */
export const HINTS = ['seconds', 'ms', 'date', 'words', 'none'] as const;
export type Hint = (typeof HINTS)[number];

interface Shortage extends Omit<CalledModel, 'model'> {
  readonly limit: 'requests' | 'tokens';
  /** Milliseconds until there is quota again. */
  readonly retryAfterMs: number;
}

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
function rateLimitedInShort(retryAfterMs: number, hint: Hint): Reply {
  const when = hint === 'none' ? '' : ` Try again in ${secondsIn(retryAfterMs)} seconds.`;
  return {
    status: 429,
    headers: hintHeaders(retryAfterMs, hint),
    body: { statusCode: 429, message: `Rate limit is exceeded.${when}` },
  };
}

/** The quota headers of a response. Remaining requests are those of the current window. */
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

function gatewayBody({ limit, subject, operation }: Shortage, seconds: number | null) {
  const when = seconds === null ? '' : ` Please retry after ${seconds} seconds.`;
  const message =
    `Requests to the ${WORDS[operation].limited} Operation under API version ${subject} have exceeded ` +
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
      // A date has whole seconds: round up, so that nobody retries too soon.
      return { 'retry-after': new Date(Date.now() + ms + 999).toUTCString() };
    case 'words':
    case 'none':
      return {};
  }
}

const secondsIn = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/** Milliseconds in the hint of an injected 429. */
const SHORT_WAIT = 1000;

/** A reply with the status, in one of the bodies that were seen with it; `random` chooses. */
export function faultReply(status: number, called: CalledModel, hint: Hint, random: () => number): Reply {
  return pick(random, repliesOf(status, called, hint));
}

/** The account has no credit left: waiting does not help. */
export function insufficientQuota(): Reply {
  const message = 'You exceeded your current quota, please check your plan and billing details.';
  const code = 'insufficient_quota';
  return { status: 429, body: { error: { message, type: code, param: null, code } } };
}

/** A defect of the emulator, in the service's error form, with the cause. */
export function serverError(cause: unknown): Reply {
  const message = `The emulator had an error while processing your request: ${String(cause)}`;
  return { status: 500, body: { error: { message, type: 'server_error', param: null, code: null } } };
}

export function garbage(): Reply {
  return { status: 200, body: html('Welcome') };
}

function repliesOf(
  status: number,
  { model, ...called }: CalledModel,
  hint: Hint,
): readonly [Reply, ...Reply[]] {
  const said = (code: string, message: string) => gateway(status, code, message).reply;
  const plain = (body: Json): Reply => ({ status, body });
  const text = STATUS_CODES[status] ?? 'Unknown status';
  switch (status) {
    case 301:
    case 302:
    case 307:
    case 308:
      // A name that never resolves: following it leads nowhere.
      return [{ status, body: '', headers: { location: 'https://elsewhere.invalid/' } }];
    case 400:
      return [
        invalidRequest("3 is greater than the maximum of 2 - 'temperature'").reply,
        apiVersionNotSupported().reply,
      ];
    case 401:
      return [keyRefused().reply, tokenRefused().reply];
    case 403:
      return [
        said('AccessDenied', 'Access denied due to Virtual Network/Firewall rules.'),
        said('403', 'The resource was blocked because of unusual behavior. Please contact support.'),
      ];
    case 404:
      return [deploymentNotFound().reply, resourceNotFound().reply];
    case 408:
      return [said('Timeout', 'The operation was timeout.')];
    case 422:
      return [plain({ error: 'Input validation error', error_type: 'validation' })];
    case 424:
      return [plain({ error: 'Request failed during generation', error_type: 'generation' })];
    case 429: {
      const limited = (limit: 'requests' | 'tokens') =>
        rateLimited({ ...called, limit, retryAfterMs: SHORT_WAIT }, hint);
      return [limited('requests'), limited('tokens'), rateLimitedInShort(SHORT_WAIT, hint)];
    }
    case 498:
      return [noCapacity(498)];
    case 500: {
      const message = 'The server had an error while processing your request. Sorry about that!';
      return [
        plain({ error: { message, type: 'server_error', param: null, code: null } }),
        plain({ statusCode: 500, message: 'Internal server error', activityId: randomUUID() }),
      ];
    }
    case 502:
    case 504:
      return [plain(''), plain(html(`${status} ${text}`)), plain(text)];
    case 503:
      return [
        plain(''),
        plain(html(`${status} ${text}`)),
        plain(text),
        plain({ error: `Model ${model.id} is currently loading`, estimated_time: 20 }),
      ];
    default:
      return [said(String(status), text)];
  }
}

function html(title: string): string {
  return `<!DOCTYPE html>\n<html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>\n`;
}
