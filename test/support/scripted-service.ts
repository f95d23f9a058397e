import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';

/** A request as the service saw it. */
export interface ScriptedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The body as sent. */
  readonly text: string;
  /** The body as JSON; `{}` when it is no JSON object. */
  readonly body: { readonly [field: string]: unknown };
  /** `body.prompt`, or the text of the last of `body.messages`, or an empty string. */
  readonly prompt: string;
  /** Which call for this prompt this is, from 1. */
  readonly count: number;
  /** Which call of all this is, from 1. */
  readonly total: number;
  /** Aborted when the caller hangs up before it has its answer. */
  readonly left: AbortSignal;
}

/** The prompts of a request, one or several. */
export const promptsOf = ({ body }: ScriptedRequest): string[] => [body['prompt']].flat().map(String);

/**
 * What to answer. `reset` destroys the connection after the request was read, `hang` never answers; both are
 * ended by `close`. Otherwise a response, whole unless one of the ways to break it is given.
 */
export type ScriptedReply =
  | 'reset'
  | 'hang'
  | {
      /** @default 200 */
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      /** The body, as JSON. @default `answer`, when no `text` is given */
      readonly json?: unknown;
      /** A valid answer of the operation that is called. */
      readonly answer?: Omit<CompletionOptions, 'confidence'>;
      /** The body, as it is. */
      readonly text?: string;
      /** Written to the connection as it is, in place of a response; then the connection is closed. */
      readonly raw?: string;
      /** Bytes of the body after which the connection is closed, though `content-length` says more. */
      readonly truncate?: number;
      /** Bytes of the body after which the connection is closed, without a last chunk. */
      readonly truncateChunked?: number;
      /** Bytes of the body after which the connection is closed, where closing is what ends the body. */
      readonly closeAfter?: number;
      /** The body never ends: a space every so many milliseconds. */
      readonly drip?: number;
    };

/** Decides each reply. A promise delays the reply until it settles. */
export type Script = (request: ScriptedRequest) => ScriptedReply | Promise<ScriptedReply>;

/** The calls of a service so far, in order of arrival. */
export class ScriptedCalls {
  readonly requests: ScriptedRequest[] = [];
  readonly #counts = new Map<string, number>();

  add(call: Pick<ScriptedRequest, 'method' | 'url' | 'headers' | 'text' | 'left'>): ScriptedRequest {
    const body = objectOf(call.text);
    const messages = body['messages'];
    const asked = Array.isArray(messages) ? messages.at(-1)?.content : body['prompt'];
    const prompt = typeof asked === 'string' ? asked : '';
    const count = (this.#counts.get(prompt) ?? 0) + 1;
    this.#counts.set(prompt, count);
    const request = { ...call, body, prompt, count, total: this.requests.length + 1 };
    this.requests.push(request);
    return request;
  }

  /** For a prompt, or for all. */
  of(prompt?: string): number {
    return prompt === undefined ? this.requests.length : (this.#counts.get(prompt) ?? 0);
  }
}

/** The service as a real server on 127.0.0.1. */
export interface ScriptedService {
  /** For `PROMPTMILL_BASE_URL`. */
  readonly url: string;
  /** Every request so far, in order of arrival. */
  readonly requests: readonly ScriptedRequest[];
  /** Calls so far for a prompt, or for all. */
  calls(prompt?: string): number;
  /** Connections accepted so far. */
  connections(): number;
  /** Closes the connections that wait for another request. */
  dropIdle(): void;
  /** Breaks off what is in flight and frees the port. */
  close(): Promise<void>;
}

/**
 * Starts a scripted service.
 * @param script @default every call gets a valid answer of its operation
 * @param tls key and certificate in PEM, for https
 * @param port @default a free one
 */
export async function startScriptedService(
  script: Script = () => ({}),
  tls?: { readonly key: string; readonly cert: string },
  port = 0,
): Promise<ScriptedService> {
  const calls = new ScriptedCalls();
  let connections = 0;

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString('utf8');
    const { method = '', url = '', headers } = incoming;
    const hungUp = new AbortController();
    const request = calls.add({ method, url, headers, text, left: hungUp.signal });
    response.on('close', () => {
      if (!response.writableFinished) hungUp.abort();
    });
    const reply = await script(request);
    send(reply, response, url);
  };

  const listener = (incoming: IncomingMessage, response: ServerResponse): void => {
    // A client that goes away in the middle is what many tests are about; a script that throws is a defect
    // of the test, and must not look like a hanging service.
    answer(incoming, response).catch((error: unknown) => {
      if (!response.destroyed) response.writeHead(599).end(String(error));
    });
  };
  const server = tls ? createTlsServer(tls, listener) : createServer(listener);
  // Idle connections stay open until a test closes them: timing is no part of a script.
  server.keepAliveTimeout = 0;
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const address = server.address();

  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    requests: calls.requests,
    calls: (prompt) => calls.of(prompt),
    connections: () => connections,
    dropIdle: () => server.closeIdleConnections(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The text of a reply that is a response. */
export const replyText = ({ text, json, answer }: Exclude<ScriptedReply, string>, url: string): string =>
  text ??
  JSON.stringify(json ?? (url.includes('/chat/completions') ? chatAnswer(answer) : completionBody(answer)));

function send(reply: ScriptedReply, response: ServerResponse, url: string): void {
  const { socket } = response;
  if (reply === 'hang' || socket === null) return;
  if (reply === 'reset') {
    socket.resetAndDestroy();
    return;
  }
  const { status = 200, raw, truncate, truncateChunked, closeAfter, drip } = reply;
  if (raw !== undefined) {
    socket.end(raw);
    return;
  }
  const body = Buffer.from(replyText(reply, url));
  const headers = { 'content-type': 'application/json', ...reply.headers };
  const closeConnection = (): void => {
    socket.end();
  };
  if (truncate !== undefined) {
    response.writeHead(status, { ...headers, 'content-length': body.length });
    response.write(body.subarray(0, truncate), closeConnection);
  } else if (truncateChunked !== undefined) {
    response.writeHead(status, headers);
    response.write(body.subarray(0, truncateChunked), closeConnection);
  } else if (closeAfter !== undefined) {
    response.useChunkedEncodingByDefault = false;
    response.shouldKeepAlive = false;
    response.writeHead(status, headers);
    response.end(body.subarray(0, closeAfter));
  } else if (drip !== undefined) {
    response.writeHead(status, headers);
    const timer = setInterval(() => response.write(' '), drip);
    response.on('close', () => clearInterval(timer));
  } else {
    response.writeHead(status, { ...headers, 'content-length': body.length });
    response.end(body);
  }
}

function objectOf(text: string): { readonly [field: string]: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {};
  } catch {
    return {};
  }
}

/** What of a completion matters to a test. */
export interface CompletionOptions {
  /** @default ' positive' */
  readonly text?: string;
  /** @default 'stop' */
  readonly finish_reason?: string | null;
  /** @default 10 */
  readonly prompt_tokens?: number;
  /** @default 2 */
  readonly completion_tokens?: number;
  /** Content filter results on both sides, everything `safe`. @default true */
  readonly filters?: boolean;
  /** Probability of the text, as log probabilities say it. @default there are none, as with null */
  readonly confidence?: number | null;
}

/** A valid body of the service, with one choice. */
export function completionBody(options: CompletionOptions = {}) {
  const { text = ' positive', finish_reason = 'stop', filters = true, confidence = null } = options;
  const { prompt_tokens = 10, completion_tokens = 2 } = options;
  const results = { content_filter_results: SAFE };
  const logprobs = confidence === null ? null : sureOf(text, confidence);
  return {
    id: 'cmpl-scripted',
    object: 'text_completion',
    created: 1_700_000_000,
    model: 'lm-35-turbo-instruct',
    ...(filters && { prompt_filter_results: [{ prompt_index: 0, ...results }] }),
    choices: [{ text, index: 0, finish_reason, logprobs, ...(filters && results) }],
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  };
}

/** What of a chat answer matters to a test. */
export interface ChatOptions
  extends Pick<CompletionOptions, 'prompt_tokens' | 'completion_tokens' | 'filters'> {
  /** @default 'positive' */
  readonly content?: unknown;
  /** @default 'stop' */
  readonly finish_reason?: string | null;
  readonly refusal?: string;
  /** Further fields of the message. */
  readonly message?: object;
  readonly logprobs?: object;
  readonly cached_tokens?: number;
  readonly reasoning_tokens?: number;
}

/** A valid answer of the chat operation, with one choice. */
export function chatBody(options: ChatOptions = {}) {
  const { content = 'positive', finish_reason = 'stop', refusal = null, logprobs = null } = options;
  const {
    prompt_tokens = 10,
    completion_tokens = 2,
    cached_tokens,
    reasoning_tokens,
    filters = true,
  } = options;
  const results = { content_filter_results: SAFE };
  const message = { role: 'assistant', content, refusal, ...options.message };
  return {
    id: 'chatcmpl-scripted',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'lm-35-turbo',
    ...(filters && { prompt_filter_results: [{ prompt_index: 0, ...results }] }),
    choices: [{ message, index: 0, finish_reason, logprobs, ...(filters && results) }],
    usage: {
      ...{ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
      ...(cached_tokens !== undefined && { prompt_tokens_details: { cached_tokens } }),
      ...(reasoning_tokens !== undefined && { completion_tokens_details: { reasoning_tokens } }),
    },
  };
}

const chatAnswer = ({ text, ...others }: CompletionOptions = {}) =>
  chatBody({ ...others, ...(text !== undefined && { content: text }) });

/** The log probabilities of a text that is one token of this probability. */
export const sureOf = (text: string, probability: number) => ({
  tokens: [text],
  token_logprobs: [null],
  top_logprobs: [{ [text]: Math.log(probability) }],
});

const SAFE = Object.fromEntries(
  ['hate', 'self_harm', 'sexual', 'violence'].map((category) => [
    category,
    { filtered: false, severity: 'safe' },
  ]),
);
