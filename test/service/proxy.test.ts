import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { createClient } from '../../src/service/client.js';
import { completions } from '../../src/service/operation.js';
import { proxyFor } from '../../src/service/proxy.js';
import { verdicts } from '../../src/service/verdict.js';
import { type ProxyOptions, startProxy, type TestProxy } from '../support/proxy.js';
import { type Script, startScriptedService } from '../support/scripted-service.js';
import { TEST_ONLY_KEY, TEST_ONLY_VALID } from './test-only-certificates.js';

const of =
  (env: Readonly<Record<string, string>>) =>
  (name: string): string | undefined =>
    env[name];
const address = (target: string, env: Readonly<Record<string, string>>) =>
  proxyFor(target, of(env))?.address ?? null;

describe('the proxy for an address', () => {
  it('is named by the scheme, in small letters first', () => {
    const env = { HTTPS_PROXY: 'http://s:1', HTTP_PROXY: 'p:2' };
    expect(address('https://a.example/x', env)).toBe('http://s:1');
    expect(address('http://a.example/x', env)).toBe('http://p:2');
    expect(address('https://a.example/x', { ...env, https_proxy: 'https://t:3' })).toBe('https://t:3');
    expect(address('https://a.example/x', { HTTP_PROXY: 'http://p:2' })).toBeNull();
    expect(address('http://a.example/x', {})).toBeNull();
  });

  it.each([
    ['*', true],
    ['a.example', true],
    ['.a.example, other', true],
    ['*.example', true],
    ['example', true],
    ['other a.EXAMPLE:8443', true],
    ['a.example:443', false],
    ['b.example', false],
    ['xa.example', false],
    ['.', false],
    ['', false],
  ])('is none where NO_PROXY is %j: %s', (list, excepted) => {
    for (const name of ['NO_PROXY', 'no_proxy']) {
      const found = address('https://a.example:8443/x', { HTTPS_PROXY: 'http://s:1', [name]: list });
      expect(found === null).toBe(excepted);
    }
  });

  it.each([
    ['http://127.0.0.1:8000', '127.0.0.1', true],
    ['http://127.0.0.1:8000', '127.0.0.0/8', true],
    ['http://127.0.0.1:8000', '0.0.1', false],
    ['http://127.0.0.1:8000', '10.0.0.0/8,localhost', false],
    ['http://127.0.0.1:8000', '127.0.0.0/99', false],
    ['http://[::1]:8000', '::1', true],
    ['http://[::1]:8000', '[::1]:8000', true],
    ['http://[::1]:8000', '[::1]:80', false],
    ['http://[fd00::7]', 'fd00::/8', true],
  ])('of an address by number, %s with NO_PROXY %s: none is %s', (target, list, excepted) => {
    expect(address(target, { http_proxy: 'p:2', NO_PROXY: list }) === null).toBe(excepted);
  });

  it.each([
    ['socks5://user:canary@p:1', 'HTTPS_PROXY names a proxy of the kind socks5, which is not supported'],
    ['http://user:canary@p:99999', 'HTTPS_PROXY holds no address of a proxy (not shown'],
    ['http://user:canary%zz@p:1', 'the user or the password in HTTPS_PROXY is badly escaped (not shown)'],
  ])('is refused with the name of the variable and without its password: %s', (value, message) => {
    let caught: unknown;
    try {
      address('https://a.example', { HTTPS_PROXY: value });
    } catch (error) {
      caught = error;
    }
    expect(caught).toMatchObject({ code: 'bad_proxy', message: expect.stringContaining(message) });
    expect(inspect(caught)).not.toContain('canary@');
    // Not used, so not looked at.
    expect(address('https://a.example', { HTTPS_PROXY: value, NO_PROXY: '*' })).toBeNull();
  });

  it('fault 53: shows its password to no log, inspector or serialiser', () => {
    const proxy = proxyFor('http://a.example', of({ HTTP_PROXY: 'http://me:canary@p:2' }));
    const secret = Buffer.from('me:canary').toString('base64');
    for (const shown of [String(proxy), JSON.stringify({ proxy }), inspect(proxy, { showHidden: true })]) {
      expect(shown).not.toContain('canary');
      expect(shown).not.toContain(secret);
    }
    expect(proxy?.headers).toEqual(['proxy-authorization', `Basic ${secret}`]);
  });
});

describe('a call through a proxy', () => {
  const cleanups: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  async function through(
    options: ProxyOptions,
    { tls = false, user = '', script = () => ({}) }: { tls?: boolean; user?: string; script?: Script },
  ) {
    const service = await startScriptedService(
      script,
      tls ? { key: TEST_ONLY_KEY, cert: TEST_ONLY_VALID } : undefined,
    );
    const proxy: TestProxy = await startProxy(options);
    const url = `${service.url}/x?a=b`;
    const client = createClient({
      url,
      bearer: false,
      connections: 2,
      timeoutMs: 10_000,
      ca: TEST_ONLY_VALID,
      proxy: proxyFor(url, of({ [tls ? 'HTTPS_PROXY' : 'HTTP_PROXY']: `http://${user}${proxy.host}` })),
    });
    cleanups.push(
      () => service.close(),
      () => proxy.close(),
      () => client.close(),
    );
    return { service, proxy, client, call: () => client.call('{}', 'a-key-for-tests-only') };
  }
  const judged = async (exchange: ReturnType<Awaited<ReturnType<typeof through>>['call']>) =>
    verdicts(
      await exchange,
      0,
      { prompts: 1, choices: 1, withLogprobs: false, operation: completions },
      1,
    )[0];

  it('goes through a tunnel to a service with TLS: the proxy sees the host and no key', async () => {
    const { service, proxy, call } = await through({ user: 'me:a b' }, { tls: true, user: 'me:a%20b@' });
    const exchanges = await Promise.all([call(), call(), call(), call()]);
    expect(exchanges.map((each) => each.kind === 'response' && each.status)).toEqual([200, 200, 200, 200]);
    expect(service.requests[0]).toMatchObject({ method: 'POST', url: '/x?a=b' });
    expect(service.requests[0]?.headers).toMatchObject({ 'api-key': 'a-key-for-tests-only' });
    expect(service.requests[0]?.headers).not.toHaveProperty('proxy-authorization');
    const { host } = new URL(service.url);
    // As many connections as the client may have, each asked for once.
    expect(proxy.asked).toEqual([`CONNECT ${host}`, `CONNECT ${host}`]);
  });

  it('goes as a whole to a service without TLS', async () => {
    const { service, proxy, call } = await through({ user: 'me:secret' }, { user: 'me:secret@' });
    expect(await call()).toMatchObject({ kind: 'response', status: 200 });
    expect(proxy.asked).toEqual([`POST ${service.url}/x?a=b`]);
    expect(service.requests[0]?.headers).toMatchObject({ host: new URL(service.url).host });
    expect(service.requests[0]?.headers).not.toHaveProperty('proxy-authorization');
  });

  it.each([true, false])(
    'that the proxy refuses for lack of a password stops the run; TLS: %s',
    async (tls) => {
      const { service, proxy, call } = await through({ user: 'me:secret' }, { tls, user: 'me:wrong@' });
      const verdict = await judged(call());
      expect(verdict).toMatchObject({
        kind: 'stop',
        problem: { code: 'proxy_unauthorized', message: expect.stringContaining(`http://${proxy.host}`) },
        hint: expect.stringContaining('user and password of the proxy'),
      });
      expect(JSON.stringify(verdict)).not.toMatch(/wrong|secret/);
      expect(service.requests.length).toBe(0);
    },
  );

  it('has no user and password of the proxy in the answer, which it may quote as they are and in base64', async () => {
    const { service, call } = await through(
      {},
      {
        user: 'me:a%2Bsecret@',
        script: () => ({ status: 403, text: `who is me:a+secret bWU6YStzZWNyZXQ= me:a%2Bsecret` }),
      },
    );
    const answer = await call();
    expect(answer).toMatchObject({ kind: 'response', body: expect.stringContaining('[key]') });
    expect(JSON.stringify(answer)).not.toMatch(/secret|bWU6/);
    expect(service.requests.length).toBe(1);
  });

  it('that the proxy cannot make was not billed, and the proxy is named', async () => {
    const tunnel = await through({ refuse: 502 }, { tls: true });
    const { host } = new URL(tunnel.service.url);
    expect(await judged(tunnel.call())).toEqual({
      kind: 'retry',
      problem: {
        code: 'proxy_refused',
        message: `the proxy refuses to connect: ${host} through the proxy http://${tunnel.proxy.host} (HTTP 502)`,
      },
      latency_ms: expect.any(Number),
      connected: false,
      possiblyBilled: false,
    });
    const whole = await through({ refuse: 502 }, {});
    expect(await judged(whole.call())).toMatchObject({
      problem: {
        code: 'server_error',
        message: `Bad Gateway (HTTP 502, through the proxy http://${whole.proxy.host})`,
      },
    });
  });

  it('says so when there is no proxy', async () => {
    const { proxy, call } = await through({}, { tls: true });
    await proxy.close();
    expect(await judged(call())).toMatchObject({
      kind: 'retry',
      problem: { code: 'connection_refused', message: expect.stringContaining(`proxy http://${proxy.host}`) },
      possiblyBilled: false,
    });
  });

  it('fault 27: follows no redirect either', async () => {
    for (const tls of [true, false]) {
      const { service, call } = await through(
        {},
        { tls, script: () => ({ status: 307, headers: { location: 'http://elsewhere.example/' } }) },
      );
      expect(await judged(call())).toMatchObject({ kind: 'stop', problem: { code: 'redirected' } });
      expect(service.requests.length).toBe(1);
    }
  });
});
