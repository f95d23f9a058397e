import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Client, type ClientSettings, createClient } from '../../src/service/client.js';
import { type Exchange, failureOf } from '../../src/service/exchange.js';
import { KeptConnections } from '../../src/service/kept-connections.js';
import {
  completionBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { startThreadPool } from '../support/thread-pool.js';
import { withResolvers } from '../support/with-resolvers.js';
import {
  TEST_ONLY_EXPIRED,
  TEST_ONLY_KEY,
  TEST_ONLY_VALID,
  TEST_ONLY_WRONG_HOST,
} from './test-only-certificates.js';

const KEY = 'canary-key-0123456789';
const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  vi.useRealTimers();
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(script?: Script, tls?: { key: string; cert: string }): Promise<ScriptedService> {
  const service = await startScriptedService(script, tls);
  cleanups.push(() => service.close());
  return service;
}

function clientOf(url: string, settings: Partial<ClientSettings> = {}): Client {
  const client = createClient({ url, bearer: false, connections: 4, timeoutMs: 10_000, ...settings });
  cleanups.push(() => client.close());
  return client;
}

/** A bare TCP server; returns its port. */
async function listen(onConnection: (socket: Socket) => unknown): Promise<number> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(() => resolve()));
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

const body = (prompt: string): string => JSON.stringify({ prompt });

/**
 * From now on the deadlines of calls pass only when the test says so: a busy machine needs more than a second to connect.
 * The clocks of the service stay as they are.
 */
const stopClock = (): unknown => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });

/** A signal that the test gives itself. */
function signal(): { readonly given: Promise<void>; readonly give: () => void } {
  const { promise: given, resolve: give } = withResolvers();
  return { given, give };
}

/** One call to a service with this script. */
async function callOnce(script: Script, settings: Partial<ClientSettings> = {}): Promise<Exchange> {
  const { url } = await serve(script);
  return clientOf(`${url}/x`, settings).call(body('p'), KEY);
}

describe('one call', () => {
  it('sends the body and the key, and reads status, body and the headers that matter', async () => {
    const service = await serve(() => ({
      status: 429,
      headers: { 'Retry-After': '7', 'set-cookie': 'a=b' },
      text: 'später',
    }));
    const client = clientOf(`${service.url}/openai/deployments/d/completions?api-version=1`);
    const exchange = await client.call(body('grüße \u{1f600}'), KEY);
    expect(exchange).toMatchObject({
      kind: 'response',
      status: 429,
      headers: { 'retry-after': '7' },
      body: 'später',
    });
    expect(exchange.kind === 'response' && Object.keys(exchange.headers)).toEqual(['retry-after']);
    expect(service.requests).toHaveLength(1);
    const [request] = service.requests;
    expect(request).toMatchObject({
      method: 'POST',
      url: '/openai/deployments/d/completions?api-version=1',
      prompt: 'grüße \u{1f600}',
      headers: { 'api-key': KEY, 'content-type': 'application/json' },
    });
    expect(request?.headers).not.toHaveProperty('authorization');
  });

  it('authenticates as a bearer where the style asks for it', async () => {
    const service = await serve();
    await clientOf(`${service.url}/v1/completions`, { bearer: true }).call(body('p'), KEY);
    expect(service.requests[0]?.headers).toMatchObject({ authorization: `Bearer ${KEY}` });
    expect(service.requests[0]?.headers).not.toHaveProperty('api-key');
  });

  it('uses the key of each call, also on one connection', async () => {
    const service = await serve();
    const client = clientOf(`${service.url}/x`, { connections: 1 });
    for (const key of ['first-key', 'second-key', 'first-key']) await client.call(body('p'), key);
    expect(service.requests.map((request) => request.headers['api-key'])).toEqual([
      'first-key',
      'second-key',
      'first-key',
    ]);
    expect(service.connections()).toBe(1);
  });

  it('reads an answer that comes in many pieces, also in the middle of a character', async () => {
    const text = 'é'.repeat(200_000);
    const exchange = await callOnce(() => ({ json: completionBody({ text }) }));
    expect(exchange).toMatchObject({ kind: 'response', body: JSON.stringify(completionBody({ text })) });
  });

  it('fault 53: takes the key out of an error that quotes it', async () => {
    const exchange = await callOnce(({ headers }) => ({
      status: 401,
      text: `bad key ${headers['api-key']}`,
    }));
    expect(exchange).toMatchObject({ status: 401, body: 'bad key [key]' });
  });

  it('makes no second call for any status', async () => {
    for (const status of [400, 401, 403, 404, 408, 409, 429, 500, 502, 503, 504]) {
      const service = await serve(() => ({ status }));
      const exchange = await clientOf(`${service.url}/x`).call(body('p'), KEY);
      expect(exchange).toMatchObject({ kind: 'response', status });
      expect(service.calls()).toBe(1);
    }
  });

  it('skips an early hint on the way to the answer', async () => {
    const raw = 'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';
    expect(await callOnce(() => ({ raw }))).toMatchObject({ kind: 'response', status: 200, body: '{}' });
  });
});

describe('faults of the network', () => {
  it('fault 21: a reset after the request was read may have been billed', async () => {
    const service = await serve(() => 'reset');
    const exchange = await clientOf(`${service.url}/x`).call(body('p'), KEY);
    expect(exchange).toMatchObject({ kind: 'failure', phase: 'exchange', code: 'reset' });
    expect(service.calls()).toBe(1);
  });

  it('fault 22: a connection that dies under the second call is one failure, and the third call connects anew', async () => {
    const service = await serve(({ total }) => (total === 2 ? 'reset' : {}));
    const client = clientOf(`${service.url}/x`, { connections: 1 });
    const kinds = [];
    for (const prompt of ['a', 'b', 'c']) kinds.push((await client.call(body(prompt), KEY)).kind);
    expect(kinds).toEqual(['response', 'failure', 'response']);
    expect(service.calls()).toBe(3);
    expect(service.connections()).toBe(2);
  });

  it('fault 22: a connection that was closed while idle costs nothing', async () => {
    const service = await serve();
    const client = clientOf(`${service.url}/x`, { connections: 1 });
    await client.call(body('a'), KEY);
    service.dropIdle();
    expect(await client.call(body('b'), KEY)).toMatchObject({ kind: 'response', status: 200 });
    expect(service.calls()).toBe(2);
  });

  /** A server that says keep-alive, and closes each connection behind its answer. */
  const closing = (requests: string[]) =>
    listen((socket) => {
      let text = '';
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        text += bytes;
        if (!text.endsWith('}')) return;
        requests.push(text);
        socket.write(`HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\n{}`);
        socket.end();
      });
    });

  it('fault 99: a server that closes what it promised to keep costs no call', async () => {
    const requests: string[] = [];
    const client = clientOf(`http://127.0.0.1:${await closing(requests)}/x`, { connections: 20 });
    const prompts = Array.from({ length: 300 }, (_, i) => `p${i}`);
    const next = async (): Promise<Exchange[]> => {
      const prompt = prompts.pop();
      return prompt === undefined ? [] : [await client.call(body(prompt), KEY), ...(await next())];
    };
    const exchanges = (await Promise.all(Array.from({ length: 20 }, next))).flat();
    expect(exchanges.filter(({ kind }) => kind === 'failure')).toEqual([]);
    expect(new Set(requests).size).toBe(300);
    expect(requests.at(-1)).toMatch(/^connection: close/m);
  });

  it('an answer that announces the end of its connection costs one connection, and the others are kept', async () => {
    const service = await serve(({ total }) => (total === 3 ? { headers: { connection: 'close' } } : {}));
    const client = clientOf(`${service.url}/x`, { connections: 1 });
    for (let i = 0; i < 10; i++) await client.call(body(`p${i}`), KEY);
    expect(service.connections()).toBe(2);
    expect(service.requests.at(-1)?.headers.connection).toBe('keep-alive');
  });

  it('fault 99: a request on a connection that was closed meanwhile cannot have been read', () => {
    const kept = new KeptConnections();
    const failed = (code: string) => kept.wasClosedBefore(Object.assign(new Error(code), { code }));
    expect([failed('ECONNRESET'), kept.areClosed]).toEqual([false, false]);
    expect([failed('EPIPE'), kept.areClosed]).toEqual([true, true]);
    expect(failureOf(Object.assign(new Error('x'), { code: 'EPIPE' }), 'unread', 'host', 1)).toMatchObject({
      phase: 'connect',
      code: 'closed',
    });
  });

  it('fault 23: a body shorter than its content-length is truncated', async () => {
    expect(await callOnce(() => ({ truncate: 40 }))).toMatchObject({ phase: 'exchange', code: 'truncated' });
  });

  it('fault 23: a chunked body without its last chunk is truncated', async () => {
    expect(await callOnce(() => ({ truncateChunked: 40 }))).toMatchObject({
      phase: 'exchange',
      code: 'truncated',
    });
  });

  it('fault 23: a chunked body without its last chunk is truncated, also where the connection ends with it', async () => {
    const raw = 'HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{"id\r\n';
    expect(await callOnce(() => ({ raw }))).toMatchObject({ phase: 'exchange', code: 'truncated' });
  });

  it('fault 23: half a body that ends with the connection looks whole; the verdict finds that it is no JSON', async () => {
    expect(await callOnce(() => ({ closeAfter: 40 }))).toMatchObject({
      kind: 'response',
      status: 200,
      body: JSON.stringify(completionBody()).slice(0, 40),
    });
  });

  it('fault 25: the deadline ends a call that is never answered', async () => {
    const arrival = signal();
    stopClock();
    const exchange = callOnce(() => {
      arrival.give();
      return 'hang';
    });
    await arrival.given;
    vi.advanceTimersByTime(10_000);
    expect(await exchange).toMatchObject({ kind: 'failure', phase: 'exchange', code: 'timeout' });
  });

  it('fault 25: the deadline ends a body that drips for ever, and closes its connection', async () => {
    const arrival = signal();
    const service = await serve(({ total }) => {
      arrival.give();
      return total === 1 ? { drip: 5 } : {};
    });
    stopClock();
    const client = clientOf(`${service.url}/x`, { connections: 1 });
    const dripping = client.call(body('a'), KEY);
    await arrival.given;
    for (let second = 0; second < 10; second++) {
      // Bytes come meanwhile; how many does not matter.
      await sleep(10);
      vi.advanceTimersByTime(1_000);
    }
    expect(await dripping).toMatchObject({ phase: 'exchange', code: 'timeout' });
    expect(await client.call(body('b'), KEY)).toMatchObject({ kind: 'response' });
    expect(service.connections()).toBe(2);
  });

  it('fault 73: twenty large bodies at once are all read, and the time one waits for a place is not its own', async () => {
    const large = 'x'.repeat(2_000_000);
    const many = await serve(() => ({ text: large }));
    const reader = clientOf(`${many.url}/x`, { connections: 20, timeoutMs: 100_000 });
    const all = await Promise.all(Array.from({ length: 20 }, () => reader.call(body('a'), KEY)));
    expect(all.map((exchange) => exchange.kind === 'response' && exchange.body.length)).toEqual(
      Array.from({ length: 20 }, () => large.length),
    );

    // Four are never whole: they hold every place until their time is over.
    let calls = 0;
    const port = await listen((socket) => {
      const length = ++calls === 5 ? large.length : 2 * large.length;
      socket.once('data', () => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n${large}`));
    });
    const client = clientOf(`http://127.0.0.1:${port}/x`, { connections: 5, timeoutMs: 3_000 });
    const ends = await Promise.all(Array.from({ length: 5 }, () => client.call(body('a'), KEY)));
    expect(ends.map((end) => (end.kind === 'failure' ? end.code : 'whole')).sort()).toEqual([
      'timeout',
      'timeout',
      'timeout',
      'timeout',
      'whole',
    ]);
  });

  it('a call whose deadline passed while it connected is never sent', async () => {
    const service = await serve(undefined, { key: TEST_ONLY_KEY, cert: TEST_ONLY_VALID });
    // Holds the TLS handshake back until the test lets it through.
    const pass = (socket: Socket): unknown =>
      socket.pipe(connect(Number(new URL(service.url).port), '127.0.0.1')).pipe(socket);
    const held: Socket[] = [];
    const arrival = signal();
    let open = false;
    const gate = await listen((socket) => {
      if (open) return pass(socket);
      arrival.give();
      return held.push(socket);
    });
    stopClock();
    const settings = { ca: TEST_ONLY_VALID, connections: 1, timeoutMs: 1000 };
    const client = clientOf(`https://127.0.0.1:${gate}/x`, settings);
    const late = client.call(body('late'), KEY);
    await arrival.given;
    vi.advanceTimersByTime(1_000);
    expect(await late).toMatchObject({ code: 'timeout', phase: 'connect' });
    open = true;
    const next = client.call(body('next'), KEY);
    expect(held).toHaveLength(1);
    held.forEach(pass);
    expect(await next).toMatchObject({ kind: 'response', status: 200 });
    expect(service.requests.map(({ prompt }) => prompt)).toEqual(['next']);
  });

  it('fault 26: a refused connection was never sent', async () => {
    const service = await startScriptedService();
    await service.close();
    expect(await clientOf(`${service.url}/x`).call(body('p'), KEY)).toMatchObject({
      kind: 'failure',
      phase: 'connect',
      code: 'refused',
      message: `the connection was refused: ${new URL(service.url).host} (ECONNREFUSED)`,
    });
  });

  it('fault 26: a host name that does not resolve was never sent', async () => {
    const exchange = await clientOf('http://no-such-host.invalid/x').call(body('p'), KEY);
    expect(exchange).toMatchObject({ phase: 'connect', code: 'dns' });
  });

  it.each([
    ['an expired certificate', TEST_ONLY_EXPIRED, TEST_ONLY_EXPIRED, 'CERT_HAS_EXPIRED'],
    [
      'a certificate of another host',
      TEST_ONLY_WRONG_HOST,
      TEST_ONLY_WRONG_HOST,
      'ERR_TLS_CERT_ALTNAME_INVALID',
    ],
    ['a certificate that nobody trusts', TEST_ONLY_VALID, undefined, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ])('fault 26: %s is refused before anything is sent', async (_, cert, ca, code) => {
    const service = await serve(undefined, { key: TEST_ONLY_KEY, cert });
    const client = clientOf(`${service.url}/x`, ca === undefined ? {} : { ca });
    const exchange = await client.call(body('p'), KEY);
    expect(exchange).toMatchObject({ kind: 'failure', phase: 'connect', code: 'tls' });
    expect(exchange.kind === 'failure' && exchange.message).toContain(code);
    expect(service.calls()).toBe(0);
  });

  it('calls over TLS when the certificate is good', async () => {
    const service = await serve(undefined, { key: TEST_ONLY_KEY, cert: TEST_ONLY_VALID });
    const client = clientOf(`${service.url}/x`, { ca: TEST_ONLY_VALID });
    expect(await client.call(body('p'), KEY)).toMatchObject({ kind: 'response', status: 200 });
  });

  it('https to a server that speaks http is known by what TLS makes of its answer', async () => {
    const { url } = await serve();
    const exchange = await clientOf(`${url.replace('http:', 'https:')}/x`).call(body('p'), KEY);
    expect(exchange).toMatchObject({ phase: 'connect', code: 'plain_http' });
  });

  it.each([301, 302, 307, 308])('fault 27: a %i is not followed, and the key stays', async (status) => {
    const other = await serve();
    const exchange = await callOnce(() => ({ status, headers: { location: `${other.url}/y` } }));
    expect(exchange).toMatchObject({ kind: 'response', status, headers: { location: `${other.url}/y` } });
    expect(other.connections()).toBe(0);
  });

  it('fault 28: an answer larger than the cap is cut off, with or without its length', async () => {
    const text = 'x'.repeat(100_000);
    const settings = { maxResponseBytes: 50_000 };
    expect(await callOnce(() => ({ text }), settings)).toMatchObject({
      phase: 'exchange',
      code: 'too_large',
    });
    expect(await callOnce(() => ({ text, truncateChunked: 90_000 }), settings)).toMatchObject({
      code: 'too_large',
    });
    expect(await callOnce(() => ({ text: text.slice(0, 50_000) }), settings)).toMatchObject({ status: 200 });
  });

  /** A service that answers with these bytes, and says that they are encoded. */
  const callEncoded = async (encoding: string, bytes: Buffer, settings?: Partial<ClientSettings>) => {
    const head = `HTTP/1.1 200 OK\r\ncontent-encoding: ${encoding}\r\ncontent-length: ${bytes.length}\r\n\r\n`;
    const port = await listen((socket) =>
      socket.once('data', () => socket.write(Buffer.concat([Buffer.from(head), bytes]))),
    );
    return clientOf(`http://127.0.0.1:${port}/x`, settings).call(body('p'), KEY);
  };
  const JSON_BYTES = Buffer.from('{"größe": 1}');

  it.each([
    ['gzip', gzipSync(JSON_BYTES)],
    ['deflate', deflateSync(JSON_BYTES)],
    ['br', brotliCompressSync(JSON_BYTES)],
    ['identity', JSON_BYTES],
    // A gateway has decoded it and left the header; a server names the charset in the wrong one.
    ['gzip', JSON_BYTES],
    ['utf-8', JSON_BYTES],
  ])('an answer in %s, which nobody asked for, is read', async (encoding, bytes) => {
    expect(await callEncoded(encoding, bytes)).toMatchObject({ kind: 'response', body: '{"größe": 1}' });
  });

  it('fault 28: an encoded answer that becomes larger than the cap is refused', async () => {
    const bytes = gzipSync(Buffer.alloc(4_000_000));
    expect(await callEncoded('gzip', bytes, { maxResponseBytes: 1_000_000 })).toMatchObject({
      code: 'too_large',
      phase: 'exchange',
    });
  });

  it.each(['zstd', 'gzip', 'gzip, br'])('an answer in %s that cannot be read is named', async (encoding) => {
    expect(await callEncoded(encoding, Buffer.from([0x28, 0xb5, 0x2f, 0xfd]))).toMatchObject({
      kind: 'failure',
      code: 'encoded',
      message: expect.stringContaining(`(${encoding})`),
    });
  });

  it('an answer that is not HTTP is a failure of the exchange', async () => {
    expect(await callOnce(() => ({ raw: 'SSH-2.0-OpenSSH_9\r\n' }))).toMatchObject({
      phase: 'exchange',
      code: 'not_http',
    });
  });

  it('a server that hangs up before TLS is ready was never sent anything', async () => {
    const port = await listen((socket) => socket.destroy());
    const exchange = await clientOf(`https://127.0.0.1:${port}/x`).call(body('p'), KEY);
    expect(exchange).toMatchObject({ phase: 'connect', code: 'unreachable' });
  });
});

describe('a server that stays with each connection', () => {
  it('is made to take the one that has waited longest', async () => {
    const [first, last] = [signal(), signal()];
    const arrived = signal();
    const { url } = await serve(async ({ prompt }) => {
      if (prompt === 'first') await first.given;
      if (prompt === 'last') {
        arrived.give();
        await last.given;
      }
      return { text: prompt };
    });
    const threads = await startThreadPool(url, 1);
    cleanups.push(() => threads.close());
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const client = clientOf(`${threads.url}/x`, { connections: 2, timeoutMs: 120_000 });
    const one = client.call(body('first'), KEY);
    const waits = client.call(body('waits'), KEY);
    await threads.waits;
    first.give();
    await one;
    vi.advanceTimersByTime(1);
    // Overtakes it, on the connection that has the thread.
    const overtakes = client.call(body('last'), KEY);
    await arrived.given;
    vi.advanceTimersByTime(20_000);
    last.give();
    expect(await overtakes).toMatchObject({ body: 'last' });
    expect(await waits).toMatchObject({ body: 'waits' });
  });

  it('is told from one that takes long: nothing was ever heard on the connection', async () => {
    const arrivals: (() => void)[] = [];
    const { url } = await serve(({ prompt }) => {
      if (prompt === 'fine') return {};
      arrivals.shift()?.();
      return 'hang';
    });
    stopClock();
    const timedOut = async (client: Client): Promise<Exchange> => {
      const arrived = signal();
      arrivals.push(arrived.give);
      const call = client.call(body('hangs'), KEY);
      await arrived.given;
      vi.advanceTimersByTime(10_000);
      return await call;
    };
    const client = clientOf(`${url}/x`, { connections: 1 });
    expect(await timedOut(client)).toMatchObject({ code: 'timeout', unheard: true });
    await client.call(body('fine'), KEY);
    expect(await timedOut(client)).not.toHaveProperty('unheard');
    expect(await timedOut(client), 'on the next connection').toMatchObject({ unheard: true });
  });
});

describe('close', () => {
  it('ends calls in flight as aborted, and refuses later ones', async () => {
    const arrival = signal();
    const { url } = await serve(() => {
      arrival.give();
      return 'hang';
    });
    const client = clientOf(`${url}/x`);
    const pending = client.call(body('p'), KEY);
    await arrival.given;
    await client.close();
    expect(await pending).toMatchObject({ phase: 'exchange', code: 'aborted' });
    expect(await client.call(body('p'), KEY)).toMatchObject({ phase: 'connect', code: 'aborted' });
  });

  it('fault 53: no failure names the key or the prompt', async () => {
    const prompt = 'canary-prompt';
    for (const reply of ['reset', { truncate: 10 }, { raw: `${prompt} ${KEY}` }] as const) {
      const { url } = await serve(() => reply);
      const text = JSON.stringify(await clientOf(`${url}/x`).call(body(prompt), KEY));
      expect(text).toContain('"kind":"failure"');
      expect(text).not.toContain(KEY);
      expect(text).not.toContain(prompt);
    }
  });
});
