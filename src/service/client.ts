import { type Dispatcher, Pool } from 'undici';
import { DEADLINE, type Exchange, failureOf, type Progress } from './exchange.js';
import type { EndpointStyle } from './request.js';

/** How to reach one deployment. */
export interface ClientSettings {
  /** The address to call, of `completionsUrl`. */
  readonly url: string;
  /** Decides the header that carries the key. */
  readonly style: EndpointStyle;
  /** Most connections, one call on each at a time; further calls wait for one. */
  readonly connections: number;
  /** Longest time for one call, from `call` to the last byte, in milliseconds. */
  readonly timeoutMs: number;
  /** Longest time to connect, in milliseconds. @default 10_000 */
  readonly connectTimeoutMs?: number;
  /** Largest body that is read, in bytes. @default 16 MiB */
  readonly maxResponseBytes?: number;
  /** Certificates to trust, in PEM. @default those of Node.js */
  readonly ca?: string;
}

/** One HTTP call at a time, and never a second one for the same row: retrying has one owner, the queue. */
export interface Client {
  /** Makes one call. Never rejects: what went wrong is in the exchange. */
  call(body: string, key: string): Promise<Exchange>;
  /** Closes all connections; calls in flight end as `aborted`. */
  close(): Promise<void>;
}

/**
 * A client with connections of its own, so that neither proxies nor interceptors that other code set up
 * apply. It follows no redirect: that would carry the key to another host (fault 27).
 */
export function createClient(settings: ClientSettings): Client {
  const { origin, host, pathname, search } = new URL(settings.url);
  const path = pathname + search;
  const pool = new Pool(origin, {
    connections: settings.connections,
    pipelining: 1,
    // undici's own limits restart with every byte, so a drip outlives them (fault 25), and their default
    // cuts a completion of more than five minutes. The deadline below is the only clock.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: settings.maxResponseBytes ?? 16 * 1024 * 1024,
    connect: {
      timeout: settings.connectTimeoutMs ?? 10_000,
      ...(settings.ca !== undefined && { ca: settings.ca }),
    },
  });

  let headers: string[] = [];
  let headersKey: string | null = null;
  const headersFor = (key: string): string[] => {
    if (key !== headersKey) {
      headers = requestHeaders(settings.style, key);
      headersKey = key;
    }
    return headers;
  };

  return {
    call: (body, key) =>
      new Promise((resolve) => {
        const call = new Call(host, key, settings.timeoutMs, resolve);
        pool.dispatch({ path, method: 'POST', headers: headersFor(key), body }, call);
      }),
    close: () => pool.destroy(),
  };
}

function requestHeaders(style: EndpointStyle, key: string): string[] {
  const auth = style === 'openai' ? ['authorization', `Bearer ${key}`] : ['api-key', key];
  // undici does not decompress: without `identity` a gateway may choose an encoding by itself.
  const fixed = ['content-type', 'application/json', 'accept', 'application/json', 'accept-encoding'];
  return [...auth, ...fixed, 'identity', 'user-agent', 'promptmill'];
}

/** The response headers that are read: hints to wait, the quota left, where a redirect points, ids for support. */
const READ_HEADERS = [
  'retry-after',
  'retry-after-ms',
  'location',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-limit-requests',
  'x-ratelimit-limit-tokens',
  'x-request-id',
  'apim-request-id',
] as const;

/**
 * One call, as undici's handler. The handler below `request()` is used because it alone tells whether the
 * request left, and because it needs no stream and no abort signal: about a third less CPU for each call.
 */
class Call implements Dispatcher.DispatchHandler {
  readonly #host: string;
  readonly #key: string;
  readonly #resolve: (exchange: Exchange) => void;
  readonly #timer: NodeJS.Timeout;
  #started = performance.now();
  #progress: Progress = 'queued';
  #done = false;
  #controller: Dispatcher.DispatchController | null = null;
  #status = 0;
  #headers: { readonly [name: string]: string } = {};
  #chunks: Buffer[] = [];

  constructor(host: string, key: string, timeoutMs: number, resolve: (exchange: Exchange) => void) {
    this.#host = host;
    this.#key = key;
    this.#resolve = resolve;
    this.#timer = setTimeout(expire, timeoutMs, this);
  }

  /** The deadline passed: the call ends now, wherever it is. */
  expire(): void {
    const error = Object.assign(new Error('deadline'), { code: DEADLINE });
    this.#fail(error);
    this.#controller?.abort(error);
  }

  /** A connection took the request and is about to write it. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#done) {
      controller.abort(new Error('expired before it was sent'));
      return;
    }
    this.#controller = controller;
    this.#progress = 'sent';
    this.#started = performance.now();
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, unknown>): void {
    this.#progress = 'answered';
    this.#status = status;
    const read: { [name: string]: string } = {};
    for (const name of READ_HEADERS) {
      const value = headers[name];
      if (typeof value === 'string') read[name] = value;
    }
    this.#headers = read;
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    const [first, ...others] = this.#chunks;
    const bytes = first !== undefined && others.length === 0 ? first : Buffer.concat(this.#chunks);
    this.#end({
      kind: 'response',
      status: this.#status,
      headers: this.#headers,
      body: withoutKey(bytes.toString('utf8'), this.#key),
      latency_ms: this.#elapsed(),
    });
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(error);
  }

  #fail(error: Error): void {
    this.#end(failureOf(error, this.#progress, this.#host, this.#elapsed()));
  }

  #end(exchange: Exchange): void {
    if (this.#done) return;
    this.#done = true;
    clearTimeout(this.#timer);
    this.#resolve(exchange);
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#started);
  }
}

const expire = (call: Call): void => call.expire();

/**
 * Gateways quote the key they refuse; it must not reach an error message (fault 53). Real keys are longer
 * than 12 characters; a shorter stand-in for a local server could be a word of an answer.
 */
function withoutKey(body: string, key: string): string {
  return key.length >= 12 && body.includes(key) ? body.replaceAll(key, '[key]') : body;
}
