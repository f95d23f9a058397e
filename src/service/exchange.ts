import { errorCode } from '../errors.js';

/** What became of one call, as plain data. */
export type Exchange = Response | Failure;

/** The service answered, with any status, and the whole body arrived. */
export interface Response {
  readonly kind: 'response';
  readonly status: number;
  /** Lower-case names; only those that Promptmill reads. */
  readonly headers: { readonly [name: string]: string };
  /** Decoded as UTF-8. */
  readonly body: string;
  /** The proxy that the request went to as a whole, and that may have answered in the place of the service. */
  readonly proxy?: string;
  /** Bytes of the body are no UTF-8: each such sequence is U+FFFD in it. */
  readonly notUtf8?: true;
  /** Milliseconds from the request to the last byte. */
  readonly latency_ms: number;
}

/** No whole answer arrived. */
export interface Failure {
  readonly kind: 'failure';
  /**
   * `connect`: the request never left this machine, or reached a connection that was closed, so it cannot have been billed.
   * `exchange`: it left, at least in part, and may have been.
   */
  readonly phase: 'connect' | 'exchange';
  readonly code: FailureCode;
  /** For people; holds no key, no prompt and no text of the service. */
  readonly message: string;
  /** The request was sent over a connection on which the server has never answered anything. */
  readonly unheard?: true;
  readonly latency_ms: number;
}

const REASONS = {
  timeout: 'no whole answer in time',
  dns: 'the host name cannot be resolved',
  refused: 'the connection was refused',
  unreachable: 'no connection',
  tls: 'no trusted TLS connection',
  plain_http: 'the port answers without TLS, so it speaks http and not https',
  proxy: 'the proxy refuses to connect',
  proxy_auth: 'the proxy refuses its user and password, or asks for them',
  reset: 'the connection was closed before an answer',
  closed: 'the connection, which the server had promised to keep, was closed before the request was read',
  encoded: 'the answer has a content-encoding that nobody asked for, and that cannot be read',
  truncated: 'the connection was closed in the middle of the answer',
  too_large: 'the answer is too large',
  not_http: 'the answer is not HTTP',
  aborted: 'the call was abandoned',
  no_descriptor: 'this process may open no more files, so no connection',
  no_memory: 'too little memory or address space for a connection',
} as const;

export type FailureCode = keyof typeof REASONS;

/**
 * How far a call had come: nothing sent, sent to a connection that the server had closed, the request sent (at least in part), the
 * head of an answer read.
 */
export type CallStage = 'queued' | 'unread' | 'sent' | 'answered';

/** Names a failure by the error's code; its message may hold anything and is not used. */
export function failureOf(error: unknown, stage: CallStage, host: string, latency_ms: number): Failure {
  // undici gives its parser errors a name and no code.
  const cause = error instanceof Error && error.name === 'HTTPParserError' ? PARSER : errorCode(error);
  const code = isOutOfMemory(error) ? 'no_memory' : failureCode(cause, stage);
  return {
    kind: 'failure',
    phase: stage === 'queued' || stage === 'unread' ? 'connect' : 'exchange',
    code,
    message: `${REASONS[code]}: ${host}${cause === '' ? '' : ` (${cause.replace(PROXY_REFUSED, 'HTTP ').replace(ENCODED, '')})`}`,
    latency_ms,
  };
}

/** undici reads answers in WebAssembly, which reserves 10 GB of addresses for each of its memories. */
const isOutOfMemory = (error: unknown): boolean =>
  error instanceof RangeError && /WebAssembly.*memory/i.test(error.message);

/** Codes of Node.js, OpenSSL and undici. A closed connection means what the stage makes of it. */
function failureCode(code: string, stage: CallStage): FailureCode {
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'dns';
  if (code === 'ECONNREFUSED') return 'refused';
  if (code === 'EMFILE' || code === 'ENFILE') return 'no_descriptor';
  if (code === DEADLINE || code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') return 'timeout';
  if (code.startsWith(PROXY_REFUSED)) return code === `${PROXY_REFUSED}407` ? 'proxy_auth' : 'proxy';
  if (code === TOO_LARGE) return 'too_large';
  if (code.startsWith(ENCODED)) return 'encoded';
  if (stage === 'unread') return 'closed';
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') return 'aborted';
  if (PLAIN_HTTP.has(code)) return 'plain_http';
  if (/^EPROTO$|^ERR_(TLS|SSL)_|CERT|SIGNATURE|ISSUER/.test(code)) return 'tls';
  if (stage === 'queued') return 'unreachable';
  if (code === 'UND_ERR_HEADERS_OVERFLOW' || (code === PARSER && stage === 'sent')) return 'not_http';
  return stage === 'answered' ? 'truncated' : 'reset';
}

/** What TLS makes of an answer that begins like one of HTTP. */
const PLAIN_HTTP = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

const PARSER = 'UND_ERR_HTTP_PARSER';

/** How the code of an error begins whose end is the status with which a proxy refused a connection. */
export const PROXY_REFUSED = 'PROXY_';

/** Code of the error for an answer above the largest that is read. */
export const TOO_LARGE = 'UND_ERR_RES_EXCEEDED_MAX_SIZE';

/** How the code of an error begins whose end is a content-encoding that cannot be read. */
export const ENCODED = 'ENCODED_';

/** Code of the error with which a call ends itself when its time is over. */
export const DEADLINE = 'DEADLINE';

/** The quota per minute as the service says it; null where it says nothing. */
export interface AdvertisedQuota {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
}

/**
 * What an answer says of the quota, in `x-ratelimit-limit-requests` and `-tokens`. The service sends them at times;
 * −1 and 0 are how it says that it does not say.
 */
export function advertisedQuota(exchange: Exchange): AdvertisedQuota {
  const headers = exchange.kind === 'response' ? exchange.headers : {};
  return {
    requestsPerMinute: amount(headers['x-ratelimit-limit-requests']),
    tokensPerMinute: amount(headers['x-ratelimit-limit-tokens']),
  };
}

const amount = (text: string | undefined): number | null =>
  text !== undefined && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
