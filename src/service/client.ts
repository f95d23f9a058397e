import { isUtf8 } from 'node:buffer';
import type { Socket } from 'node:net';
import { buildConnector, type Dispatcher, Pool, Client as UndiciClient } from 'undici';
import { LARGEST_ANSWER } from './answer-size.js';
import { decoded } from './content-encoding.js';
import { type CallStage, DEADLINE, type Exchange, failureOf } from './exchange.js';
import { KeptConnections } from './kept-connections.js';
import { type KeyCleaner, keyCleaner, proxyCleaner } from './key-cleaner.js';
import { LargeBodies, type LargeBody } from './large-bodies.js';
import type { ServiceProxy } from './proxy.js';
import { tunnelThrough } from './tunnel.js';
import { WaitingCalls } from './waiting-calls.js';

/** Idle time after which a connection is closed, in ms. */
const IDLE_MS = 1_000;
/** Most time until a connection stands, in ms. */
const CONNECT_MS = 10_000;

export interface ClientSettings {
  readonly url: string;
  /** True: bearer authentication. False: an `api-key` header. */
  readonly bearer: boolean;
  /** Most connections, with one call at a time on each; further calls wait. */
  readonly connections: number;
  /** Deadline from `call` to the last byte, in ms. */
  readonly timeoutMs: number;
  /** Largest body read, in bytes. @default 16 MiB */
  readonly maxResponseBytes?: number;
  /** Trusted certificates, in PEM. @default those of Node.js */
  readonly ca?: string;
  readonly proxy?: ServiceProxy | null | undefined;
}

/** Makes each call once: only the queue retries. */
export interface Client {
  /** Never rejects: errors are in the exchange. */
  call(body: string, key: string): Promise<Exchange>;
  /** Calls in flight end as `aborted`. */
  close(): Promise<void>;
}

/** Own connections: no global dispatcher applies. No redirect, which would carry the key away (fault 27). */
export function createClient(settings: ClientSettings): Client {
  const { origin, protocol, hostname, port, host, pathname, search } = new URL(settings.url);
  const { proxy = null, ca } = settings;
  // With TLS the proxy opens a tunnel and sees nothing; without it, the proxy gets the call itself.
  const target = `${hostname}:${port || 443}`;
  const tunnel =
    proxy !== null && protocol === 'https:'
      ? tunnelThrough({ proxy, target, timeoutMs: CONNECT_MS, ca })
      : null;
  const forwarder = tunnel === null ? proxy : null;
  const path = `${forwarder === null ? '' : origin}${pathname}${search}`;
  const extra = forwarder === null ? [] : ['host', host, ...forwarder.headers];
  const where = proxy === null ? host : `${host} through the proxy ${proxy.address}`;
  const maxBytes = settings.maxResponseBytes ?? LARGEST_ANSWER;
  const options: UndiciClient.Options = {
    pipelining: 1,
    // undici's own limits restart with every byte, so a slow drip outlives them (fault 25), and their default
    // cuts completions after five minutes. The deadline below is the only clock.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: maxBytes,
    // On some servers an idle connection occupies a thread that another one needs.
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
  };
  const connect = tunnel?.connect ?? buildConnector({ timeout: CONNECT_MS, ...(ca !== undefined && { ca }) });
  const pool = new Pool(forwarder?.address ?? origin, {
    connections: settings.connections,
    factory: (to) => new Connection(to, options, connect),
  });

  const shared: Shared = {
    ...{ where, maxBytes, timeoutMs: settings.timeoutMs, forwarder: forwarder?.address },
    waiting: new WaitingCalls(settings.timeoutMs),
    kept: new KeptConnections(),
    largeBodies: new LargeBodies(),
  };
  const cleanOfProxy = proxyCleaner(forwarder?.user ?? '');
  let keyed: Keyed | null = null;
  const keyedBy = (key: string): Keyed => {
    if (keyed?.key !== key) {
      const headers = [...requestHeaders(settings.bearer, key), ...extra];
      const clean = keyCleaner(key);
      keyed = { key, headers, clean: (text) => cleanOfProxy(clean(text)) };
    }
    return keyed;
  };

  return {
    call: (body, key) =>
      new Promise((resolve) => {
        const { headers, clean } = keyedBy(key);
        const call = new Call(shared, clean, resolve);
        const reset = shared.kept.areClosed;
        const dispatched: Dispatched = { path, method: 'POST', headers, body, reset, call };
        pool.dispatch(dispatched, call);
      }),
    close: async () => {
      await Promise.all([pool.destroy(), tunnel?.close()]);
    },
  };
}

/** By the calls of a client. */
interface Shared {
  readonly where: string;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Address of the proxy that gets the calls themselves. */
  readonly forwarder: string | undefined;
  readonly waiting: WaitingCalls;
  readonly kept: KeptConnections;
  readonly largeBodies: LargeBodies;
}

interface Keyed {
  readonly key: string;
  readonly headers: string[];
  readonly clean: KeyCleaner;
}

function requestHeaders(bearer: boolean, key: string): string[] {
  const auth = bearer ? ['authorization', `Bearer ${key}`] : ['api-key', key];
  // Without `identity` a gateway may pick an encoding; some do anyway.
  const fixed = ['content-type', 'application/json', 'accept', 'application/json', 'accept-encoding'];
  return [...auth, ...fixed, 'identity', 'user-agent', 'promptmill'];
}

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

/** undici wraps the handler, so the call is passed beside it. */
interface Dispatched extends Dispatcher.DispatchOptions {
  readonly call?: Call;
}

/** One connection at a time; its next one opens when it has ended. */
class Connection extends UndiciClient {
  readonly #line: Line;

  constructor(origin: URL, options: UndiciClient.Options, connect: buildConnector.connector) {
    const line: Line = { socket: null, isHeard: false };
    super(origin, {
      ...options,
      connect: (to, made) =>
        connect(to, (...result) => {
          line.socket = result[1];
          line.isHeard = false;
          made(...result);
        }),
    });
    this.#line = line;
  }

  override dispatch(options: Dispatched, handler: Dispatcher.DispatchHandler): boolean {
    options.call?.goesOver(this.#line);
    return super.dispatch(options, handler);
  }
}

interface Line {
  socket: Socket | null;
  isHeard: boolean;
}

/** A raw undici handler: only it knows whether the request left, and it takes a third less CPU. */
class Call implements Dispatcher.DispatchHandler {
  readonly #large: LargeBody;
  #timer: NodeJS.Timeout | undefined;
  #leftMs: number;
  #clockSince = 0;
  #started = performance.now();
  #stage: CallStage = 'queued';
  #done = false;
  #controller: Dispatcher.DispatchController | null = null;
  #line: Line | null = null;
  #status = 0;
  #encoding = '';
  #headers: { readonly [name: string]: string } = {};
  #chunks: Buffer[] = [];

  constructor(
    private readonly shared: Shared,
    private readonly clean: KeyCleaner,
    private readonly resolve: (exchange: Exchange) => void,
  ) {
    this.#large = shared.largeBodies.reader();
    this.#leftMs = shared.timeoutMs;
    this.#startClock();
  }

  #startClock(): void {
    this.#clockSince = performance.now();
    this.#timer = setTimeout(expire, this.#leftMs, this);
  }

  #stopClock(): void {
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - this.#clockSince));
  }

  expire(): void {
    const error = Object.assign(new Error('deadline'), { code: DEADLINE });
    this.#fail(error);
    this.#controller?.abort(error);
  }

  goesOver(line: Line): void {
    this.#line = line;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#done) {
      controller.abort(new Error('expired before it was sent'));
      return;
    }
    this.#controller = controller;
    this.#stage = 'sent';
    this.#started = performance.now();
    if (this.#line?.isHeard === false) this.shared.waiting.add(this, this.#started);
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, unknown>): void {
    this.#stage = 'answered';
    this.shared.waiting.delete(this);
    if (this.#line !== null) this.#line.isHeard = true;
    this.#status = status;
    const encoding = [headers['content-encoding'] ?? []].flat().join(', ').trim().toLowerCase();
    if (encoding !== 'identity') this.#encoding = encoding;
    const read: { [name: string]: string } = {};
    for (const name of READ_HEADERS) {
      const value = headers[name];
      if (typeof value === 'string') read[name] = this.clean(value);
    }
    this.#headers = read;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return;
    this.#chunks.push(chunk);
    const readOn = (): void => {
      this.#startClock();
      controller.resume();
    };
    if (this.#large.mayReadOn(chunk.length, readOn)) return;
    // The service waits for this process now: that does not count as call time.
    this.#stopClock();
    controller.pause();
  }

  onResponseEnd(): void {
    const isHungUp = this.shared.waiting.answered(this.#started, performance.now());
    const socket = this.#line?.socket;
    if (isHungUp) socket?.destroy();
    const latency = this.#elapsed();
    const [first, ...others] = this.#chunks;
    const bytes = first !== undefined && others.length === 0 ? first : Buffer.concat(this.#chunks);
    this.#chunks = [];
    const exchange = this.#read(bytes, latency);
    if (!socket || isHungUp || !this.shared.kept.watches) {
      this.#end(exchange);
      return;
    }
    // The response is complete: what follows is not call time.
    this.#stopClock();
    void this.shared.kept.look(socket).then(() => this.#end(exchange));
  }

  #read(bytes: Buffer, latency: number): Exchange {
    if (this.#encoding === '' || bytes.length === 0) return this.#response(bytes, latency);
    try {
      return this.#response(decoded(bytes, this.#encoding, this.shared.maxBytes), latency);
    } catch (error) {
      return failureOf(error, this.#stage, this.shared.where, latency);
    }
  }

  #response(bytes: Buffer, latency_ms: number): Exchange {
    return {
      kind: 'response',
      status: this.#status,
      headers: this.#headers,
      // Some servers send a byte-order mark, which JSON does not allow.
      body: this.clean(bytes.toString('utf8', BOM.equals(bytes.subarray(0, 3)) ? 3 : 0)),
      ...(!isUtf8(bytes) && { notUtf8: true }),
      ...(this.shared.forwarder !== undefined && { proxy: this.shared.forwarder }),
      latency_ms,
    };
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(error);
  }

  #fail(error: Error): void {
    const isHeard = this.#line?.isHeard === true;
    if (isHeard && this.#stage === 'sent' && this.shared.kept.wasClosedBefore(error)) this.#stage = 'unread';
    const failure = failureOf(error, this.#stage, this.shared.where, this.#elapsed());
    const unheard = this.#stage === 'sent' && !isHeard;
    this.#end(unheard ? { ...failure, unheard } : failure);
  }

  #end(exchange: Exchange): void {
    if (this.#done) return;
    this.#done = true;
    clearTimeout(this.#timer);
    this.shared.waiting.delete(this);
    this.#large.end();
    this.#chunks = [];
    this.resolve(exchange);
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#started);
  }
}

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

const expire = (call: Call): void => call.expire();
