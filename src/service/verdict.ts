import type { CalledOutcome, Completion, Fault, Filters, Tokens } from '../model.js';
import { modelsFor } from './catalogue.js';
import type { Exchange, Failure, FailureCode, Response } from './exchange.js';
import type { Operation } from './operation.js';
import {
  type Asked,
  anyFiltered,
  isBlocked,
  type Reading,
  readAnswers,
  readError,
  type ServiceError,
} from './response.js';

/**
 * Decides what an exchange means. The table below is the whole policy, first match wins; it is also the only
 * place that branches on the words of a message.
 *
 * | what happened | verdict | fault |
 * | --- | --- | --- |
 * | 2xx with a text, even an empty one | final: `completed`, or `filtered` when a filter blocked | `content_filter` |
 * | 2xx whose text a filter removed | final: `filtered` | `content_filter` |
 * | 2xx in the form of another operation | stop, possibly billed | `operation_not_supported` |
 * | 2xx with a choice without a text | retry, possibly billed; stop when row after row has none | `no_text` |
 * | 2xx with choices that cannot be told apart | retry, each row alone, possibly billed | `choices_mixed_up` |
 * | 2xx with one choice instead of several | retry, possibly billed; stop when row after row has one | `choices_missing` |
 * | 2xx that is a web page | stop, possibly billed | `not_json` |
 * | 2xx not JSON, `{error}`, no choices | retry, possibly billed | `not_json`, `error_in_answer`, `no_choices` |
 * | 3xx | stop | `redirected` |
 * | 4xx `content_filter` | final: `filtered` | `content_filter` |
 * | 401 | retry; the caller tries the other key first, and stops when none is left | `unauthorized` |
 * | 407, also to the CONNECT of a tunnel | stop | `proxy_unauthorized` |
 * | 400, 404 conversation model | stop | `operation_not_supported` |
 * | 400, 404 api-version | stop | `api_version_not_supported` |
 * | `insufficient_quota`, `budget_exceeded`, 402 | stop | `insufficient_quota` |
 * | 429 with a hint of exactly 86,400 s | final: `failed` | `request_exceeds_quota` |
 * | 429 | wait | `rate_limited` |
 * | 403 | stop | `forbidden` |
 * | 400, 404 `DeploymentNotFound`, `model_not_found`, or words for it | stop | `deployment_not_found` |
 * | 404, 405, 410 | stop | `not_found` |
 * | 408 | retry, possibly billed | `timeout` |
 * | 409, 424, 425 | retry | `conflict`, `failed_dependency`, `too_early` |
 * | 502, 504 | retry, possibly billed: the gateway gave up, the model may have answered | `server_error` |
 * | "maximum context length", "context length is only", "exceeds the available context size" | final: `failed` | `context_length_exceeded` |
 * | 501, other 5xx that begin with "unsupported", 400, 422 that begin with "suffix is not supported" (also `best_of`, `echo`, `logprobs`, `logit_bias`), for a field set by the row | final: `failed` | `not_supported` |
 * | 400, 5xx that begin with words for fewer choices than `n` asks for | stop | `not_supported` |
 * | 501, other 5xx that begin with "unsupported", 400, 422 that begin with "suffix is not supported" (also `best_of`, `echo`, `logprobs`, `logit_bias`) | stop | `not_supported` |
 * | 503 while the server loads its model | retry, treated like a refused connection | `not_ready` |
 * | 503 | retry | `server_error` |
 * | other 5xx that begin with "Context size has been exceeded", "Input prompt is too big compared to KV size" | retry; beside other calls, again when fewer are in flight | `context_length_exceeded` |
 * | other 5xx | retry; when all rows get the same, a plain call tells whether their requests are the cause | `server_error` |
 * | 413 | final: `failed` | `request_too_large` |
 * | other 4xx | final: `failed` | `invalid_request` |
 * | never connected: no file descriptor left | stop | `too_many_open_files` |
 * | never connected: no address space left | stop | `no_memory` |
 * | TLS to a port that speaks plain HTTP | stop | `plain_http` |
 * | never connected | retry | `dns_failure`, `connection_refused`, `proxy_refused`, `connection_failed`, `tls_failure`, `timeout` |
 * | kept connection closed before the request was read | retry | `connection_closed` |
 * | an encoded response that cannot be read | stop, possibly billed | `unknown_encoding` |
 * | cut off after the request left | retry, possibly billed | `connection_reset`, `truncated_response`, `response_too_large`, `invalid_http`, `timeout`, `aborted` |
 *
 * A hint of 86,400 s is how the service says that one request is larger than the whole quota. It is final for
 * its row alone, because smaller rows still pass; any other long hint is a wait, which the caller clamps.
 */
export type Verdict = Final | Unsettled | Wait | NoRoom;

export interface Final {
  readonly kind: 'final';
  readonly outcome: CalledOutcome;
  /** Set when the answer does not fit: how often the row was asked so far. It is asked again. */
  readonly interim?: number;
  /**
   * Set when the service's token counts were invalid. `sent`: no counts yet. `counted`, `guessed`: ours, with
   * or without the model's tokenizer.
   */
  readonly oddUsage?: 'sent' | 'counted' | 'guessed';
  /** Upper bound of guessed counts. */
  readonly mostUsage?: Tokens;
  /** The usage is of this prompt alone, even if the request had several. */
  readonly ownUsage?: true;
  /** Logged once. */
  readonly notice?: Notice;
}

/**
 * `short_usage`: the counts for several prompts or choices are far too low, as if only the first was counted.
 * `prompt_cut`: the server read far fewer tokens than the prompt has.
 */
export type Notice = 'short_usage' | 'prompt_cut';

export interface Unsettled {
  /** `retry`: may be called again. `stop`: no call can succeed until a person fixes the cause. */
  readonly kind: 'retry' | 'stop';
  readonly fault: Fault;
  readonly latency_ms: number;
  readonly connected: boolean;
  /** The server has never answered on this connection. */
  readonly unheard?: true;
  /** The server failed without claiming to be busy or away: the request may be the cause. */
  readonly mayBeRequest?: true;
  /** The server is still starting. */
  readonly notReady?: true;
  /** The server had no room for the concurrent calls: alone it may pass. */
  readonly noRoom?: true;
  /** A second call may be paid for twice. */
  readonly possiblyBilled: boolean;
  /** The row's next request must hold it alone. @default false */
  readonly alone?: boolean;
  /** What to fix if it stops the run, one sentence. @default none: a pause may help */
  readonly hint?: string;
  /** For a `stop`: how much it says about later calls. While that is too little, the row is retried. */
  readonly certainty?: Certainty;
}

export interface Wait {
  readonly kind: 'wait';
  /** In milliseconds, not clamped; null when the service does not say. */
  readonly ms: number | null;
  readonly fault: Fault;
}

/** No room beside the other calls: the row is called again when fewer are in flight. */
export interface NoRoom {
  readonly kind: 'no_room';
  readonly fault: Fault;
}

/**
 * What a stop says about later calls. `sure`: the account is refused. `likely`: wrong address, deployment or
 * operation, unless a gateway misrouted the request. `vague`: a page, which a starting gateway sends, too.
 */
export type Certainty = 'sure' | 'likely' | 'vague';

/**
 * Only a successful response can mean different things for its prompts.
 * @param now ms since 1970, for a date in `retry-after`
 * @param attempts calls made for its rows, including this one
 */
export function verdicts(
  exchange: Exchange,
  now: number,
  asked: Asked & OfRequest,
  attempts: number,
): readonly Verdict[] {
  const called = { attempts, latency_ms: exchange.latency_ms };
  if (exchange.kind === 'response' && exchange.status >= 200 && exchange.status < 300) {
    return readAnswers(exchange.body, asked).map((reading) =>
      ofReading(exchange.notUtf8 ? marked(reading) : reading, called, asked.operation),
    );
  }
  const one = exchange.kind === 'failure' ? ofFailure(exchange) : ofError(exchange, now, called, asked);
  return Array.from({ length: asked.prompts }, () => one);
}

interface OfRequest {
  readonly path?: string;
  /** Parameters set by the row itself: an error about them says nothing about other rows. @default none */
  readonly ownFields?: readonly string[];
}

interface Called {
  readonly attempts: number;
  readonly latency_ms: number;
}

/** Marks the texts with bytes that were no UTF-8. They are paid for and may be useful, so they are kept. */
function marked(reading: Reading): Reading {
  if (!reading.ok) return reading;
  const { others, ...completion } = reading.completion;
  return { ...reading, completion: { ...mark(completion), ...(others && { others: others.map(mark) }) } };
}

const mark = <C extends { readonly text: string | null }>(choice: C): C =>
  choice.text?.includes('\ufffd') ? { ...choice, damaged: 'bytes' } : choice;

const FAILURES: { readonly [code in FailureCode]: string } = {
  timeout: 'timeout',
  dns: 'dns_failure',
  refused: 'connection_refused',
  unreachable: 'connection_failed',
  tls: 'tls_failure',
  plain_http: 'plain_http',
  proxy: 'proxy_refused',
  proxy_auth: 'proxy_unauthorized',
  reset: 'connection_reset',
  closed: 'connection_closed',
  encoded: 'unknown_encoding',
  truncated: 'truncated_response',
  too_large: 'response_too_large',
  not_http: 'invalid_http',
  aborted: 'aborted',
  no_descriptor: 'too_many_open_files',
  no_memory: 'no_memory',
};

const PROXY_USER =
  'Put user and password of the proxy into HTTPS_PROXY or HTTP_PROXY, as http://USER:PASSWORD@HOST:PORT.';

function ofFailure({ code, message, phase, latency_ms, unheard }: Failure): Verdict {
  const failed = {
    fault: { code: FAILURES[code], message },
    latency_ms,
    // For an aborted call this is unknown.
    connected: phase !== 'connect' || code === 'aborted' || code === 'closed',
    possiblyBilled: phase === 'exchange',
    ...(unheard && { unheard }),
  };
  if (code === 'proxy_auth') {
    return { kind: 'stop', ...failed, hint: PROXY_USER, certainty: 'likely', possiblyBilled: false };
  }
  if (code === 'plain_http') {
    const hint =
      'Write http:// in place of https:// in PROMPTMILL_BASE_URL, or name the port that speaks https.';
    return { kind: 'stop', ...failed, hint, certainty: 'likely' };
  }
  if (code === 'encoded') {
    const hint =
      'Have the server, or the gateway before it, answer without compression: Promptmill asks for none, and reads gzip, deflate and br.';
    return { kind: 'stop', ...failed, hint, certainty: 'likely' };
  }
  if (code === 'no_descriptor' || code === 'no_memory') {
    const hint =
      code === 'no_memory'
        ? 'Raise the limit (ulimit -v unlimited): a process that connects reserves 10 GB of addresses, and uses few of them.'
        : 'Raise the limit (ulimit -n 1024) or lower --concurrency.';
    return { kind: 'stop', ...failed, hint, certainty: 'sure', possiblyBilled: false };
  }
  return { kind: 'retry', ...failed };
}

const CHECK_ADDRESS =
  'Check PROMPTMILL_BASE_URL: a page comes from a portal, a login or a proxy, and not from the service.';

const checkDeployment = ({ name }: Operation): string =>
  `Check that service.deployment answers the ${name} operation, and that PROMPTMILL_BASE_URL is its address.`;

const WITHOUT_VOTES =
  'A server that does not know the parameter n cannot vote: take answer.votes out of the job.';

const FEWER_VOTES =
  'The server gives fewer choices than answer.votes asks for: lower answer.votes or take it out of the job (llama.cpp gives as many as it has slots, --parallel, and one before December 2025).';

const otherDeployment = (operation: Operation): string =>
  `Promptmill calls the ${operation.name} operation: set service.deployment to a deployment of ${modelsFor(operation)}.`;

function ofReading(reading: Reading, called: Called, operation: Operation): Verdict {
  const { attempts, latency_ms } = called;
  const unsettled = (fault: Fault) => ({ fault, latency_ms, connected: true, possiblyBilled: true });
  if (!reading.ok) {
    const { fault, form } = reading;
    if (form === 'page')
      return { kind: 'stop', ...unsettled(fault), hint: CHECK_ADDRESS, certainty: 'vague' };
    if (form === 'only_one') return { kind: 'retry', ...unsettled(fault), hint: WITHOUT_VOTES };
    return { kind: 'retry', ...unsettled(fault), alone: form === 'mixed_up' };
  }
  const { completion, filters, noText } = reading;
  const finalOf = (outcome: CalledOutcome): Final =>
    reading.oddUsage || reading.ownUsage
      ? {
          ...{ kind: 'final', outcome },
          ...(reading.oddUsage && { oddUsage: 'sent' }),
          ...(reading.ownUsage && { ownUsage: true }),
        }
      : { kind: 'final', outcome };
  const side = blockedSide(completion, filters);
  if (side !== null) {
    const error = { code: 'content_filter', message: `the content filter blocked the ${side}` };
    return finalOf({ status: 'filtered', completion, filters, error, attempts, latency_ms });
  }
  if (noText === undefined) {
    return finalOf({ status: 'completed', completion, filters, attempts, latency_ms });
  }
  const { fault, isOther } = noText;
  if (isOther)
    return { kind: 'stop', ...unsettled(fault), hint: otherDeployment(operation), certainty: 'likely' };
  return { kind: 'retry', ...unsettled(fault), hint: checkDeployment(operation) };
}

function blockedSide(completion: Completion, filters: Filters): 'prompt' | 'completion' | null {
  if (isBlocked(completion.finish_reason, filters.completion)) return 'completion';
  return anyFiltered(filters.prompt) ? 'prompt' : null;
}

type Rule = {
  readonly when: (error: ServiceError, ownFields: readonly string[]) => boolean;
  readonly code: string;
} & (
  | { readonly kind: 'filtered' | 'failed' | 'wait' }
  | {
      readonly kind: 'stop';
      readonly hint: string | ((operation: Operation) => string);
      readonly certainty?: Certainty;
    }
  | {
      readonly kind: 'retry';
      readonly possiblyBilled: boolean;
      readonly notReady?: true;
      readonly mayBeRequest?: true;
      readonly noRoom?: true;
    }
);

const statusIs =
  (...codes: readonly number[]) =>
  (error: ServiceError): boolean =>
    codes.includes(error.status);

/** Words count only with 400 and 404, so that no other text can stop a run. */
const says = (error: ServiceError, words: RegExp): boolean =>
  (error.status === 400 || error.status === 404) && words.test(error.message);

/**
 * llama.cpp: 500 "Unsupported param: suffix", "Only no echo is supported", or for embedding models "the
 * current context does not logits computation"; 501 "This server does not support …". vLLM: 400, Text
 * Generation Inference: 422 "Suffix is not supported". No pause mends that. Only the beginning of the message
 * counts, since a server may quote the prompt later on.
 */
const isUnsupported = ({ status, message }: ServiceError): boolean =>
  status === 501 ||
  (status >= 500 &&
    /^(unsupported (param|field|option|argument)|(this|the) \w+ does not support\b|the current context does not\b|only no \w+ is supported\b)/i.test(
      message,
    )) ||
  ((status === 400 || status === 422) &&
    /^(suffix|best_of|echo|logprobs|logit_bias) is not (currently )?supported\b/i.test(message));

/** llama.cpp: 500 from builds with one choice; 400, in older and newer words, with one per slot. */
const isTooManyChoices = ({ status, message }: ServiceError): boolean =>
  (status >= 500 && /^only one completion choice is allowed\b/i.test(message)) ||
  (status === 400 &&
    /^(field '(n|n_cmpl)': value must be between|n_cmpl cannot be greater than)\b/i.test(message));

/** llama.cpp, to all calls when they outgrow the context shared by its slots: in words of 2026 and 2025. */
const isOutOfRoom = ({ status, message }: ServiceError): boolean =>
  status >= 500 &&
  /^(context size has been exceeded|input prompt is too big compared to kv size)\b/i.test(message);

/** Exactly one name between the words, so that a message that begins with a prompt does not match. */
const NO_MODEL = [
  /^(the )?(requested )?(model|deployment):? ([`'"][^`'"]{1,200}[`'"]|[^\s`'"]{1,200}) ((was |is )?not found|does not exist|is not available|(is )?not loaded)\b/i,
  // Nothing may follow the name: `Unsupported model parameter: suffix` does not match.
  /^(no such|unknown|unsupported|invalid|(could|can) ?not find)( the)? (model|deployment)( name| id)?:? [`'"]?(?!param|type|input|output|arg|option|setting|config|format|version|field|value|prompt|error|re(sponse|quest)|kwargs|name|id\b)[^\s`'"]{1,200}[`'"]?[.!]?$/i,
  /^[`'"]?[^\s`'"]{1,200}[`'"]? is not a valid model( id| name)?[.!]?$/i,
  /^model (does )?not exist\b/i,
];

/**
 * Unknown model: 404 (the hosted service, vLLM, Ollama) or 400 (llama.cpp's router, LM Studio, the LiteLLM
 * proxy). With 400 the words must begin the message, since a server may quote the prompt later on.
 */
const isUnknownModel = ({ status, code, message }: ServiceError): boolean =>
  ((status === 400 || status === 404) &&
    (code === 'DeploymentNotFound' ||
      code === 'model_not_found' ||
      NO_MODEL.some((words) => words.test(message)) ||
      /^(invalid model (identifier|id)|failed to load model|no models? loaded)\b/i.test(message) ||
      /\binvalid model name passed\b/i.test(message))) ||
  (status === 404 && /\bmodel\b.*\b(does not exist|not found)\b/i.test(message));

const namedIn =
  (message: string) =>
  (field: string): boolean =>
    message.toLowerCase().split(/\W+/).includes(field);

const RULES: readonly Rule[] = [
  {
    when: ({ status }) => status < 400,
    kind: 'stop',
    code: 'redirected',
    hint: 'Set PROMPTMILL_BASE_URL to the address behind the redirect: redirects are not followed, because that would carry the key to another host.',
  },
  {
    when: (error) =>
      error.status < 500 &&
      (error.code === 'content_filter' || error.innerCode === 'ResponsibleAIPolicyViolation'),
    kind: 'filtered',
    code: 'content_filter',
  },
  { when: statusIs(401), kind: 'retry', code: 'unauthorized', possiblyBilled: false },
  { when: statusIs(407), kind: 'stop', code: 'proxy_unauthorized', hint: PROXY_USER },
  {
    when: (error) =>
      error.code === 'OperationNotSupported' ||
      says(error, /does not work with the specified model|is a chat model/i),
    kind: 'stop',
    code: 'operation_not_supported',
    hint: otherDeployment,
  },
  {
    when: (error) =>
      says(
        error,
        /api[ -]?version\b.*\b(not supported|unsupported|invalid)|(unsupported|invalid) api[ -]?version/i,
      ),
    kind: 'stop',
    code: 'api_version_not_supported',
    hint: 'Set service.api_version to a version that the service offers, for example 2023-09-15-preview.',
  },
  {
    when: (error) =>
      error.status === 402 ||
      error.code === 'insufficient_quota' ||
      error.type === 'insufficient_quota' ||
      // The LiteLLM proxy, with 400 or 429.
      error.type === 'budget_exceeded',
    kind: 'stop',
    code: 'insufficient_quota',
    hint: 'The account has no quota or credit left: raise it, then run the same command again.',
    certainty: 'sure',
  },
  { when: statusIs(429), kind: 'wait', code: 'rate_limited' },
  {
    when: statusIs(403),
    kind: 'stop',
    code: 'forbidden',
    hint: "The service refuses this machine or this resource: check the resource's network rules and its state.",
  },
  {
    when: isUnknownModel,
    kind: 'stop',
    code: 'deployment_not_found',
    hint: 'Set service.deployment to a deployment of this resource, or a model of this server; a new one takes some minutes to appear.',
  },
  {
    when: statusIs(404, 405, 410),
    kind: 'stop',
    code: 'not_found',
    hint: 'Check PROMPTMILL_BASE_URL (the address without the path of the operation), PROMPTMILL_SERVICE_SEGMENT, service.style and service.api_version.',
  },
  { when: statusIs(408), kind: 'retry', code: 'timeout', possiblyBilled: true },
  { when: statusIs(409), kind: 'retry', code: 'conflict', possiblyBilled: false },
  { when: statusIs(424), kind: 'retry', code: 'failed_dependency', possiblyBilled: false },
  { when: statusIs(425), kind: 'retry', code: 'too_early', possiblyBilled: false },
  { when: statusIs(502, 504), kind: 'retry', code: 'server_error', possiblyBilled: true },
  {
    when: (error) =>
      // llama.cpp, with 400 or 500.
      error.type === 'exceed_context_size_error' ||
      /exceeds the available context size/i.test(error.message) ||
      (error.status < 500 &&
        // vLLM of 2026 says "the model's context length is only".
        (error.code === 'context_length_exceeded' ||
          /maximum context length|context length is only/i.test(error.message))),
    kind: 'failed',
    code: 'context_length_exceeded',
  },
  {
    when: (error, ownFields) => isUnsupported(error) && ownFields.some(namedIn(error.message)),
    kind: 'failed',
    code: 'not_supported',
  },
  { when: isTooManyChoices, kind: 'stop', code: 'not_supported', hint: FEWER_VOTES },
  {
    when: isUnsupported,
    kind: 'stop',
    code: 'not_supported',
    hint: 'The server cannot do what the request asks for: take the field that it names out of parameters and row_parameters, or check PROMPTMILL_BASE_URL.',
  },
  {
    // llama.cpp while it loads its model.
    when: ({ status, type, message }) =>
      status === 503 &&
      (type === 'unavailable_error' || /\bloading model\b|\bmodel is loading\b/i.test(message)),
    kind: 'retry',
    code: 'not_ready',
    possiblyBilled: false,
    notReady: true,
  },
  { when: statusIs(503), kind: 'retry', code: 'server_error', possiblyBilled: false },
  {
    when: isOutOfRoom,
    kind: 'retry',
    code: 'context_length_exceeded',
    possiblyBilled: false,
    mayBeRequest: true,
    noRoom: true,
  },
  {
    when: ({ status }) => status >= 500,
    kind: 'retry',
    code: 'server_error',
    possiblyBilled: false,
    mayBeRequest: true,
  },
  { when: statusIs(413), kind: 'failed', code: 'request_too_large' },
];

const OTHERWISE: Rule = { when: () => true, kind: 'failed', code: 'invalid_request' };

function ofError(
  response: Response,
  now: number,
  called: Called,
  { operation, ownFields = [], path }: Asked & OfRequest,
): Verdict {
  const error = readError(response.status, response.body);
  const rule = RULES.find(({ when }) => when(error, ownFields)) ?? OTHERWISE;
  const where = rule.code === 'redirected' ? redirectTarget(response.headers['location']) : error.message;
  const through = response.proxy === undefined ? '' : `, through the proxy ${response.proxy}`;
  const at = rule.code === 'not_found' && path !== undefined ? ` at ${path}` : '';
  const fault = { code: rule.code, message: `${where} (HTTP ${error.status}${at}${through})` };
  const unsettled = { fault, latency_ms: response.latency_ms, connected: true };
  switch (rule.kind) {
    case 'filtered': {
      const filters = { prompt: error.filters, completion: null };
      return {
        kind: 'final',
        outcome: { status: 'filtered', completion: null, filters, error: fault, ...called },
      };
    }
    case 'failed':
      return { kind: 'final', outcome: { status: 'failed', error: fault, ...called } };
    case 'stop': {
      const { hint, certainty = 'likely' } = rule;
      const text = typeof hint === 'string' ? hint : hint(operation);
      return { kind: 'stop', ...unsettled, hint: text, certainty, possiblyBilled: false };
    }
    case 'retry':
      return {
        kind: 'retry',
        ...unsettled,
        possiblyBilled: rule.possiblyBilled,
        ...(rule.notReady && { notReady: true }),
        ...(rule.mayBeRequest && { mayBeRequest: true }),
        ...(rule.noRoom && { noRoom: true }),
      };
    case 'wait': {
      const ms = waitHint(response.headers, error.message, now);
      if (ms !== LARGER_THAN_QUOTA_MS) return { kind: 'wait', ms, fault };
      const final = { code: 'request_exceeds_quota', message: fault.message };
      return { kind: 'final', outcome: { status: 'failed', error: final, ...called } };
    }
  }
}

const LARGER_THAN_QUOTA_MS = 86_400_000;

/** In milliseconds; takes the most exact hint, so it is never sooner than asked. */
function waitHint(headers: Response['headers'], message: string, now: number): number | null {
  const exact = decimal(headers['retry-after-ms']);
  if (exact !== null) return Math.ceil(exact);
  const after = headers['retry-after'];
  const seconds = decimal(after);
  if (seconds !== null) return Math.ceil(seconds * 1000);
  // A date has a weekday; `Date.parse` would accept any number.
  const date = after !== undefined && /^[a-z]{3,9}, /i.test(after) ? Date.parse(after) : Number.NaN;
  if (!Number.isNaN(date)) return Math.max(0, date - now);
  const words = /(?:retry after|try again in) (\d+(?:\.\d+)?) ?(ms|milliseconds?|s|seconds?)\b/i.exec(
    message,
  );
  if (words === null) return null;
  return Math.ceil(Number(words[1]) * (words[2]?.startsWith('m') ? 1 : 1000));
}

const decimal = (text: string | undefined): number | null =>
  text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : null;

/** Host only: the rest of the address may hold anything. */
function redirectTarget(location: string | undefined): string {
  if (location === undefined) return 'the service redirects';
  return URL.canParse(location)
    ? `the service redirects to ${new URL(location).host}`
    : 'the service redirects to another path';
}
