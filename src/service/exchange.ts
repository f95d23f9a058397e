import { errorCode } from '../core/errors.js';

export type Exchange = Response | Failure;

export interface Response {
  readonly kind: 'response';
  readonly status: number;
  /** Lower-case names; only those Promptmill reads. */
  readonly headers: { readonly [name: string]: string };
  readonly body: string;
  /** The proxy that received the whole request, and may have answered instead of the service. */
  readonly proxy?: string;
  /** The body was not all UTF-8: U+FFFD replaces each bad sequence. */
  readonly notUtf8?: true;
  /** From the request to the last byte, in ms. */
  readonly latency_ms: number;
}

/** No complete response arrived. */
export interface Failure {
  readonly kind: 'failure';
  /**
   * `connect`: nothing was read by the service, so not billed. `exchange`: the request left, and may be
   * billed.
   */
  readonly phase: 'connect' | 'exchange';
  readonly code: FailureCode;
  /** Without keys, prompts, or text from the service. */
  readonly message: string;
  /** The server has never answered on this connection. */
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

/** `unread`: on a connection the server had closed. `sent`: at least in part. `answered`: headers arrived. */
export type CallStage = 'queued' | 'unread' | 'sent' | 'answered';

/** Classifies by the error's code. Its message may hold anything and is not used. */
export function failureOf(error: unknown, stage: CallStage, host: string, latency_ms: number): Failure {
  // undici's parser errors have a name, but no code.
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

/** undici parses in WebAssembly, which reserves 10 GB of address space for each memory. */
const isOutOfMemory = (error: unknown): boolean =>
  error instanceof RangeError && /WebAssembly.*memory/i.test(error.message);

/** Codes of Node.js, OpenSSL and undici. What a closed connection means depends on the stage. */
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

/** TLS's errors for a plain HTTP response. */
const PLAIN_HTTP = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

const PARSER = 'UND_ERR_HTTP_PARSER';

/** Error code prefix; the proxy's status follows. */
export const PROXY_REFUSED = 'PROXY_';

export const TOO_LARGE = 'UND_ERR_RES_EXCEEDED_MAX_SIZE';

/** Error code prefix; the unreadable content-encoding follows. */
export const ENCODED = 'ENCODED_';

export const DEADLINE = 'DEADLINE';

/** Per minute; null where the service does not say. */
export interface AdvertisedQuota {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
}

/** From `x-ratelimit-limit-*`, which the service sends at times; −1 and 0 mean unknown. */
export function advertisedQuota(exchange: Exchange): AdvertisedQuota {
  const headers = exchange.kind === 'response' ? exchange.headers : {};
  return {
    requestsPerMinute: amount(headers['x-ratelimit-limit-requests']),
    tokensPerMinute: amount(headers['x-ratelimit-limit-tokens']),
  };
}

const amount = (text: string | undefined): number | null =>
  text !== undefined && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
