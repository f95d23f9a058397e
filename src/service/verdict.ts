import type { CalledOutcome, Completion, Filters, Problem, Tokens } from '../core/model.js';
import { modelsFor } from './catalogue.js';
import type { Exchange, Failure, FailureCode, Response } from './exchange.js';
import { type Operation, otherOperation } from './operation.js';
import { ADVICE, means } from './quirks.js';
import {
  anyFiltered,
  type ExpectedAnswers,
  isBlocked,
  type ParsedResponse,
  readAnswers,
  readError,
  type ServiceError,
} from './response.js';

/**
 * Decides what an exchange means: `ofReading` for a success, the first match of `RULES` for an error, `ofFailure`
 * where no whole response arrived. With `quirks.ts` this is the only place that branches on the words of a
 * message.
 *
 * A hint of 86,400 s is how the service says that one request is larger than the whole quota. It is final for
 * its row alone, because smaller rows still pass; any other long hint is a wait, which the caller clamps.
 */
export type Verdict = Final | Unsettled | Wait | NoRoom | NoCapacity;

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
  readonly problem: Problem;
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
  readonly problem: Problem;
}

/** No room beside the other calls: the row is called again when fewer are in flight. */
export interface NoRoom {
  readonly kind: 'no_room';
  readonly problem: Problem;
}

/** The flex tier has no capacity now. The call cost nothing, and counts on no quota: the row is called again later. */
export interface NoCapacity {
  readonly kind: 'no_capacity';
  readonly problem: Problem;
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
  asked: ExpectedAnswers & OfRequest,
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
  /** The request has a schema for the answer. @default false */
  readonly withSchema?: boolean;
}

interface Called {
  readonly attempts: number;
  readonly latency_ms: number;
}

/** Marks the texts with bytes that were no UTF-8. They are paid for and may be useful, so they are kept. */
function marked(reading: ParsedResponse): ParsedResponse {
  if (!reading.ok) return reading;
  const { others, ...completion } = reading.completion;
  return { ...reading, completion: { ...mark(completion), ...(others && { others: others.map(mark) }) } };
}

const mark = <C extends { readonly text: string | null }>(choice: C): C =>
  choice.text?.includes('\ufffd') ? { ...choice, damaged: 'bytes' } : choice;

const PROXY_USER =
  'Put user and password of the proxy into HTTPS_PROXY or HTTP_PROXY, as http://USER:PASSWORD@HOST:PORT.';

/** The code of the problem, and what to fix where no pause ends it. */
const FAILURES: {
  readonly [code in FailureCode]: readonly [problem: string, hint?: string, certainty?: Certainty];
} = {
  timeout: ['timeout'],
  dns: ['dns_failure'],
  refused: ['connection_refused'],
  unreachable: ['connection_failed'],
  tls: ['tls_failure'],
  plain_http: [
    'plain_http',
    'Write http:// in place of https:// in PROMPTMILL_BASE_URL, or name the port that speaks https.',
  ],
  proxy: ['proxy_refused'],
  proxy_auth: ['proxy_unauthorized', PROXY_USER],
  reset: ['connection_reset'],
  closed: ['connection_closed'],
  encoded: [
    'unknown_encoding',
    'Have the server, or the gateway before it, answer without compression: Promptmill asks for none, and reads gzip, deflate and br.',
  ],
  truncated: ['truncated_response'],
  too_large: ['response_too_large'],
  not_http: ['invalid_http'],
  aborted: ['aborted'],
  no_descriptor: ['too_many_open_files', 'Raise the limit (ulimit -n 1024) or lower --concurrency.', 'sure'],
  no_memory: [
    'no_memory',
    'Raise the limit (ulimit -v unlimited): a process that connects reserves 10 GB of addresses, and uses few of them.',
    'sure',
  ],
};
/** Never after the request was sent. */
const UNSENT: ReadonlySet<FailureCode> = new Set(['proxy_auth', 'no_descriptor', 'no_memory']);

function ofFailure({ code, message, phase, latency_ms, unheard }: Failure): Verdict {
  const [name, hint, certainty = 'likely'] = FAILURES[code];
  const failed = {
    problem: { code: name, message },
    latency_ms,
    // For an aborted call this is unknown.
    connected: phase !== 'connect' || code === 'aborted' || code === 'closed',
    possiblyBilled: phase === 'exchange' && !UNSENT.has(code),
    ...(unheard && { unheard }),
  };
  return hint === undefined ? { kind: 'retry', ...failed } : { kind: 'stop', ...failed, hint, certainty };
}

const CHECK_ADDRESS =
  'Check PROMPTMILL_BASE_URL: a page comes from a portal, a login or a proxy, and not from the service.';

const checkDeployment = ({ name }: Operation): string =>
  `Check that service.deployment answers the ${name} operation, and that PROMPTMILL_BASE_URL is its address.`;

const WITHOUT_VOTES =
  'A server that does not know the parameter n cannot vote: take answer.votes out of the job.';

const otherDeployment = (operation: Operation): string =>
  `The job calls the ${operation.name} operation: write service: { operation: ${otherOperation(operation)} }, ` +
  `or set service.deployment to a deployment of ${modelsFor(operation)}.`;

function ofReading(reading: ParsedResponse, called: Called, operation: Operation): Verdict {
  const { attempts, latency_ms } = called;
  const unsettled = (problem: Problem) => ({ problem, latency_ms, connected: true, possiblyBilled: true });
  if (!reading.ok) {
    const { problem, form } = reading;
    if (form === 'page')
      return { kind: 'stop', ...unsettled(problem), hint: CHECK_ADDRESS, certainty: 'vague' };
    if (form === 'only_one') return { kind: 'retry', ...unsettled(problem), hint: WITHOUT_VOTES };
    return { kind: 'retry', ...unsettled(problem), alone: form === 'mixed_up' };
  }
  const { completion, filters, noText, spent } = reading;
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
  if (spent !== undefined)
    return finalOf({ status: 'failed', error: spent, completion, attempts, latency_ms });
  if (noText === undefined) {
    return finalOf({ status: 'completed', completion, filters, attempts, latency_ms });
  }
  const { problem, isOther } = noText;
  if (isOther)
    return { kind: 'stop', ...unsettled(problem), hint: otherDeployment(operation), certainty: 'likely' };
  return { kind: 'retry', ...unsettled(problem), hint: checkDeployment(operation) };
}

function blockedSide(completion: Completion, filters: Filters): 'prompt' | 'completion' | null {
  if (isBlocked(completion.finish_reason, filters.completion)) return 'completion';
  return anyFiltered(filters.prompt) ? 'prompt' : null;
}

type Rule = {
  readonly when: (
    error: ServiceError,
    asked: OfRequest & Pick<ExpectedAnswers, 'withLogprobs' | 'tier'>,
  ) => boolean;
  readonly code: string;
} & (
  | { readonly kind: 'filtered' | 'failed' | 'wait' | 'no_capacity' }
  | {
      readonly kind: 'stop';
      readonly hint: string | ((operation: Operation) => string);
      readonly certainty?: Certainty;
    }
  | {
      readonly kind: 'retry';
      readonly possiblyBilled: boolean;
      readonly sign?: Pick<Unsettled, 'notReady' | 'mayBeRequest' | 'noRoom'>;
    }
);

const statusIs =
  (...codes: readonly number[]) =>
  (error: ServiceError): boolean =>
    codes.includes(error.status);

/** Words count only with 400 and 404, so that no other text can stop a run. */
const says = (error: ServiceError, words: RegExp): boolean =>
  (error.status === 400 || error.status === 404) && words.test(error.message);

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
    when: (error) => error.code === 'OperationNotSupported' || means('other_operation')(error),
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
    when: (error, { tier }) => tier === 'flex' && means('no_capacity')(error),
    kind: 'no_capacity',
    code: 'no_capacity',
  },
  {
    when: means('no_credit'),
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
    when: means('unknown_model'),
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
  { when: means('too_long'), kind: 'failed', code: 'context_length_exceeded' },
  {
    when: (error, { ownFields = [] }) =>
      (means('unsupported')(error) || means('schema')(error)) && ownFields.some(namedIn(error.message)),
    kind: 'failed',
    code: 'not_supported',
  },
  {
    when: (error, { tier }) => tier === 'flex' && means('no_flex')(error),
    kind: 'stop',
    code: 'not_supported',
    hint:
      'The deployment has no flex tier: write service: { tier: online }, and start over with --restart; or, to keep the rows that are there, ' +
      'service: { tier: { flex: 0s } }.',
  },
  {
    when: (error, { withSchema = false }) => withSchema && means('schema')(error),
    kind: 'stop',
    code: 'not_supported',
    hint: 'The server does not take the schema of the answer: write answer: { send_schema: false }, or take response_format out of parameters. The answers are checked all the same.',
  },
  {
    when: (error, { withLogprobs }) =>
      withLogprobs &&
      means('unsupported')(error) &&
      ['logprobs', 'top_logprobs', 'temperature'].some((field) => namedIn(error.message)(field)),
    kind: 'stop',
    code: 'not_supported',
    hint: 'The model gives no log probabilities, as reasoning models do: write answer.votes: 5 in place of answer.confidence: logprobs, and take temperature and logprobs out of parameters.',
  },
  { when: means('too_many_choices'), kind: 'stop', code: 'not_supported', hint: ADVICE.fewer_choices },
  {
    when: means('unsupported'),
    kind: 'stop',
    code: 'not_supported',
    hint: 'The server cannot do what the request asks for: take the field that it names out of parameters and row_parameters, or check PROMPTMILL_BASE_URL.',
  },
  {
    when: means('loading'),
    kind: 'retry',
    code: 'not_ready',
    possiblyBilled: false,
    sign: { notReady: true },
  },
  { when: statusIs(503), kind: 'retry', code: 'server_error', possiblyBilled: false },
  {
    when: means('out_of_room'),
    kind: 'retry',
    code: 'context_length_exceeded',
    possiblyBilled: false,
    sign: { mayBeRequest: true, noRoom: true },
  },
  {
    when: ({ status }) => status >= 500,
    kind: 'retry',
    code: 'server_error',
    possiblyBilled: false,
    sign: { mayBeRequest: true },
  },
  { when: statusIs(413), kind: 'failed', code: 'request_too_large' },
];

const OTHERWISE: Rule = { when: () => true, kind: 'failed', code: 'invalid_request' };

function ofError(
  response: Response,
  now: number,
  called: Called,
  asked: ExpectedAnswers & OfRequest,
): Verdict {
  const { operation, path } = asked;
  const error = readError(response.status, response.body);
  const rule = RULES.find(({ when }) => when(error, asked)) ?? OTHERWISE;
  const where = rule.code === 'redirected' ? redirectTarget(response.headers['location']) : error.message;
  const through = response.proxy === undefined ? '' : `, through the proxy ${response.proxy}`;
  const at = rule.code === 'not_found' && path !== undefined ? ` at ${path}` : '';
  const problem = { code: rule.code, message: `${where} (HTTP ${error.status}${at}${through})` };
  const unsettled = { problem, latency_ms: response.latency_ms, connected: true };
  switch (rule.kind) {
    case 'filtered': {
      const filters = { prompt: error.filters, completion: null };
      return {
        kind: 'final',
        outcome: { status: 'filtered', completion: null, filters, error: problem, ...called },
      };
    }
    case 'failed':
      return { kind: 'final', outcome: { status: 'failed', error: problem, ...called } };
    case 'stop': {
      const { hint, certainty = 'likely' } = rule;
      const text = typeof hint === 'string' ? hint : hint(operation);
      return { kind: 'stop', ...unsettled, hint: text, certainty, possiblyBilled: false };
    }
    case 'no_capacity':
      return { kind: 'no_capacity', problem };
    case 'retry':
      return { ...unsettled, ...rule.sign, kind: 'retry', possiblyBilled: rule.possiblyBilled };
    case 'wait': {
      const ms = waitHint(response.headers, error.message, now);
      if (ms !== LARGER_THAN_QUOTA_MS) return { kind: 'wait', ms, problem };
      const final = { code: 'request_exceeds_quota', message: problem.message };
      return { kind: 'final', outcome: { status: 'failed', error: final, ...called } };
    }
  }
}

export const refusesOlderLimit = (exchange: Exchange): boolean =>
  exchange.kind === 'response' &&
  exchange.status >= 400 &&
  means('newer_limit')(readError(exchange.status, exchange.body));

const LARGER_THAN_QUOTA_MS = 86_400_000;

/** In milliseconds; takes the most exact hint, so it is never sooner than asked. */
export function waitHint(headers: Response['headers'], message: string, now: number): number | null {
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
